"""Beholder judges images with evidence: AI restyles, image edits, and what an assistant said about an image.

    import beholder

    verdict = beholder.judge(
        "restyle", judge="openai:gpt-5-mini", original="photo.jpg", restyled="out.png", style="Anime"
    )

Names are imported when they are first used, so that `import beholder` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from beholder.api.arena import agree_arena, derive_votes, estimate_arena, fit_arena, read_votes
    from beholder.api.arena_run import Arena, plan_arena, run_arena, show_arena
    from beholder.api.async_session import AsyncSession
    from beholder.api.best_of import BestOf, best_of
    from beholder.api.calibration import CalibrationResult, Estimate, calibrate, estimate
    from beholder.api.checks import Check, CheckList, Measurements, doctor, measure
    from beholder.api.exam import ExamReport, qualify
    from beholder.api.execute import collect, plan, run
    from beholder.api.files import RunReport
    from beholder.api.judge import judge, judge_async, judge_rubrics, judge_rubrics_async, make_briefs
    from beholder.api.judged_case import CaseImage, JudgedCase
    from beholder.api.options import Options
    from beholder.api.rubrics import RubricCheck, check_rubric, init, list_rubrics, list_styles, new_rubric, show_rubric
    from beholder.api.run import Run, list_runs
    from beholder.api.score import ScoreResult, ScoreSummary, export_ratings, import_ratings, score
    from beholder.api.session import Session
    from beholder.api.statistics import Agreement, History, agree, compare, history
    from beholder.arena.agreement import ArenaAgreement, RaterAgreement, VoteAgreement
    from beholder.arena.estimation import ArenaEstimate
    from beholder.arena.leaderboard import Leaderboard, ModelRating, PairRating
    from beholder.arena.run_votes import ArenaStatistics
    from beholder.arena.votes import Votes
    from beholder.cases.case import Case
    from beholder.demo.suite import build_demo
    from beholder.errors import (
        AnswerError,
        BeholderError,
        CaseError,
        ImageError,
        JudgeUnavailable,
        LedgerError,
        LedgerGone,
        OverBudget,
        Problem,
        RubricError,
        SetupError,
        Unreachable,
        UntrustedSuite,
        UsageError,
        Waiting,
    )
    from beholder.exam.report_card import ReportCard
    from beholder.instruments.instrument import Measurement
    from beholder.judges.base import Judge
    from beholder.judges.factory import judge_from
    from beholder.judges.recorded import ScriptedJudge
    from beholder.ledger.ledger import Ledger
    from beholder.ledger.query import Tally
    from beholder.ledger.types import RunProgress, RunRecord
    from beholder.providers.base import CallObserver, JudgeCall, add_observer, remove_observer
    from beholder.reviews.ratings import RatingsImport
    from beholder.rubrics.brief import Brief
    from beholder.rubrics.rubric import Rubric
    from beholder.runs.engine import RunObserver
    from beholder.runs.plan import JudgePlan, Plan
    from beholder.statistics.agreement import JudgeAgreement
    from beholder.statistics.calibration import CalibrationChoice
    from beholder.statistics.comparison import Comparison
    from beholder.statistics.estimation import AspectEstimate
    from beholder.statistics.gate import Gate
    from beholder.statistics.history import HistoryLine
    from beholder.statistics.significance import ColumnChange
    from beholder.verdicts.answer import Answer, Finish, Transcript, TranscriptTurn, Turn, Usage
    from beholder.verdicts.verdict import (
        Correction,
        Coverage,
        CriterionResult,
        Flag,
        Jury,
        Outcome,
        Preference,
        PreferenceAnswer,
        SentImage,
        Verdict,
    )
    from beholder.web import view


__version__ = "0.1.0"

_HOMES = {
    "Agreement": "api.statistics",
    "CalibrationResult": "api.calibration",
    "Comparison": "statistics.comparison",
    "Estimate": "api.calibration",
    "Gate": "statistics.gate",
    "History": "api.statistics",
    "agree": "api.statistics",
    "calibrate": "api.calibration",
    "compare": "api.statistics",
    "estimate": "api.calibration",
    "estimate_arena": "api.arena",
    "history": "api.statistics",
    "Case": "cases.case",
    "AnswerError": "errors",
    "BeholderError": "errors",
    "CaseError": "errors",
    "ImageError": "errors",
    "JudgeUnavailable": "errors",
    "LedgerError": "errors",
    "LedgerGone": "errors",
    "OverBudget": "errors",
    "RubricError": "errors",
    "SetupError": "errors",
    "Unreachable": "errors",
    "UntrustedSuite": "errors",
    "UsageError": "errors",
    "Waiting": "errors",
    "judge_from": "judges.factory",
    "Answer": "verdicts.answer",
    "Finish": "verdicts.answer",
    "Judge": "judges.base",
    "Turn": "verdicts.answer",
    "Usage": "verdicts.answer",
    "ScriptedJudge": "judges.recorded",
    "Ledger": "ledger.ledger",
    "Brief": "rubrics.brief",
    "Rubric": "rubrics.rubric",
    "RubricCheck": "api.rubrics",
    "build_demo": "demo.suite",
    "check_rubric": "api.rubrics",
    "init": "api.rubrics",
    "list_rubrics": "api.rubrics",
    "list_styles": "api.rubrics",
    "new_rubric": "api.rubrics",
    "show_rubric": "api.rubrics",
    "view": "web",
    "run": "api.execute",
    "judge": "api.judge",
    "judge_async": "api.judge",
    "judge_rubrics": "api.judge",
    "judge_rubrics_async": "api.judge",
    "make_briefs": "api.judge",
    "Options": "api.options",
    "AsyncSession": "api.async_session",
    "Session": "api.session",
    "Run": "api.run",
    "list_runs": "api.run",
    "Correction": "verdicts.verdict",
    "Flag": "verdicts.verdict",
    "Outcome": "verdicts.verdict",
    "Verdict": "verdicts.verdict",
    "collect": "api.execute",
    "plan": "api.execute",
    "plan_arena": "api.arena_run",
    "Plan": "runs.plan",
    "import_ratings": "api.score",
    "export_ratings": "api.score",
    "score": "api.score",
    "ScoreResult": "api.score",
    "measure": "api.checks",
    "Measurements": "api.checks",
    "doctor": "api.checks",
    "Check": "api.checks",
    "qualify": "api.exam",
    "ExamReport": "api.exam",
    "AspectEstimate": "statistics.estimation",
    "CalibrationChoice": "statistics.calibration",
    "ColumnChange": "statistics.significance",
    "HistoryLine": "statistics.history",
    "JudgeAgreement": "statistics.agreement",
    "JudgePlan": "runs.plan",
    "JudgedCase": "api.judged_case",
    "Measurement": "instruments.instrument",
    "RatingsImport": "reviews.ratings",
    "ReportCard": "exam.report_card",
    "RunProgress": "ledger.types",
    "RunReport": "api.files",
    "ScoreSummary": "api.score",
    "Tally": "ledger.query",
    "RunObserver": "runs.engine",
    "CallObserver": "providers.base",
    "CaseImage": "api.judged_case",
    "CheckList": "api.checks",
    "Coverage": "verdicts.verdict",
    "CriterionResult": "verdicts.verdict",
    "JudgeCall": "providers.base",
    "Jury": "verdicts.verdict",
    "Problem": "errors",
    "RunRecord": "ledger.types",
    "Preference": "verdicts.verdict",
    "PreferenceAnswer": "verdicts.verdict",
    "SentImage": "verdicts.verdict",
    "Transcript": "verdicts.answer",
    "TranscriptTurn": "verdicts.answer",
    "add_observer": "providers.base",
    "remove_observer": "providers.base",
    "Arena": "api.arena_run",
    "run_arena": "api.arena_run",
    "show_arena": "api.arena_run",
    "ArenaStatistics": "arena.run_votes",
    "ArenaAgreement": "arena.agreement",
    "ArenaEstimate": "arena.estimation",
    "RaterAgreement": "arena.agreement",
    "VoteAgreement": "arena.agreement",
    "Leaderboard": "arena.leaderboard",
    "ModelRating": "arena.leaderboard",
    "PairRating": "arena.leaderboard",
    "Votes": "arena.votes",
    "agree_arena": "api.arena",
    "derive_votes": "api.arena",
    "fit_arena": "api.arena",
    "read_votes": "api.arena",
    "BestOf": "api.best_of",
    "best_of": "api.best_of",
}

__all__ = [
    "Agreement",
    "Answer",
    "AnswerError",
    "Arena",
    "ArenaAgreement",
    "ArenaEstimate",
    "ArenaStatistics",
    "AspectEstimate",
    "AsyncSession",
    "BeholderError",
    "BestOf",
    "Brief",
    "CalibrationChoice",
    "CalibrationResult",
    "CallObserver",
    "Case",
    "CaseError",
    "CaseImage",
    "Check",
    "CheckList",
    "ColumnChange",
    "Comparison",
    "Correction",
    "Coverage",
    "CriterionResult",
    "Estimate",
    "ExamReport",
    "Finish",
    "Flag",
    "Gate",
    "History",
    "HistoryLine",
    "ImageError",
    "Judge",
    "JudgeAgreement",
    "JudgeCall",
    "JudgePlan",
    "JudgeUnavailable",
    "JudgedCase",
    "Jury",
    "Leaderboard",
    "Ledger",
    "LedgerError",
    "LedgerGone",
    "Measurement",
    "Measurements",
    "ModelRating",
    "Options",
    "Outcome",
    "OverBudget",
    "PairRating",
    "Plan",
    "Preference",
    "PreferenceAnswer",
    "Problem",
    "RaterAgreement",
    "RatingsImport",
    "ReportCard",
    "Rubric",
    "RubricCheck",
    "RubricError",
    "Run",
    "RunObserver",
    "RunProgress",
    "RunRecord",
    "RunReport",
    "ScoreResult",
    "ScoreSummary",
    "ScriptedJudge",
    "SentImage",
    "Session",
    "SetupError",
    "Tally",
    "Transcript",
    "TranscriptTurn",
    "Turn",
    "Unreachable",
    "UntrustedSuite",
    "Usage",
    "UsageError",
    "Verdict",
    "VoteAgreement",
    "Votes",
    "Waiting",
    "add_observer",
    "agree",
    "agree_arena",
    "best_of",
    "build_demo",
    "calibrate",
    "check_rubric",
    "collect",
    "compare",
    "derive_votes",
    "doctor",
    "estimate",
    "estimate_arena",
    "export_ratings",
    "fit_arena",
    "history",
    "import_ratings",
    "init",
    "judge",
    "judge_async",
    "judge_from",
    "judge_rubrics",
    "judge_rubrics_async",
    "list_rubrics",
    "list_runs",
    "list_styles",
    "make_briefs",
    "measure",
    "new_rubric",
    "plan",
    "plan_arena",
    "qualify",
    "read_votes",
    "remove_observer",
    "run",
    "run_arena",
    "score",
    "show_arena",
    "show_rubric",
    "view",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'beholder' has no attribute {name!r}")
    return getattr(importlib.import_module(f"beholder.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
