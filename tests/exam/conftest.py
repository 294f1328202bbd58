"""Exams made once for all tests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from beholder.cases.case import Case
from beholder.exam.exam import exam_rubrics, write_exam
from beholder.rubrics.rubric import Rubric


@dataclass(frozen=True)
class Exam:
    rubric: Rubric
    folder: Path
    cases: list[Case]


@pytest.fixture(scope="session")
def quick_exams(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Exam]:
    """The small exam of every rubric, with the demo's photographs; of two rubrics with the same papers the first."""
    exams = {}
    for name in exam_rubrics():
        if name == "restyle-confidence":
            continue
        rubric, folder = Rubric.load(name), tmp_path_factory.mktemp("exams") / name
        exams[name] = Exam(rubric, folder, write_exam(rubric, folder, size="quick"))
    return exams
