"""How far to trust a judge: agreement with people, comparison, calibration, estimation; each with its interval.

- `data`: scores and ratings as NumPy columns; `aspects`: matching what people rated with a judge's columns
- `bootstrap`: confidence intervals by cluster bootstrap, Student's t distribution
- `agreement`: `beholder agree`; `sentences`: its result, and that of `estimate`, in sentences
- `coefficients`, `raters`: agreement between two columns, and among people
- `pairs`, `comparison`, `significance`, `gate`: `beholder compare`, from pairing cases to tests, power and `--fail-on`
- `case_changes`: what became of every case of a comparison, as a light table
- `history`: `beholder history`, the trend over the runs of a suite, and what each of them took
- `calibration`: `beholder calibrate`; `calibration_features`, `_task`, `_recipes`, `_evaluation`: its data and maps
- `estimation`: `beholder estimate`, the mean human score of a run; `regression`: its arithmetic

Importing this package loads nothing; its modules load NumPy.
"""

DEFAULT_DRAWS = 2000  # of a bootstrap
DEFAULT_SEED = 0
