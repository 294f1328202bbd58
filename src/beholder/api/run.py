"""`Run`: a run in a ledger and everything that can be done with it; `list_runs` lists those of a ledger.

A `Run` holds no open connection: each method opens the ledger, and reading creates no file. So a run can be kept,
pickled, and used from any thread.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING

from beholder.api.files import (
    OutputFile,
    OutputKind,
    ReportRequest,
    RunReport,
    choose_report_format,
    open_output,
    refuse_ledger_path,
    write_run_report,
)
from beholder.api.judged_case import JudgedCase, check_images
from beholder.api.options import suggest_name
from beholder.cases.case import Case
from beholder.errors import UsageError
from beholder.ledger.copy import copy_runs
from beholder.ledger.export import FORMATS, csv_lines, json_lines, to_any_frame, to_frame
from beholder.ledger.ledger import Ledger, LedgerLike, open_ledger
from beholder.ledger.query import Tally, tally_groups, tally_verdicts
from beholder.ledger.types import FINISHED, WAITING, RunProgress, RunRecord, StoredVerdict, VerdictFilter
from beholder.reports.text import MAX_REPORT_MB, format_done, humanize_state, run_state
from beholder.runs.execution import RunMeans, choose_exit_code, find_missed_thresholds
from beholder.runs.ledger_access import correct_state, delete_run, refuse_active_run
from beholder.verdicts.verdict import Outcome, Verdict, format_count

if TYPE_CHECKING:
    from datetime import datetime
    from decimal import Decimal

    import datasets
    import pandas
    import polars

    from beholder.ledger.types import Comment
    from beholder.reports.run_data import ProgressCallback
    from beholder.runs.suite import Suite
    from beholder.statistics.calibration_features import CalibrationApplier, Progress


class Run:
    """A run in a ledger. Made by `run`, `Run.load`, `list_runs` and `Session.run`.

    `name`, `state`, `tags` and the like are as they were when the run was loaded; `refresh` reads them again. Verdicts
    and the summary are always read from the ledger.
    """

    def __init__(
        self,
        record: RunRecord,
        ledger: Ledger,
        suite: Suite | None = None,
        summary: Tally | None = None,
        progress: RunProgress | None = None,
    ) -> None:
        """Keep a run and where it is.

        Args:
            record: The run.
            ledger: Where it is.
            suite: With the thresholds that count; without it those that the run was started with.
            summary: If it was counted while the run was executed, so that it is not read from the ledger.
            progress: If it was read together with that of other runs.
        """
        self.record = record
        self.ledger = ledger.place
        self.address = ledger.address if ledger.path is None else os.path.abspath(ledger.address)
        given = record.suite if suite is None else {"fail_under": suite.fail_under, "max_unscored": suite.max_unscored}
        fail_under, max_unscored = given.get("fail_under"), given.get("max_unscored")
        self._fail_under: dict[str, float] = dict(fail_under) if isinstance(fail_under, Mapping) else {}
        self._max_unscored = max_unscored if isinstance(max_unscored, str | int | float) else None
        self._tally = summary
        self._progress = progress
        self._not_asked = summary.not_asked if summary else (progress or self._read_progress(ledger)).not_asked
        self._rated = 0
        self.calibration: CalibrationApplier | None = None
        """What calibrates the verdicts, if the run was made by `calibrated`."""

    @classmethod
    def load(cls, name: str = "latest", ledger: LedgerLike = None) -> Run:
        """Load a run.

        Args:
            name: The id of a run, the start of its id, its name (the newest run of that name), `latest`, `previous`
                (the one before the latest) or `tag:TAG` (the newest with that tag). `~N` after any of them is so many
                runs earlier: `latest~1`, of a name or an id among the runs of that name.
            ledger: The ledger: a path, a `postgresql://` URL or an open `Ledger`; by default BEHOLDER_LEDGER, else
                `beholder.db`.

        Raises:
            LedgerError: There is no such run or ledger.
        """
        with open_ledger(ledger) as opened:
            return cls(correct_state(opened, opened.run(name)), opened)

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def state(self) -> str:
        """`running`, `interrupted`, `waiting` (for a batch), `finished`, or `over_budget` if it has come to its end and
        cases were not asked; an unfinished review is `open`. Nobody works on a run that is `interrupted`: it was
        stopped or killed."""
        return run_state(self.record, self._not_asked)

    @property
    def tags(self) -> tuple[str, ...]:
        return self.record.tags

    @property
    def created(self) -> datetime:
        """When it was started, in UTC."""
        return self.record.created

    @property
    def total(self) -> int:
        """How many verdicts there are to give: cases × rubrics."""
        return self.record.total

    @property
    def spent_usd(self) -> Decimal | None:
        """What the run is known to have spent, in US dollars; `None` if nothing is known."""
        return self.record.spent_usd

    @property
    def reserved_usd(self) -> Decimal:
        """What the run may have spent beyond `spent_usd`, in US dollars: by calls and batch jobs that are in progress,
        or whose process was killed. The budget counts it. Read from the ledger each time."""
        with self.open() as ledger:
            return ledger.reserved_usd(self.id)

    def check_idle(self) -> None:
        """Raise `UsageError` if the run is under way, or its session is in use: it could not be deleted."""
        with self.open() as ledger:
            refuse_active_run(ledger, self.id)

    @property
    def progress(self) -> RunProgress:
        """How many verdicts there are, how many have a score, and the mean score."""
        if self._progress is not None:
            return self._progress
        with self.open() as ledger:
            return self._read_progress(ledger)

    def _read_progress(self, ledger: Ledger) -> RunProgress:
        return ledger.progress([self.id]).get(self.id, RunProgress())

    @property
    def summary(self) -> Tally:
        """The totals and means of the verdicts: outcomes, means by rubric and criterion, tokens, cost."""
        if self._tally is not None:
            return self._tally
        with self.open() as ledger:
            tally = ledger.tally(self.id) if self.calibration is None else tally_verdicts(self._stored(ledger))
        if self.record.state == FINISHED:
            self._tally = tally
        return tally

    @property
    def missed(self) -> list[str]:
        """A sentence for each threshold (`fail_under`, `max_unscored`) that the run has missed."""
        return find_missed_thresholds(self._means(), self._fail_under, self._max_unscored)

    @property
    def fail_under(self) -> Mapping[str, float]:
        """The lowest means that it may have: of `score` on a scale to 100, of a criterion on its own scale."""
        return dict(self._fail_under)

    @property
    def exit_code(self) -> int:
        """The exit code of `beholder run`: 0; 1 a threshold was missed; 3 some verdicts have no score and no
        `max_unscored` was given, or its calibration gave no verdict a rating. While the run is `waiting` for a batch 4
        if it has thresholds, else 0. Only the command has 130, for a run that a signal has interrupted."""
        if self.record.state == WAITING:
            return 4 if self._fail_under or self._max_unscored is not None else 0
        code = choose_exit_code(self._means(), self._fail_under, self._max_unscored)
        return code or (3 if self.why_uncalibrated else 0)

    @property
    def why_uncalibrated(self) -> str:
        """Why the calibration gave no verdict a rating, most often; empty where it gave one, or there is none."""
        if self.calibration is None and not self.record.suite.get("calibration"):
            return ""
        tally = self.summary
        if not tally.verdicts or tally.calibrated:
            return ""
        reasons = Counter(why for rubric in tally.rubrics.values() for why in rubric.uncalibrated.elements())
        return reasons.most_common(1)[0][0] if reasons else "no verdict has the number that it starts from"

    @property
    def passed(self) -> bool:
        """Whether no threshold was missed and nothing is missing: no score that the thresholds do not allow to, and
        not every rating by its calibration. `False` while the run is `waiting`: nothing is decided yet."""
        return self.record.state != WAITING and self.exit_code == 0

    def refresh(self) -> Run:
        """Read the run from the ledger again: its state, name and tags. Returns the run itself."""
        self._tally = self._progress = None
        with self.open() as ledger:
            self.record = correct_state(ledger, ledger.run(self.id))
            self._not_asked = self._read_progress(ledger).not_asked
        return self

    def calibrated(
        self,
        calibration: str | os.PathLike[str],
        features: str | os.PathLike[str] | None = None,
        *,
        anyway: bool = False,
        case: str | None = None,
        progress: Progress | None = None,
    ) -> Run:
        """Return the run with verdicts that also say how people would rate; the ledger stays as it is.

        Args:
            calibration: A file of `calibrate`. Images are measured if it needs that.
            features: A file of further numbers: CSV or JSONL with case, NAME, …
            anyway: Apply it also to another rubric, style or judge than it was fitted for.
            case: Only this case will be looked at.
            progress: Called while images are measured, with what is done, how many are done, and of how many.

        Raises:
            UsageError: A file cannot be read.
        """
        from beholder.statistics.calibration_features import load_calibration_applier

        more = None if features is None else Path(features)
        result = copy(self)
        result._tally = None
        with self.open() as ledger:
            result.calibration = load_calibration_applier(
                ledger, self.record, Path(calibration), more, anyway=anyway, case=case, progress=progress
            )
        return result

    def verdicts(
        self, *, outcome: str | None = None, rubric: str | None = None, answers: bool = False
    ) -> Iterator[Verdict]:
        """Stream the verdicts in the order of the cases, however many there are.

        Args:
            outcome: Only those with this outcome, such as "refused".
            rubric: Only those by this rubric.
            answers: Whether to load the raw answers.

        Raises:
            UsageError: There is no such outcome, or the run has no such rubric.
        """
        rubrics = [str(one.get("rubric")) for one in self.record.rubrics]
        for what, given, names in (("outcome", outcome, [str(one) for one in Outcome]), ("rubric", rubric, rubrics)):
            if given is not None and given not in names:
                raise UsageError(f"There is no {what} {given!r} here; {suggest_name(str(given), names)}")
        return self._iter_verdicts(outcome, rubric, answers)

    def _iter_verdicts(self, outcome: str | None, rubric: str | None, answers: bool) -> Iterator[Verdict]:
        with self.open() as ledger:
            for stored in self._stored(ledger, outcome, rubric, answers=answers):
                yield stored.verdict

    def case(self, case_id: str) -> JudgedCase:
        """Return one case with its verdicts in full, and whether its images have changed since.

        Raises:
            LedgerError: There is no such case in the run.
        """
        with self.open() as ledger:
            verdicts, case = ledger.verdict(self.id, case_id), ledger.case(self.id, case_id)
            transcripts = ledger.transcripts(self.id, case_id)
        if self.calibration is not None:
            verdicts = self.calibration.to_case(verdicts)
        return JudgedCase(self.id, case, tuple(check_images(case, verdicts)), tuple(verdicts), transcripts)

    def raw_answers(self, case_id: str) -> dict[str, list[str]]:
        """Return the judges' answers to a case as they came, by rubric. Raises `LedgerError` for an unknown case."""
        with self.open() as ledger:
            return ledger.raw_answers(self.id, case_id)

    def by_group(self, group: str) -> dict[str, Tally]:
        """Return a summary for each value of a group, such as `model`; cases without the group are under "".

        Raises:
            UsageError: No case is in such a group.
        """
        with self.open() as ledger:
            split = tally_groups(self._stored(ledger), group)
            if split.keys() == {""}:
                groups = sorted({name for stored in ledger.stored_verdicts(self.id) for name in stored.groups})
                listed = ", ".join(groups) or "none"
                raise UsageError(f"No case of this run is in a group {group!r}; there are {listed}.")
        return split

    def cases(self) -> Iterator[Case]:
        """Stream the cases that have a verdict, by id."""
        with self.open() as ledger:
            yield from ledger.cases(self.id)

    def frame(self) -> polars.DataFrame | pandas.DataFrame:
        """Return the verdicts as a frame, with the columns of `export`: of Polars if it is installed, else of pandas.

        Raises:
            SetupError: Neither is installed.
        """
        with self.open() as ledger:
            return to_any_frame(self._stored(ledger))

    def export(self, path: OutputFile, to: str | None = None, *, force: bool = False) -> None:
        """Write the verdicts to a file for other programs, in the order of the cases; see `beholder export`.

        Args:
            path: The file, or an open binary file.
            to: "csv", "jsonl" or "parquet"; by default what the file's name ends in, else "csv".
            force: Overwrite a file that is no export. Without it only an earlier export, or an empty file, is replaced.

        Raises:
            UsageError: The file cannot be written or is no export.
        """
        to = to or _ending_of(path).removeprefix(".") or "csv"
        if to not in FORMATS:
            raise UsageError(f"Verdicts are exported as {', '.join(FORMATS)}, not {to!r}.")
        with self.open() as ledger, open_output(ledger, path, OutputKind.EXPORT, force=force) as file:
            if to == "parquet":
                to_frame(self._stored(ledger)).write_parquet(file)
            elif to == "csv":
                file.writelines(csv_lines(lambda: self._stored(ledger)))
            else:
                file.writelines(json_lines(self._stored(ledger)))

    def to_dataset(self, *, images: bool = True) -> datasets.Dataset:
        """Return the verdicts as a dataset of Hugging Face, in memory, a row for each in the order of the cases.

        Its columns are the images by their roles, as `Image` features; the texts of the case by name; and those of
        `export`: `case`, groups, `outcome`, `score`, criteria as `KEY.score`. A text `model`, say, which `export` has
        too, is `text model`. A score that is missing is null, and `outcome` and `detail` say why. So the rows can be
        judged again: `run(cases=dataset)`.

        Args:
            images: Whether the images come along: the file as it was judged, or where it is gone or has changed, the
                small copy that the ledger has of it, if there is one.

        Raises:
            SetupError: `datasets` is not installed.
        """
        from beholder.api.dataset import make_dataset

        with self.open() as ledger:
            return make_dataset(ledger, self.id, self._stored(ledger), images=images)

    def report(
        self,
        path: OutputFile | None = None,
        *,
        format: str | None = None,
        max_mb: float = MAX_REPORT_MB,
        worst: int | None = None,
        against: str | Run | None = None,
        fail_under: Mapping[str, float] | None = None,
        group: str | None = None,
        progress: ProgressCallback | None = None,
        force: bool = False,
    ) -> RunReport:
        """Write the run as one HTML file with its images; or as Markdown, or as JUnit XML. See `beholder report`.

        Args:
            path: The file, or an open binary file; by default a file named after the run.
            format: "html", "md" or "junit"; by default what the file's name ends in, else "html".
            max_mb: How large an HTML file may be, in million bytes. Pictures lose detail until it fits; of a very
                large run it has reasons and pictures of the worst cases only.
            worst: Of HTML: only so many cases are in the file, those that failed and the worst. Its
                numbers are still of all cases.
            against: An older run: the report also says what changed since.
            fail_under: For JUnit: a case fails below these values, of `score` × 100 or of a criterion on its own scale.
            group: The group of cases that belong together, for intervals; else `source`.
            progress: Called with what is done, how many are done, and of how many.
            force: Overwrite a file that is no report. Without it only an earlier report, or an empty file, is replaced.

        Raises:
            UsageError: An argument is wrong, the file cannot be written or is no report, or this is a `calibrated` run.
        """
        if self.calibration is not None:
            raise UsageError("A report has no place for a calibration; verdicts(), frame() and export() apply it.")
        if isinstance(path, str | os.PathLike):
            with self.open() as ledger:
                refuse_ledger_path(ledger, Path(path))
        request = ReportRequest(
            choose_report_format(format, path), max_mb, group, fail_under or {}, progress, force, worst
        )
        if path is None:
            name = re.sub(r"[^\w.-]+", "-", self.name).strip("-.")[:80]  # what is safe in a file name
            path = f"{name or self.id}.{request.ending}"
        with self.open() as ledger:
            older = against.id if isinstance(against, Run) else against
            other = None if older is None else ledger.run(older)
            if other is not None and other.id == self.id:
                raise UsageError(f"A run is set against an older one, and {older!r} is the run {self.id} itself.")
            return write_run_report(ledger, self.record, other, request, path)

    def tag(self, *tags: str, remove: Sequence[str] = ()) -> tuple[str, ...]:
        """Add tags and remove others; return those that the run then has."""
        with self.open(read_only=False) as ledger:
            ledger.tag(self.id, *tags, remove=remove)
            self.record = ledger.run(self.id)
        return self.tags

    def untag(self, *tags: str) -> tuple[str, ...]:
        """Remove tags; return those that the run then has."""
        return self.tag(remove=tags)

    def star(self, *case_ids: str) -> None:
        """Give cases a star, by which the web app finds them again. Raises `LedgerError` for an unknown case."""
        with self.open(read_only=False) as ledger:
            for case_id in case_ids:
                ledger.star(self.id, case_id)

    def unstar(self, *case_ids: str) -> None:
        """Take the stars of cases away."""
        with self.open(read_only=False) as ledger:
            for case_id in case_ids:
                ledger.unstar(self.id, case_id)

    @property
    def starred(self) -> list[str]:
        """The ids of the cases with a star, sorted."""
        with self.open() as ledger:
            return sorted(ledger.starred(self.id))

    def comment(self, case_id: str, text: str, author: str = "") -> Comment:
        """Write a comment on a case. Raises `LedgerError` for an unknown case, and for an empty text."""
        with self.open(read_only=False) as ledger:
            return ledger.comment(self.id, case_id, text, author)

    def comments(self, case_id: str | None = None) -> list[Comment]:
        """Return the comments on a case, or on all cases, oldest first."""
        with self.open() as ledger:
            return ledger.comments(self.id, None if case_id is None else [case_id])

    def delete_comment(self, comment_id: str) -> None:
        """Delete a comment, by its `id`. Raises `LedgerError` if there is none."""
        with self.open(read_only=False) as ledger:
            ledger.delete_comment(self.id, comment_id)

    @property
    def views(self) -> dict[str, str]:
        """The saved views of the web app by name: the query of the address of each, such as `grade=F&sort=case`."""
        with self.open() as ledger:
            return ledger.views(self.id)

    def save_view(self, name: str, query: str) -> None:
        """Save the filters of the web app's list, as the query of its address, under a name."""
        with self.open(read_only=False) as ledger:
            ledger.save_view(self.id, name, query)

    def delete_view(self, name: str) -> None:
        """Delete a saved view."""
        with self.open(read_only=False) as ledger:
            ledger.delete_view(self.id, name)

    def search(self, text: str) -> list[str]:
        """Return the ids of the cases that a text is found in, in the order of the run.

        The text is part of the id or of a value of the groups; or each of its words begins a word in the case's texts.
        The first search in a run indexes its words, which takes some seconds for 100,000 cases.
        """
        with self.open(read_only=False) as ledger:
            ledger.index_texts(self.id)
            wanted = VerdictFilter(text=text, sort="order")
            return list(
                dict.fromkeys(one.verdict.case for one in ledger.browse(self.id, wanted, limit=self.total).verdicts)
            )

    def rename(self, name: str) -> None:
        """Give the run another name."""
        with self.open(read_only=False) as ledger:
            ledger.rename(self.id, name)
            self.record = ledger.run(self.id)

    def delete(self) -> None:
        """Delete the run with everything that only it used: verdicts, answers, thumbnails. There is no way back.

        Raises:
            UsageError: The run is under way, or its session is in use.
        """
        with self.open(read_only=False) as ledger:
            delete_run(ledger, self.id)

    def copy_to(self, ledger: str | os.PathLike[str]) -> Run:
        """Copy the run with its reviews into another ledger, which is created if there is none; see `ledger copy`.

        Raises:
            UsageError: It is the same ledger.
        """
        copy_runs(self.address, ledger, [self.id])
        return Run.load(self.id, ledger)

    def to_dict(self, *, by: str | None = None) -> dict[str, object]:
        """Return JSON values, as `beholder show --json` prints them; with `by`, also a summary for each value of a
        group."""
        values = {**record_to_dict(self.record), "state": self.state, "versions": dict(self.record.versions)}
        values |= self.summary.to_dict()
        if by is not None:
            values["groups"] = {by: {value: tally.to_dict() for value, tally in self.by_group(by).items()}}
        return values

    def list_entry(self) -> dict[str, object]:
        """Return JSON values without the summary, as `beholder runs --json` prints them.

        `done` of a review counts ratings that were begun, `rated` saved ones.
        """
        progress = self.progress
        rated = {"rated": self._rated, "cases": self.case_count} if self.record.is_review else {}
        values = {**record_to_dict(self.record), "state": self.state, "done": progress.done, "scored": progress.scored}
        return {**values, "score": progress.mean_score, "not_asked": progress.not_asked, **rated}

    @property
    def case_count(self) -> int:
        """The number of cases: `total` counts a verdict by each rubric."""
        return self.record.total // max(1, len(self.record.rubrics))

    @property
    def rated_count(self) -> int:
        """Of a review that was listed by `list_runs`: how many cases are rated and saved."""
        return self._rated

    def open(self, *, read_only: bool = True) -> Ledger:
        """Open the ledger of the run."""
        return Ledger.open(self.address, read_only=read_only)

    def __repr__(self) -> str:
        return f"<Run {self.id} {self.name!r}, {self.state}, {format_count(self.total, 'verdict')}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and (self.id, self.address) == (other.id, other.address)

    def __hash__(self) -> int:
        return hash((self.id, self.address))

    def _repr_html_(self) -> str:
        from beholder.reports.charts import html_result, html_sentences, html_table
        from beholder.reports.text import format_mean

        tally = self.summary
        outcomes = ", ".join(f"{count:,} {outcome}" for outcome, count in tally.outcomes.most_common())
        done = format_done(tally.verdicts, self.total, tally.not_asked)
        facts = [f"{humanize_state(self.state)}, {done}: {outcomes or 'none'}"]
        rows = [
            (name, key, f"{mean.count:,}", format_mean(key, mean.value, self.fail_under))
            for name, rubric in tally.rubrics.items()
            for key, mean in rubric.means().items()
        ]
        table = html_table(("rubric", "criterion", "scored", "mean"), rows)
        return html_result(f"Run {self.id} ({self.name})", [html_sentences([*facts, *self.missed]), table])

    def _stored(
        self, ledger: Ledger, outcome: str | None = None, rubric: str | None = None, *, answers: bool = False
    ) -> Iterator[StoredVerdict]:
        """Stream the verdicts, calibrated if there is a calibration."""
        if self.calibration is None:
            return ledger.stored_verdicts(self.id, outcome=outcome, rubric=rubric, answers=answers)
        # All verdicts on a case are calibrated together.
        return (
            stored
            for stored in self.calibration(ledger.stored_verdicts(self.id, answers=answers))
            if outcome in (None, stored.verdict.outcome) and rubric in (None, stored.verdict.rubric)
        )

    def _means(self) -> RunMeans:
        return RunMeans.of(self.summary, self.total)


def _ending_of(path: OutputFile | None) -> str:
    return Path(path).suffix.lower() if isinstance(path, str | os.PathLike) else ""


def list_runs(ledger: LedgerLike = None, *, tag: str | None = None, reviews: bool | None = False) -> list[Run]:
    """Return the runs of a ledger, newest first.

    Args:
        ledger: The ledger; see `Run.load`.
        tag: Only runs with this tag.
        reviews: The reviews by people instead, which are runs of their own; `None` for both.

    Raises:
        LedgerError: There is no such ledger.
    """
    with open_ledger(ledger) as opened:
        records = [
            correct_state(opened, one) for one in opened.runs(tag=tag) if reviews is None or one.is_review == reviews
        ]
        progress = opened.progress([record.id for record in records])
        rated = opened.rated_cases([record.id for record in records if record.is_review])
        listed = [Run(record, opened, progress=progress.get(record.id, RunProgress())) for record in records]
    for run in listed:
        run._rated = rated.get(run.id, 0)
    return listed


def load_session_run(run_id: str, ledger: LedgerLike, *, closed: bool) -> Run:
    """Load the run of a session. Until that is closed it is running, also before it has begun to judge."""
    if closed:
        return Run.load(run_id, ledger)
    with open_ledger(ledger) as opened:
        return Run(opened.run(run_id), opened)


def record_to_dict(record: RunRecord) -> dict[str, object]:
    """Return a run as JSON values, without its suite and rubrics."""
    return {
        "run": record.id,
        "name": record.name,
        "state": run_state(record),
        "created": record.created.isoformat(),
        "updated": record.updated.isoformat(),
        "total": record.total,
        "skipped": record.skipped,
        "spent_usd": None if record.spent_usd is None else float(record.spent_usd),
        "unpriced": record.unpriced,
        "tags": list(record.tags),
        "review": record.is_review,
    }
