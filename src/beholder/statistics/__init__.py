"""How far to trust a judge: agreement with people, comparison, calibration, estimates; each number with its interval."""
