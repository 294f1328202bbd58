"""The ledger keeps runs, cases, answers, verdicts and thumbnails; importing it loads no database library."""
