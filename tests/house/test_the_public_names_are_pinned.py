"""What users import is a promise: a name comes or goes only on purpose."""

from __future__ import annotations

import beholder
import beholder.testing

CLASSES = [
    *("Answer", "Brief", "Case", "Correction", "Finish", "Flag", "Judge", "Ledger", "Outcome", "Rubric"),
    *("ScriptedJudge", "Turn", "Usage", "Verdict"),
]
ERRORS = [
    *(
        "AnswerError",
        "BeholderError",
        "CaseError",
        "ImageError",
        "LedgerError",
        "OverBudget",
        "RubricError",
        "SetupError",
        "Unreachable",
    ),
    "UsageError",
]
FUNCTIONS = ["judge", "judge_all", "judge_all_async", "judge_async", "judge_from"]
NAMES = [*CLASSES, *ERRORS, *FUNCTIONS]


def test_the_list_is_the_list() -> None:
    assert sorted(beholder.__all__) == sorted(NAMES)


def test_every_name_is_there() -> None:
    for name in NAMES:
        assert getattr(beholder, name).__module__.startswith("beholder."), name


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(beholder, "Verdikt")
