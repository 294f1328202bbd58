"""Style sheets and scripts of the app; those it shares with the report are in `reports/assets`."""
