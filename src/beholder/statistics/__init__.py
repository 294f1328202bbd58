"""How far to trust a judge: agreement with people, comparison, calibration, estimation; each with its interval."""
