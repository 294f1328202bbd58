"""Beholder judges images with evidence: AI restyles, image edits, and what an assistant said about an image.

    import beholder
    from beholder import Case

    case = Case("p12", images={"original": "photo.jpg", "restyled": "out.png"}, fields={"style": "Anime"})
    verdict = beholder.judge("restyle", case, "openai:gpt-5-mini")

Names are imported when they are first used, so that `import beholder` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from beholder.api.judge import judge, judge_all, judge_all_async, judge_async
    from beholder.cases.case import Case
    from beholder.errors import (
        AnswerError,
        BeholderError,
        CaseError,
        ImageError,
        LedgerError,
        OverBudget,
        RubricError,
        SetupError,
        Unreachable,
        UsageError,
    )
    from beholder.judges.base import Judge
    from beholder.judges.factory import judge_from
    from beholder.judges.scripted import ScriptedJudge
    from beholder.ledger.ledger import Ledger
    from beholder.rubrics.brief import Brief
    from beholder.rubrics.rubric import Rubric
    from beholder.verdicts.answer import Answer, Finish, Turn, Usage
    from beholder.verdicts.verdict import Correction, Flag, Outcome, Verdict


__version__ = "0.1.0"

_HOMES = {
    "Case": "cases.case",
    "AnswerError": "errors",
    "BeholderError": "errors",
    "CaseError": "errors",
    "ImageError": "errors",
    "LedgerError": "errors",
    "OverBudget": "errors",
    "RubricError": "errors",
    "SetupError": "errors",
    "Unreachable": "errors",
    "UsageError": "errors",
    "judge_from": "judges.factory",
    "Answer": "verdicts.answer",
    "Finish": "verdicts.answer",
    "Judge": "judges.base",
    "Turn": "verdicts.answer",
    "Usage": "verdicts.answer",
    "ScriptedJudge": "judges.scripted",
    "Ledger": "ledger.ledger",
    "Brief": "rubrics.brief",
    "Rubric": "rubrics.rubric",
    "judge": "api.judge",
    "judge_all": "api.judge",
    "judge_all_async": "api.judge",
    "judge_async": "api.judge",
    "Correction": "verdicts.verdict",
    "Flag": "verdicts.verdict",
    "Outcome": "verdicts.verdict",
    "Verdict": "verdicts.verdict",
}

__all__ = [
    "Answer",
    "AnswerError",
    "BeholderError",
    "Brief",
    "Case",
    "CaseError",
    "Correction",
    "Finish",
    "Flag",
    "ImageError",
    "Judge",
    "Ledger",
    "LedgerError",
    "Outcome",
    "OverBudget",
    "Rubric",
    "RubricError",
    "ScriptedJudge",
    "SetupError",
    "Turn",
    "Unreachable",
    "Usage",
    "UsageError",
    "Verdict",
    "judge",
    "judge_all",
    "judge_all_async",
    "judge_async",
    "judge_from",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'beholder' has no attribute {name!r}")
    return getattr(importlib.import_module(f"beholder.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
