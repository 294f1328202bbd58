"""How far to trust a judge: agreement with people, comparison, calibration, estimation; each with its interval.

- `data`: scores and ratings as NumPy columns; `aspects`: matching what people rated with a judge's columns
- `bootstrap`: confidence intervals by cluster bootstrap; `student_t`: Student's t distribution
- `agreement`, `agreement_sentences`: `beholder agree`, and its result in sentences
- `coefficients`, `raters`: agreement between two columns, and among people
- `pairs`, `comparison`, `significance`, `gate`: `beholder compare`, from pairing cases to tests, power and `--fail-on`
- `history`: `beholder history`, the trend over the runs of a suite
- `calibration`, `calibration_task`, `calibration_recipes`: `beholder calibrate`: choosing a map, its data, the recipes
- `estimation`: `beholder estimate`, the mean human score of a run

Importing this package loads nothing; its modules load NumPy.
"""

DEFAULT_DRAWS = 2000  # of a bootstrap
DEFAULT_SEED = 0
