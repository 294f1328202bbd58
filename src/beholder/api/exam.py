"""`qualify`: let a judge take an exam whose truth is known, and read its report card. No person is needed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from beholder.api.arguments import merge_options
from beholder.api.execute import RunHooks, execute_run
from beholder.api.loop import run_in_background
from beholder.api.options import OptionsLike
from beholder.api.run import Run
from beholder.errors import SetupError, UsageError
from beholder.exam import DEFAULT_FOLDER, DEFAULT_RUBRICS
from beholder.exam.exam import ExamSheet, exam_notes, find_runs, make_sheets, plan_sheets, prepare_exam, sum_spent
from beholder.exam.grading import make_report_card
from beholder.exam.report_card import ReportCard
from beholder.exam.results import load_results, sitting_tag
from beholder.judges.base import INSTRUMENTS, Judge, check_judges
from beholder.judges.factory import check_judge_name, judge_from
from beholder.ledger.ledger import Ledger, LedgerLike, open_ledger
from beholder.ledger.types import FINISHED
from beholder.rubrics.load import load_rubrics
from beholder.rubrics.rubric import Rubric
from beholder.runs.execution import open_existing_ledger, prepare_run
from beholder.runs.limits import Budget, RunLimits
from beholder.runs.plan import JudgePlan
from beholder.runs.suite_file import rename_flags
from beholder.runs.suite_judges import require_prices
from beholder.verdicts.verdict import ANSWERED_OUTCOMES

PathLike = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class ExamReport:
    """What a judge came to in its exams: a report card for each rubric.

    Attributes:
        cards: The report cards.
        unanswered: How many questions have no answer; the same call asks them again.
    """

    cards: tuple[ReportCard, ...]
    unanswered: int = 0

    @classmethod
    def load(cls, *runs: str | Run, ledger: LedgerLike = None) -> ExamReport:
        """Load the report cards of earlier exams, by the first run of each. Raises `UsageError` for other runs."""
        places = [run.address for run in runs if isinstance(run, Run)]
        with open_ledger(ledger if ledger is not None or not places else places[0]) as opened:
            cards = [_load_card(opened, run.id if isinstance(run, Run) else run) for run in runs]
        return cls(tuple(cards), sum(card.missing for card in cards))

    @property
    def failed(self) -> bool:
        """Whether a pass mark was missed."""
        return any(card.failed for card in self.cards)

    def exit_code(self, *, strict: bool = False) -> int:
        """The exit code of `beholder qualify`: 0; 1 if `strict` and a pass mark was missed; 3 for missing answers."""
        return 1 if strict and self.failed else 3 if self.unanswered else 0

    def to_dict(self) -> dict[str, object]:
        """Return JSON values, as `beholder qualify --json` prints them."""
        return {"cards": [card.to_dict() for card in self.cards]}

    def __repr__(self) -> str:
        described = "; ".join(f"{card.judge} in {card.rubric}: {card.describe()}" for card in self.cards)
        return f"<ExamReport, {described}>"

    def _repr_html_(self) -> str:
        from beholder.reports.charts import html_result, html_table

        rows = [(card.judge, card.rubric, f"{card.papers:,}", card.describe()) for card in self.cards]
        return html_result("Exam", [html_table(("judge", "rubric", "papers", "result"), rows)])


def qualify(
    judge: str = INSTRUMENTS,
    /,
    *,
    rubric: str | Sequence[str] = (),
    photos: PathLike | Sequence[PathLike] = (),
    size: str = "usual",
    seed: int = 0,
    folder: PathLike = DEFAULT_FOLDER,
    ledger: LedgerLike = None,
    budget: float | None = None,
    fresh: bool = False,
    progress: bool | None = None,
    options: OptionsLike = None,
    **settings: object,
) -> ExamReport:
    """Let a judge take an exam, and return its report card. If it was stopped, the same call resumes it.

    Papers are made from photographs: known damage at graded strength, swaps, omissions, inventions, texts that demand
    full marks. An exam asks hundreds of questions: give a model a `budget`.

    Args:
        judge: Who takes the exam: a name such as "openai:gpt-5-mini", or "instruments".
        rubric: The rubrics to be examined in; by default edit-preservation, restyle and description.
        photos: Photographs, or folders of them; by default those of the demo.
        size: How many papers: "quick", "usual" or "full".
        seed: Which papers: the same seed sets the same exam, to the byte.
        folder: Where the papers are put.
        ledger: Where the runs are stored; see `run`.
        budget: US dollars that are never passed, by all runs of the exam together.
        fresh: Take it again, and ask even what is answered already.
        progress: Whether to show a progress bar; by default on a terminal.
        options: How the judge is asked; see `run`.
        **settings: The same, as keys of `suite.yaml`: `base_url`, `params`, `concurrency` …

    Raises:
        UsageError: An argument is wrong, or the folder holds something else.
        SetupError: The judge cannot be asked, or can answer none of the rubrics.
    """
    opened = ledger if isinstance(ledger, Ledger) else None
    place = opened.address if opened else os.fspath(ledger) if isinstance(ledger, os.PathLike) else ledger
    flags = {**merge_options(rename_flags(settings), options), "ledger": place, "budget": budget}
    files = [photos] if isinstance(photos, str | os.PathLike) else photos
    sitting = ExamSitting.prepare(
        judge,
        flags,
        [rubric] if isinstance(rubric, str) else rubric,
        photos=[Path(photo) for photo in files],
        seed=seed,
        size=size,
        folder=Path(folder),
    )
    return sitting.take(RunHooks(progress), fresh=fresh)


@dataclass(frozen=True, slots=True)
class ExamSitting:
    """The exams of a judge, ready to be taken: the sheets of each rubric, and notes for whoever reads the result."""

    sheets: tuple[tuple[ExamSheet, ...], ...]
    notes: tuple[str, ...]

    @classmethod
    def prepare(
        cls,
        judge: str,
        flags: Mapping[str, object],
        rubrics: Sequence[str],
        *,
        photos: Sequence[Path],
        seed: int,
        size: str,
        folder: Path,
    ) -> ExamSitting:
        """Write the papers of all rubrics, or find them; see `qualify`."""
        if not isinstance(judge, str):
            raise UsageError(f"The judge of an exam is given by its name, and {type(judge).__name__} is none.")
        check_judge_name(judge)  # before papers are written
        chosen = _select_rubrics(rubrics, judge)
        notes = dict.fromkeys(note for _, asked in chosen for note in exam_notes(asked, photos))
        exams = [
            prepare_exam(name, asked, folder / asked.name, photos=photos, seed=seed, size=size)
            for name, asked in chosen
        ]
        sheets = tuple(tuple(make_sheets(exam, {**flags, "judges": (judge,)})) for exam in exams)
        require_prices(sheets[0][0].suite)
        return cls(sheets, tuple(notes))

    @property
    def every_sheet(self) -> list[ExamSheet]:
        return [sheet for sheets in self.sheets for sheet in sheets]

    def plan(self, *, fresh: bool = False) -> JudgePlan:
        """Return what the exams would ask and cost. Asks nobody."""
        ledger = open_existing_ledger(self.every_sheet[0].suite, read_only=True)
        try:
            used = None if fresh else ledger
            return run_in_background(lambda stop: plan_sheets(self.every_sheet, used, fresh=fresh))
        finally:
            if ledger:
                ledger.close()

    def take(self, hooks: RunHooks, *, fresh: bool = False) -> ExamReport:
        """Let the judge answer all sheets, and grade them.

        Args:
            hooks: How each run is driven and watched.
            fresh: Ask even what is answered already.

        Raises:
            KeyboardInterrupt: A run was stopped.
        """
        suite = self.every_sheet[0].suite
        with Ledger.open(suite.ledger_place(), create=True) as ledger:
            runs = set() if fresh else find_runs(self.every_sheet, ledger)
            taken = [_take_sheets(sheets, ledger, runs, hooks, fresh=fresh) for sheets in self.sheets]
            cards = [_load_card(ledger, first) for first, _ in taken]
        return ExamReport(tuple(cards), sum(unanswered for _, unanswered in taken))


def _take_sheets(
    sheets: Sequence[ExamSheet], ledger: Ledger, runs: set[str], hooks: RunHooks, *, fresh: bool
) -> tuple[str, int]:
    """Let the judge answer the sheets of one exam; return the id of the first run, and how many have no answer.

    `runs` are those of all exams, which share the budget; new ones are added.
    """
    first, unanswered = "", 0
    for sheet in sheets:
        limit = sheet.suite.budget_usd()
        budget = Budget(limit)
        with prepare_run(sheet.suite, ledger, fresh=fresh, limits=RunLimits(budget)) as suite_run:
            if limit is not None:
                budget.limit = limit - sum_spent(runs - {suite_run.id}, ledger)
            runs.add(suite_run.id)
            first = first or suite_run.id
            if suite_run.id != first:
                ledger.tag(suite_run.id, sitting_tag(first))
            hooks.begin(suite_run)
            if execute_run(suite_run, hooks).record.state != FINISHED:
                raise KeyboardInterrupt
        outcomes = ledger.tally(suite_run.id).outcomes
        unanswered += outcomes.total() - sum(outcomes[outcome] for outcome in ANSWERED_OUTCOMES)
    return first, unanswered


def _select_rubrics(names: Sequence[str], judge: str) -> list[tuple[str, Rubric]]:
    """Return the rubrics of the exam, each with the name that a suite finds it by.

    If a name stands for several rubrics, those that the judge cannot answer are skipped.

    Raises:
        SetupError: The judge can answer none of the rubrics of a name.
    """
    chosen: dict[str, Rubric] = {}
    for name in names or DEFAULT_RUBRICS:
        every = rubrics = load_rubrics(name)
        if judge == INSTRUMENTS:
            offline = judge_from(INSTRUMENTS)
            check_judges([offline], rubrics)
            rubrics = tuple(rubric for rubric in rubrics if _is_able(offline, rubric))
        chosen |= {rubric.name if name != rubric.name and len(every) > 1 else name: rubric for rubric in rubrics}
    return list(chosen.items())


def _is_able(judge: Judge, rubric: Rubric) -> bool:
    try:
        check_judges([judge], [rubric])
    except SetupError:
        return False
    return True


def _load_card(ledger: Ledger, run: str) -> ReportCard:
    return make_report_card(load_results(ledger, run))
