"""How far to trust a judge: agreement with people, comparison of runs, calibration, estimates; each with its interval."""
