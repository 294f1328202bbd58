"""`Ledger`: the one class through which the rest of Beholder reads and writes a ledger.

Every method opens its own transaction (`connection`), finds the run by its id or name, and calls a function of `runs`,
`read`, `write`, `query` or `integrity`, where the SQL is. Its methods for several processes are in `leases`, those for
batch jobs in `batch_jobs`, for stars, comments and views in `marks`, for the index of words in `search`. Nothing
outside this package sees a connection.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, TypedDict, Unpack

from beholder.cases.case import Case
from beholder.errors import LedgerError, UsageError
from beholder.ledger import batch_jobs, integrity, leases, query, read, runs, search, write
from beholder.ledger.batch_jobs import BatchJobStore
from beholder.ledger.encoding import StoredExtract, storable_text, to_json_text
from beholder.ledger.leases import WorkerStore
from beholder.ledger.locks import AnswerLocks
from beholder.ledger.marks import MarkStore
from beholder.ledger.search import SearchStore
from beholder.ledger.types import (
    FINISHED,
    AnswerKey,
    Entry,
    FilterValues,
    RunCounts,
    RunProgress,
    RunRecord,
    StoredAnswer,
    StoredVerdict,
    VerdictFilter,
    VerdictKey,
    VerdictPage,
    WriteToken,
)
from beholder.verdicts.answer import Transcript
from beholder.verdicts.verdict import Verdict

if TYPE_CHECKING:
    from decimal import Decimal

    import polars


if TYPE_CHECKING:
    import polars


class RunChanges(TypedDict, total=False):
    """The fields of a run that may change after it was started."""

    name: str
    state: str
    total: int
    skipped: int
    tags: Sequence[str]


class Ledger(BatchJobStore, WorkerStore, MarkStore, SearchStore):
    """An open ledger. It may be used from any thread, and by several processes at the same time.

    Every problem with the file or the server is a `LedgerError` of one sentence. Parameters called `run` take the id
    of a run, the start of its id if no other run starts so, its name (the newest run of that name), `latest`,
    `previous` (the one before the latest) or `tag:TAG` (the newest run with that tag). `~N` after any of them is so
    many runs earlier: `latest~1`, of a name or an id among the runs of that name, of a tag among those that have it.
    """

    # Runs

    def start(self, run: RunRecord) -> None:
        """Store a new run. Anything in it that looks like a secret key is redacted."""
        with self._writing() as connection:
            runs.insert_run(connection, run)

    def find_or_create(
        self,
        run: RunRecord,
        *,
        fresh: bool,
        same_name: bool = False,
        keep_finished_name: bool = False,
        sole_of: str = "",
    ) -> tuple[RunRecord, bool]:
        """Return the newest run with the fingerprint of `run`, or store `run` if there is none.

        Of several processes that call this at the same time exactly one starts the run.

        Args:
            run: The run to start if there is none to resume.
            fresh: Resume only a run that was itself started with `fresh` (its suite says so) and is not finished.
            same_name: Resume only a run that also has the name of `run`.
            keep_finished_name: Do not resume a finished run of another name, which the caller would rename.
            sole_of: Refuse if a run of this name has another fingerprint that begins with this.

        Returns:
            The run, and whether it was started by this call.

        Raises:
            LedgerError: The ledger cannot be written, or as `sole_of` says.
        """
        with self._writing() as connection:
            name = storable_text(run.name) if same_name else None
            if sole_of and (other := runs.find_other_run(connection, run, sole_of)) is not None:
                raise LedgerError(
                    f"The ledger {self.place!r} has a run {run.name!r} of another judge, number of samples or options "
                    f"({other}), and a budget is for one run: give this one another name."
                )
            existing = runs.find_newest_run(connection, run.fingerprint, name)
            if existing is not None and keep_finished_name and existing.state == FINISHED:
                existing = runs.find_newest_run(connection, run.fingerprint, storable_text(run.name))
            if existing is not None and (
                not fresh or (existing.suite.get("fresh") is True and existing.state != FINISHED)
            ):
                return existing, False
            runs.check_name(run.name)
            runs.insert_run(connection, run)
        return run, True

    def run(self, name: str = "latest") -> RunRecord:
        """Return one run. Raises `LedgerError` if there is none of that name, or several ids start so."""
        with self._reading() as connection:
            return runs.to_run_record(runs.find_run(connection, name, self.place))

    def runs(self, *, tag: str | None = None) -> list[RunRecord]:
        """Return all runs, newest first: in the order in which they were started, whatever the clock said."""
        with self._reading() as connection:
            records = runs.read_runs(connection)
        return records if tag is None else [record for record in records if tag in record.tags]

    def find(self, fingerprint: str) -> RunRecord | None:
        """Return the newest run with that fingerprint."""
        with self._reading() as connection:
            return runs.find_newest_run(connection, fingerprint)

    def progress(self, runs: Sequence[str] | None = None) -> dict[str, RunProgress]:
        """Return how far runs are, by id; runs without verdicts are left out.

        Args:
            runs: Ids of runs; by default all runs.
        """
        with self._reading() as connection:
            return query.read_progress(connection, runs)

    def update(self, run: str, **changes: Unpack[RunChanges]) -> None:
        """Change fields of a run, and the time of its last change."""
        unknown = changes.keys() - RunChanges.__annotations__.keys()
        if unknown:
            raise TypeError(f"a run has no {', '.join(sorted(unknown))} to change")
        values: dict[str, object] = dict(changes)
        if "state" in changes:
            values["state"] = runs.check_state(changes["state"])
        if "name" in changes:
            values["name"] = storable_text(changes["name"])
        if "tags" in changes:
            values["tags"] = to_json_text([storable_text(tag) for tag in changes["tags"]])
        self._write(runs.update_run, run, **values)

    def update_suite(self, run: str, **changes: object) -> None:
        """Change entries of the suite that is stored with a run (a review's order)."""
        self._write(runs.update_suite, run, **changes)

    def add_rubric(self, run: str, rubric: Mapping[str, object]) -> None:
        """Add a rubric to a run that grows, unless it has it already.

        Raises:
            LedgerError: The run has another rubric of that name.
        """
        self._write(runs.add_rubric, run, rubric)

    def rename(self, run: str, name: str) -> None:
        if not storable_text(name).strip():
            raise LedgerError("A run's name must not be empty.")
        runs.check_name(name)
        self.update(run, name=name)

    def tag(self, run: str, *tags: str, remove: Sequence[str] = ()) -> tuple[str, ...]:
        """Add tags to a run and remove others. Returns the tags that it then has."""
        if any(not storable_text(tag).strip() for tag in tags):
            raise LedgerError("A tag must not be empty.")
        with self._writing() as connection:
            row = runs.find_run(connection, run, self.place)
            before = json.loads(row.tags)
            after = [tag for tag in dict.fromkeys((*before, *map(storable_text, tags))) if tag not in remove]
            runs.update_run(connection, row.number, tags=to_json_text(after))
        return tuple(after)

    def delete(self, run: str, has_ended: Callable[[str], bool] = lambda holder: True) -> None:
        """Delete a run with its cases and verdicts, and the answers and thumbnails that no other run refers to.

        A file becomes smaller, and nothing of the run stays readable in it; PostgreSQL does that when it next vacuums.

        Args:
            run: The run.
            has_ended: Whether a worker whose lease has not expired is known to have ended; see
                `runs.ledger_access.delete_run`. By default the run is deleted whoever works on it.

        Raises:
            UsageError: A worker on the run has not ended.
        """
        with self._writing() as connection:
            number = self._run_number(connection, run)
            active = [holder for holder in leases.read_workers(connection, number) if not has_ended(holder)]
            if active:
                raise UsageError(describe_use(run, active))
            search.forget_texts(connection, number)
            runs.delete_run(connection, number)
        with self._backend.translate_errors(self.place):
            self._backend.shrink(self._engine)

    # Writing verdicts, and what a running process asks

    def write(
        self,
        run: str,
        entries: Sequence[Entry],
        worker: WriteToken | None = None,
        *,
        used_replies: Collection[bytes] = (),
        growing: bool = False,
    ) -> None:
        """Write verdicts in one transaction: when this returns all of them are stored, when it raises none is.

        A verdict on the same case by the same rubric is replaced, and what was spent is added to the run. If another
        worker has stored a score for the same case meanwhile, only the answers and their cost are stored.

        Args:
            run: The run.
            entries: The verdicts.
            worker: Makes the call idempotent: a batch is written once, however often this is called with the same
                token. It also ends the worker's leases.
            used_replies: Keys of replies from batch jobs that these verdicts were made from; they are marked as used
                in the same transaction, so that no reply is counted twice, whenever the process ends.
            growing: The run grows: new cases get the next positions, whatever the entries say, and are added to its
                total. A verdict replaces an earlier one, whoever stored that.
        """
        if not entries:
            return
        known_usd, unpriced = write.sum_costs(entries)
        with self._writing() as connection:
            row = runs.find_run(connection, run, self.place)
            superseded: set[VerdictKey] = set()
            if worker is not None:
                if leases.is_already_written(connection, row.number, worker):
                    return
                if worker.leased and not growing:
                    superseded = leases.find_superseded(connection, row.number, worker, entries)
                leases.settle_leases(connection, row.number, worker, entries)
                leases.settle_allowance(connection, row.number, worker, known_usd)
            added = 0
            if growing:
                entries, added = write.assign_positions(connection, row.number, entries)
            write.write_entries(connection, row.number, entries, superseded)
            runs.update_run(
                connection,
                row.number,
                total=row.total + added,
                spent_usd=str(runs.read_spent_usd(row) + known_usd),
                unpriced=row.unpriced + unpriced,
            )
            if used_replies:
                batch_jobs.use_up(connection, row.number, used_replies)

    def write_rating(
        self,
        review: str,
        case_id: str,
        decide: Callable[[Sequence[Verdict]], Sequence[Entry]],
        *,
        total_cases: int | None = None,
    ) -> None:
        """Write a person's verdicts on a case of a review, which cost nothing.

        Args:
            review: The run of the review.
            case_id: The case.
            decide: Gets the verdicts that the review already has on the case, and returns those to write. It is called
                inside the transaction, so that nothing changes in between.
            total_cases: How many cases there are to rate: the run is finished when the last of them gets its first
                rating. `None` leaves the state of the run as it is.
        """
        self._write(write.write_rating, review, case_id, decide, total_cases)

    def outcomes(self, run: str, case_ids: Sequence[str] | None = None) -> dict[VerdictKey, str]:
        """Return the outcomes of verdicts by case id and rubric name: on these cases, or on all."""
        return self._read(read.read_outcomes, run, case_ids)

    def cached_answers(self, keys: Sequence[AnswerKey]) -> dict[AnswerKey, StoredAnswer]:
        """Return the newest stored answer to each key, whichever run paid for it; keys without one are left out."""
        with self._reading() as connection:
            return read.find_cached_answers(connection, keys)

    def answer_usage(self, judge: str, rubric: str, most: int) -> list[Mapping[str, int | None]]:
        """Return the token counts of up to `most` answers of a judge, by the digest of its identity, to a rubric.

        They are from the newest runs that used the rubric.
        """
        with self._reading() as connection:
            return read.read_answer_usage(connection, judge, rubric, most)

    def answered_since(self, number: int) -> tuple[bytes, int]:
        """Return the ids of the keys that were answered after answer `number`, and the number of the newest answer.

        Args:
            number: What the last call returned; 0 for all answers.

        Returns:
            The ids (`encoding.key_id`, 16 bytes each) one after the other, and the number for the next call.
        """
        with self._reading() as connection:
            return read.read_answered_keys(connection, number)

    def open_answer_locks(self) -> AnswerLocks:
        """Return locks on answers that are being asked for; the caller closes them."""
        return AnswerLocks(self.path, self._engine)

    def has_thumbnail(self, digests: Sequence[str]) -> set[str]:
        """Return those of these image files (by the digest of the file) that have a thumbnail."""
        with self._reading() as connection:
            return read.find_thumbnails(connection, digests)

    def reserved_usd(self, run: str) -> Decimal:
        """Return what may have been spent beyond the costs of verdicts, in US dollars: by jobs, and by workers, those
        that were killed included."""
        with self._reading() as connection:
            number = self._run_number(connection, run)
            return batch_jobs.sum_reserved_usd(connection, number) + leases.sum_allowances(connection, number)

    # Reading verdicts

    def stored_verdicts(
        self,
        run: str,
        *,
        case: str | None = None,
        outcome: str | None = None,
        rubric: str | None = None,
        answers: bool = False,
    ) -> Iterator[StoredVerdict]:
        """Stream the verdicts of a run with the groups of their cases, in the order of the cases.

        Args:
            run: The run.
            case: Only those on this case.
            outcome: Only those with this outcome.
            rubric: Only those by this rubric.
            answers: Whether to load the raw answers.
        """
        yield from read.stream_verdicts(
            self._reading, self._find_number(run), case=case, outcome=outcome, rubric=rubric, answers=answers
        )

    def stored_extracts(self, run: str) -> Iterator[StoredExtract]:
        """Stream those parts of the verdicts of a run that are counted and compared, in the order of the cases."""
        yield from read.stream_extracts(self._reading, self._find_number(run))

    def stored_verdicts_on(self, run: str, case_ids: Sequence[str]) -> Iterator[StoredVerdict]:
        """Stream the verdicts on some cases, without raw answers, in no order that can be relied on."""
        yield from read.stream_verdicts_on(self._reading, self._find_number(run), case_ids)

    def verdicts(
        self, run: str, *, outcome: str | None = None, rubric: str | None = None, answers: bool = False
    ) -> Iterator[Verdict]:
        """Stream the verdicts of a run in the order of the cases; `answers` also loads the raw answers."""
        return (stored.verdict for stored in self.stored_verdicts(run, outcome=outcome, rubric=rubric, answers=answers))

    def verdict(self, run: str, case_id: str) -> list[Verdict]:
        """Return the verdicts on one case, one for each rubric, with raw answers. Raises `LedgerError` for none."""
        verdicts = self._read(read.read_case_verdicts, run, case_id)
        if not verdicts:
            raise LedgerError(f"There is no case {case_id!r} in the run {run!r}.")
        return verdicts

    def raw_answers(self, run: str, case_id: str) -> dict[str, list[str]]:
        """Return the raw answers behind the verdicts on a case, by rubric; of a jury one for each juror."""
        answers = self._read(read.read_raw_answers, run, case_id)
        if not answers:
            raise LedgerError(f"There is no case {case_id!r} in the run {run!r}.")
        return answers

    def transcripts(self, run: str, case_id: str) -> dict[str, tuple[Transcript, ...]]:
        """Return the conversations behind the verdicts on a case, by rubric; see `Transcript`.

        Earlier turns are stored with the run in which the judge was asked, since version 4 of the tables. Elsewhere a
        conversation is its answer alone.

        Raises:
            LedgerError: There is no such case or run.
        """
        transcripts = self._read(read.read_transcripts, run, case_id)
        if not transcripts:
            raise LedgerError(f"There is no case {case_id!r} in the run {run!r}.")
        return transcripts

    def browse(self, run: str, wanted: VerdictFilter, *, offset: int = 0, limit: int = 50) -> VerdictPage:
        """Return a page of the verdicts of a run, filtered and sorted by the database."""
        return self._read(query.find_verdicts, run, wanted, offset, limit)

    def case_history(self, case_id: str, *, most: int = 60) -> list[tuple[str, StoredVerdict]]:
        """Return the verdicts on a case in all runs, with the ids of the runs, newest first."""
        with self._reading() as connection:
            return query.find_case_verdicts(connection, case_id, most)

    def case_scores(self, run: str, criterion: str = "") -> list[tuple[str, float | None]]:
        """Return the case and the score of each verdict of a run, in its order; answered from indexes.

        Args:
            run: The run.
            criterion: A criterion, whose score is on its own scale; empty for the score of the verdict (0–1).
        """
        return self._read(query.read_case_scores, run, criterion)

    def counts(self, run: str) -> RunCounts:
        """Return how many verdicts of a run have which outcome and grade; answered from an index."""
        return self._read(query.count_outcomes, run)

    def tally(self, run: str) -> query.Tally:
        """Return the totals and means of a run. Reads every verdict; `counts` is quicker and tells less."""
        return query.tally_verdicts(self.stored_extracts(run))

    def filter_values(self, run: str) -> FilterValues:
        """Return the values by which the verdicts of a run can be filtered."""
        return self._read(query.read_filter_values, run)

    def has_several_styles(self, run: str) -> bool:
        """Return whether the verdicts of a run are by more than one style; no style counts as one."""
        return self._read(read.has_several_styles, run)

    def frame(self, run: str = "latest") -> polars.DataFrame:
        """Return the verdicts of a run as a Polars frame, with the columns of `beholder export --to parquet`."""
        from beholder.ledger.export import to_frame

        return to_frame(self.stored_verdicts(run))

    # Reading cases

    def cases(self, run: str) -> Iterator[Case]:
        """Stream the cases of a run that have a verdict, by id.

        Their images are absolute paths; web addresses are stored without their query, and of bytes and data URLs only
        the kind is stored.
        """
        yield from read.stream_cases(self._reading, self._find_number(run))

    def case(self, run: str, case_id: str) -> Case:
        """Return one case of a run. Raises `LedgerError` if there is none."""
        for case in read.stream_cases(self._reading, self._find_number(run), case=case_id):
            return case
        raise LedgerError(f"There is no case {case_id!r} in the run {run!r}.")

    def cases_on(self, run: str, case_ids: Sequence[str]) -> dict[str, Case]:
        """Return some cases of a run by id; those that it does not have are left out."""
        return self._read(read.read_cases, run, case_ids)

    def newest(self, run: str, most: int) -> list[StoredVerdict]:
        """Return the verdicts that were stored last, the newest first; one that was replaced counts by its first."""
        return self._read(read.read_newest, run, most)

    def case_ids(self, run: str) -> list[str]:
        """Return the ids of the cases of a run that have a verdict, in the order of the ids."""
        return self._read(read.read_case_ids, run)

    def case_count(self, run: str) -> int:
        """Return how many cases of a run have a verdict."""
        return self._read(read.count_cases, run)

    def case_position(self, run: str, case_id: str) -> int | None:
        """Return the position of a case in its run, or `None` if it has no verdict."""
        return self._read(read.find_position, run, case_id)

    def cases_at(self, run: str, position: int) -> list[str]:
        """Return the ids of the cases at a position of a run: one as a rule, or none."""
        return self._read(read.find_cases_at, run, position)

    def case_groups(self, run: str, limit: int | None = None) -> dict[str, dict[str, str]]:
        """Return the groups of the cases of a run by case id: of the first `limit` cases, or of all."""
        return self._read(read.read_case_groups, run, limit)

    def group_values(self, run: str, group: str) -> dict[str, str]:
        """Return the value of one group by case id, in the order of `case_ids`; empty for cases without it."""
        return self._read(read.read_group_values, run, group)

    def rated_cases(self, reviews: Sequence[str]) -> dict[str, int]:
        """Return how many cases are rated and saved in these reviews, by id; reviews without any are left out."""
        with self._reading() as connection:
            return read.count_rated_cases(connection, reviews)

    def thumbnail(self, digest: str) -> bytes | None:
        """Return the thumbnail of an image file, by the digest of the file: JPEG, or WebP from an older version."""
        with self._reading() as connection:
            return read.read_thumbnail(connection, digest)

    # The ledger itself

    def check(self) -> list[str]:
        """Check every row of the ledger. Returns the problems as sentences, none if it is sound."""
        try:
            with self._reading() as connection:
                return integrity.check_rows(connection, self._backend.check_pages(connection))
        except LedgerError as error:
            return [str(error)]

    def find_incomplete_runs(self) -> list[str]:
        """Return a sentence for each run that is stored as finished and lacks verdicts."""
        runs = [run for run in self.runs() if run.state == FINISHED and not run.is_review]
        progress = self.progress([run.id for run in runs])
        done = {run.id: progress.get(run.id, RunProgress()).done for run in runs}
        return [
            f"The run {run.id} says that it is finished, and has {done[run.id]} of {run.total} verdicts."
            for run in runs
            if done[run.id] < run.total
        ]

    def row_counts(self) -> dict[str, int]:
        """Return how many runs, cases, verdicts, answers and thumbnails there are."""
        with self._reading() as connection:
            return integrity.count_rows(connection)


LedgerLike = str | os.PathLike[str] | Ledger | None
"""A ledger: a path, a `postgresql://` URL or an open `Ledger`; `None` is BEHOLDER_LEDGER, else `beholder.db`."""


@contextmanager
def open_ledger(ledger: LedgerLike, *, read_only: bool = True) -> Iterator[Ledger]:
    """Open a ledger until the end of the context; one that was handed in open stays open. Creates none.

    Raises:
        LedgerError: There is no such ledger, or it cannot be opened.
    """
    if isinstance(ledger, Ledger):
        yield ledger
    else:
        with Ledger.open(ledger, read_only=read_only) as opened:
            yield opened


def describe_use(run: str, holders: Iterable[str]) -> str:
    """Say by which processes a run is in use, so that it cannot be deleted."""
    processes = ", ".join(sorted({holder.rpartition(":")[0] for holder in holders}))
    return (
        f"The run {run} is in use (by {processes}, machine and process); close its session, or stop it, before you "
        "delete it."
    )
