"""What users import is a promise: a name comes or goes only on purpose."""

from __future__ import annotations

import beholder
import beholder.testing

CLASSES = [
    *("Answer", "Brief", "Case", "Correction", "Finish", "Flag", "Judge", "Ledger", "Outcome", "Rubric"),
    *("AsyncSession", "Options", "ScriptedJudge", "Session", "Turn", "Usage", "Verdict"),
]
ERRORS = [
    *(
        "AnswerError",
        "BeholderError",
        "CaseError",
        "ImageError",
        "JudgeUnavailable",
        "LedgerError",
        "LedgerGone",
        "OverBudget",
    ),
    *("RubricError", "SetupError", "Unreachable", "UntrustedSuite", "UsageError", "Waiting"),
]
FILES = [
    *("RubricCheck", "build_demo", "check_rubric", "init", "list_rubrics", "list_styles", "new_rubric"),
    *("show_rubric", "view"),
]
FUNCTIONS = [
    "BestOf",
    "best_of",
    "judge",
    "judge_async",
    "judge_from",
    "judge_rubrics",
    "judge_rubrics_async",
    "make_briefs",
]
RUNS = [
    "Check",
    "ExamReport",
    "Measurements",
    "Plan",
    "Run",
    "RunObserver",
    "ScoreResult",
    "collect",
    "doctor",
    "export_ratings",
    "import_ratings",
    "list_runs",
    "measure",
    "plan",
    "qualify",
    "run",
    "score",
]
STATISTICS = [
    *("Agreement", "CalibrationResult", "Comparison", "Estimate", "Gate", "History"),
    *("agree", "calibrate", "compare", "estimate", "history"),
]
PARTS_OF_RESULTS = [
    *(
        "AspectEstimate",
        "CalibrationChoice",
        "ColumnChange",
        "HistoryLine",
        "JudgeAgreement",
        "JudgePlan",
        "JudgedCase",
    ),
    *("Measurement", "RatingsImport", "ReportCard", "RunProgress", "RunReport", "ScoreSummary", "Tally"),
    *("CaseImage", "CheckList", "Coverage", "CriterionResult", "Jury", "Problem", "RunRecord", "SentImage"),
    *("Preference", "PreferenceAnswer"),
    *("Transcript", "TranscriptTurn"),
]
ARENA = [
    *(
        "Arena",
        "ArenaAgreement",
        "ArenaEstimate",
        "ArenaStatistics",
        "Leaderboard",
        "ModelRating",
        "PairRating",
        "RaterAgreement",
    ),
    *(
        "VoteAgreement",
        "Votes",
        "agree_arena",
        "derive_votes",
        "estimate_arena",
        "fit_arena",
        "plan_arena",
        "read_votes",
        "run_arena",
        "show_arena",
    ),
]
OBSERVERS = ["CallObserver", "JudgeCall", "add_observer", "remove_observer"]
NAMES = [*CLASSES, *ERRORS, *FILES, *FUNCTIONS, *RUNS, *STATISTICS, *PARTS_OF_RESULTS, *ARENA, *OBSERVERS]


def test_the_list_is_the_list() -> None:
    assert sorted(beholder.__all__) == sorted(NAMES)


def test_every_name_is_there() -> None:
    for name in NAMES:
        assert getattr(beholder, name).__module__.startswith("beholder."), name


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(beholder, "Verdikt")
