"""The exam of `beholder qualify`: papers with known truth, answered by a judge in ordinary runs, and graded.

- `paper`: Paper, Photo, sizes, and loading photographs; `damage`: graded damage to pixels and prompt injections
- `image_papers`, `text_papers`: the papers of each rubric, and which criteria each should lower
- `exam`: writes an exam into a folder, and makes the suites that ask it, some papers a second time and in rubric
  variants
- `results`: reads the answers from the ledger; `report_card`: the statistics, marks and pass marks; `grading`: one
  function for each metric

The cases carry their truth in their groups, which no judge sees.
"""

from pathlib import Path

DEFAULT_RUBRICS = ("edit-preservation", "restyle", "description")
DEFAULT_FOLDER = Path("exam")
