"""The ledger: what runs leave behind, and what the next run need not pay for again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

from sqlalchemy import Connection, delete, exists, func, select

from beholder.cases.case import Case
from beholder.errors import LedgerError
from beholder.ledger import batch_jobs, integrity, leases, migrations, read, schema, types
from beholder.ledger.database import Database, open_database, resolve_address
from beholder.ledger.encoding import digest_bytes, storable_text, to_json_text
from beholder.ledger.query import (
    Tally,
    count_outcomes,
    find_case_verdicts,
    find_verdicts,
    read_groups,
    read_progress,
    tally_groups,
    tally_verdicts,
)
from beholder.ledger.schema import AnyRow, chunks
from beholder.ledger.types import (
    FINISHED,
    REVIEW_PREFIX,
    AnswerKey,
    Entry,
    RunProgress,
    RunRecord,
    StoredAnswer,
    StoredVerdict,
)
from beholder.ledger.write import check_state, find_newest_run, insert_run, sum_costs, update_run, write_entries
from beholder.verdicts.answer import BatchReply
from beholder.verdicts.verdict import Verdict

if TYPE_CHECKING:
    from types import TracebackType

    import polars


TIMEOUT_S = 30.0

_RUN_LOCK = 0x6265  # tells locks of runs from those of other programs

_KEY_PAGE = select(schema.answers.c.key).distinct().order_by(schema.answers.c.key).limit(20_000)

_RUNS, _V = schema.runs.c, schema.verdicts.c


class RunChanges(TypedDict, total=False):
    """What may change about a run after it was started."""

    name: str
    state: str
    total: int
    skipped: int
    tags: Sequence[str]


class Ledger:
    """A ledger that is open. Any thread may use it; so may other processes at the same time.

    Everything that goes wrong with the file, now or later, is a `LedgerError` of one sentence. A run is named by its
    id, by the start of its id if no other starts so, by its name (the newest of that name), or as "latest".
    """

    place: str
    """Where it is, as it may be shown: without a password."""
    path: Path | None
    """The file, where it is one."""
    shared: bool
    """Whether several processes may work on one run."""

    address: str
    """Where it is, as `open` takes it: with the password, and never to be shown."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.place, self.path, self.address = database.place, database.path, database.address
        self.shared = database.path is None
        self._kind = database.kind
        self._engine = database.engine
        self._writer = database.kind.writing(database.engine)

    @classmethod
    def open(
        cls,
        where: str | os.PathLike[str] | None = None,
        *,
        create: bool = True,
        read_only: bool = False,
        timeout_s: float = TIMEOUT_S,
    ) -> Ledger:
        """The ledger at a path (or `sqlite:///path`) or in a database (`postgresql://user@host/database`); without one
        where `BEHOLDER_LEDGER` says, else `beholder.db`.

        One of an older version is brought up to date. Apart from that, a ledger that is opened `read_only` is never
        written to and never made. `timeout_s` is how long a write waits for another process, and
        once more where it had to end one that stood still.
        """
        create = create and not read_only
        ledger = cls(open_database(resolve_address(where), create=create, read_only=read_only, timeout_s=timeout_s))
        try:
            older = ledger._settle(create, read_only)
        except BaseException:
            ledger.close()
            raise
        if older:
            ledger.close()
            cls.open(ledger.address, create=False, timeout_s=timeout_s).close()
            return cls.open(ledger.address, read_only=True, timeout_s=timeout_s)
        return ledger

    def close(self) -> None:
        self._engine.dispose()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that reads. What goes wrong with the database in it is told as a `LedgerError`."""
        with self._kind.told(self.place), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that writes, one at a time over all processes: all of it is kept, or nothing when it raises.
        What goes wrong with the database in it is told as a `LedgerError`."""
        with self._kind.told(self.place), self._writer.begin() as connection:
            yield connection

    def number(self, connection: Connection, run: str) -> int:
        """The number of a run, by which its rows are kept. Raises `LedgerError` for none, or several."""
        return int(self._row(connection, run).number)

    @contextmanager
    def held(self, run: str, *, alone: bool) -> Iterator[bool]:
        """Whether this process may hold the run, from now to the end of the context or of the process: `alone`, or with
        others who do not need it alone. For a ledger in PostgreSQL; a file is held beside itself (`runs.holding`)."""
        with self._kind.told(self.place), self._engine.connect() as connection:
            number = self.number(connection, run)
            lock = func.pg_try_advisory_lock if alone else func.pg_try_advisory_lock_shared
            mine = connection.scalar(select(lock(_RUN_LOCK, number)))
            connection.commit()
            try:
                yield bool(mine)
            finally:
                connection.invalidate()  # the lock is the connection's, and goes with it

    # Runs

    def start(self, run: RunRecord) -> None:
        """Writes a new run down. Whatever in it looks like a key is left out."""
        with self.writing() as connection:
            insert_run(connection, run)

    def find_or_start(self, run: RunRecord, *, fresh: bool) -> tuple[RunRecord, bool]:
        """The newest run with the fingerprint of `run`; where there is none, `run` is started. Also whether it was.

        With `fresh` only a run that was begun so (its suite has `fresh: true`) and is not finished is gone on with. Of
        processes that ask at the same time exactly one starts the run.
        """
        with self.writing() as connection:
            found = find_newest_run(connection, run.fingerprint)
            if found is not None and (not fresh or (found.suite.get("fresh") is True and found.state != FINISHED)):
                return found, False
            insert_run(connection, run)
        return run, True

    def run(self, name: str = "latest") -> RunRecord:
        """One run. Raises `LedgerError` where there is none of that name, or several start so."""
        with self.reading() as connection:
            return read.to_run_record(self._row(connection, name))

    def runs(self, *, tag: str | None = None) -> list[RunRecord]:
        """All runs, newest first: by the order in which they were started, not by the clock."""
        with self.reading() as connection:
            rows = connection.execute(select(schema.runs).order_by(_RUNS.number.desc())).all()
        found = [read.to_run_record(row) for row in rows]
        return found if tag is None else [record for record in found if tag in record.tags]

    def find(self, fingerprint: str) -> RunRecord | None:
        """The newest run with that fingerprint."""
        with self.reading() as connection:
            return find_newest_run(connection, fingerprint)

    def progress(self, *runs: str) -> dict[str, RunProgress]:
        """How far these runs are, or all, by their ids; answered from an index. One without verdicts is left out."""
        with self.reading() as connection:
            return read_progress(connection, runs or connection.scalars(select(_RUNS.id)).all())

    def update(self, run: str, **changes: Unpack[RunChanges]) -> None:
        """Changes what may change, and the time of the last change."""
        unknown = changes.keys() - RunChanges.__annotations__.keys()
        if unknown:
            raise TypeError(f"a run has no {', '.join(sorted(unknown))} to change")
        values: dict[str, object] = dict(changes)
        if "state" in changes:
            values["state"] = check_state(changes["state"])
        if "name" in changes:
            values["name"] = storable_text(changes["name"])
        if "tags" in changes:
            values["tags"] = to_json_text([storable_text(tag) for tag in changes["tags"]])
        with self.writing() as connection:
            update_run(connection, self.number(connection, run), **values)

    def rename(self, run: str, name: str) -> None:
        if not name.strip():
            raise LedgerError("A run's name must not be empty.")
        self.update(run, name=name)

    def tag(self, run: str, *tags: str, remove: Sequence[str] = ()) -> tuple[str, ...]:
        """Adds tags and removes others; the tags that the run then has."""
        if any(not tag.strip() for tag in tags):
            raise LedgerError("A tag must not be empty.")
        with self.writing() as connection:
            row = self._row(connection, run)
            had = json.loads(row.tags)
            new = [tag for tag in dict.fromkeys((*had, *map(storable_text, tags))) if tag not in remove]
            update_run(connection, row.number, tags=to_json_text(new))
        return tuple(new)

    def delete(self, run: str) -> None:
        """Deletes a run with everything that only it used: its cases and verdicts, and the answers and thumbnails that
        no other run refers to. The room goes back to the disk, and nothing of it stays readable in the file; in
        PostgreSQL that happens when the server next tidies up (autovacuum)."""
        answers, thumbnails = schema.run_answers, schema.run_thumbnails
        with self.writing() as connection:
            number = self.number(connection, run)
            for links, link, table, column in (
                (answers, answers.c.answer, schema.answers, schema.answers.c.id),
                (thumbnails, thumbnails.c.digest, schema.thumbnails, schema.thumbnails.c.digest),
            ):
                own = select(link).where(links.c.run == number)
                others = exists().where(link == column, links.c.run != number)
                connection.execute(delete(table).where(column.in_(own), ~others))
                connection.execute(delete(links).where(links.c.run == number))
            for table in (schema.verdicts, schema.cases, schema.workers, schema.leases, schema.jobs, schema.replies):
                connection.execute(delete(table).where(table.c.run == number))
            connection.execute(delete(schema.runs).where(_RUNS.number == number))
        with self._kind.told(self.place):
            self._kind.shrink(self._engine)

    # While a run is under way

    def outcomes(self, run: str, case_ids: Sequence[str]) -> dict[tuple[str, str], str]:
        """The outcomes that there are for these cases, by case id and rubric name."""
        asked = {storable_text(id_): id_ for id_ in case_ids}
        found: dict[tuple[str, str], str] = {}
        with self.reading() as connection:
            number = self.number(connection, run)
            for part in chunks(list(asked)):
                query = select(_V.case_id, _V.rubric, _V.outcome).where(_V.run == number, _V.case_id.in_(part))
                found |= {(asked[case], rubric): outcome for case, rubric, outcome in connection.execute(query)}
        return found

    def outcomes_of(self, run: str) -> dict[tuple[str, str], str]:
        """All outcomes of a run, by case id and rubric name; for a run that a person can go through."""
        with self.reading() as connection:
            query = select(_V.case_id, _V.rubric, _V.outcome).where(_V.run == self.number(connection, run))
            return {(case, rubric): outcome for case, rubric, outcome in connection.execute(query)}

    def cached(self, keys: Sequence[AnswerKey]) -> dict[AnswerKey, StoredAnswer]:
        """The newest answer to each key that there is one for, whichever run paid for it."""
        with self.reading() as connection:
            return read.find_cached_answers(connection, keys)

    def answered_since(self, number: int) -> tuple[bytes, int]:
        """The ids (`packing.key_id`, 16 bytes each, one after the other) of the keys that were answered after the
        answer of that number (0: of all), and the number of the newest answer."""
        columns = schema.answers.c
        with self.reading() as connection:
            newest: int = connection.scalar(select(func.max(columns.number))) or 0
            if newest == number:
                return b"", newest
            if number:
                return b"".join(connection.scalars(select(columns.key).where(columns.number > number))), newest
            # All of them are read from their index, without the answers themselves, a part at a time.
            found, last = [], b""
            while page := connection.scalars(_KEY_PAGE.where(columns.key > last)).all():
                found.append(b"".join(page))
                last = page[-1]
            return b"".join(found), newest

    def has_thumbnail(self, digests: Sequence[str]) -> set[str]:
        """Those of these image files (by the digest of the file) that have a thumbnail."""
        asked = {digest_bytes(digest): digest for digest in digests}
        column = schema.thumbnails.c.digest
        with self.reading() as connection:
            return {
                asked[digest]
                for part in chunks(list(asked))
                for digest in connection.scalars(select(column).where(column.in_(part)))
            }

    def write(self, run: str, entries: Sequence[Entry], worker: types.WriteToken | None = None) -> None:
        """Writes verdicts in one transaction: when this returns all of them are safe, when it raises none is there.

        A verdict on the same case by the same rubric is replaced; what was spent is added to the run. A batch of a
        `worker` is written once, however often this is called with it, and ends the worker's leases; of a verdict that
        another worker has a score for meanwhile only the answers are kept, and what they cost.
        """
        if not entries:
            return
        known, unknown = sum_costs(entries)
        with self.writing() as connection:
            row = self._row(connection, run)
            late: set[types.VerdictKey] = set()
            if worker is not None:
                if leases.is_already_written(connection, row.number, worker):
                    return
                late = leases.find_superseded(connection, row.number, worker, entries)
                leases.settle_leases(connection, row.number, worker, entries, known)
            write_entries(connection, row.number, entries, late)
            update_run(
                connection,
                row.number,
                spent_usd=str(Decimal(row.spent_usd) + known),
                unpriced=row.unpriced + unknown,
            )
            self._also_write(connection, row.number, entries)

    def _also_write(self, connection: Connection, run: int, entries: Sequence[Entry]) -> None:
        """What else belongs into the transaction that writes verdicts: nothing, unless a kind of run says otherwise."""

    # Afterwards

    def judged(
        self,
        run: str,
        *,
        case: str | None = None,
        outcome: str | None = None,
        rubric: str | None = None,
        answers: bool = False,
    ) -> Iterator[StoredVerdict]:
        """The verdicts of a run with the groups of their cases, in the order of the cases, streamed."""
        with self.reading() as connection:
            number = self.number(connection, run)
        wanted = None if case is None else storable_text(case)
        yield from read.stream_verdicts(
            self.reading, number, case=wanted, outcome=outcome, rubric=rubric, answers=answers
        )

    def verdicts(
        self, run: str, *, outcome: str | None = None, rubric: str | None = None, answers: bool = False
    ) -> Iterator[Verdict]:
        """The verdicts of a run in the order of the cases, streamed. `answers` brings the raw answers along."""
        return (one.verdict for one in self.judged(run, outcome=outcome, rubric=rubric, answers=answers))

    def verdict(self, run: str, case_id: str) -> list[Verdict]:
        """The verdicts on one case, one for each rubric, with their raw answers. Raises `LedgerError` for none."""
        found = [one.verdict for one in self.judged(run, case=case_id, answers=True)]
        if not found:
            raise LedgerError(f"There is no case {case_id!r} in the run {run!r}.")
        return found

    def raw(self, run: str, case_id: str) -> dict[str, list[str]]:
        """The raw answers behind the verdicts on a case, by rubric; a jury's one by one."""
        with self.reading() as connection:
            number = self.number(connection, run)
            query = select(_V.rubric, _V.answers).where(_V.run == number, _V.case_id == storable_text(case_id))
            found = {row.rubric: read.read_answer_texts(connection, row.answers) for row in connection.execute(query)}
        for verdict in self.verdict(run, case_id):
            if verdict.answer and not found.get(verdict.rubric):
                found[verdict.rubric] = [verdict.answer]
        return found

    def browse(
        self, run: str, wanted: types.VerdictFilter, *, offset: int = 0, limit: int = 50, answers: bool = False
    ) -> types.VerdictPage:
        """Some of the verdicts of a run, filtered and sorted by the database."""
        with self.reading() as connection:
            number = self.number(connection, run)
            return find_verdicts(connection, number, wanted, offset, limit, answers=answers)

    def counts(self, run: str) -> types.RunCounts:
        """How many verdicts of a run came to what; quick, as an index tells it. `tally` tells more."""
        with self.reading() as connection:
            return count_outcomes(connection, self.number(connection, run))

    def groups(self, run: str) -> dict[str, list[str]]:
        """The groups that the cases of a run belong to, with their values, as some cases tell."""
        with self.reading() as connection:
            return read_groups(connection, self.number(connection, run))

    def on_case(self, case_id: str, *, most: int = 60) -> list[tuple[str, StoredVerdict]]:
        """The verdicts on a case in all runs, with the ids of the runs, newest first."""
        with self.reading() as connection:
            return find_case_verdicts(connection, case_id, most)

    def cases(self, run: str) -> Iterator[Case]:
        """The cases of a run that have a verdict, by id, streamed. Their images are absolute paths; of a web address
        its query is not kept, of data and bytes only the kind."""
        with self.reading() as connection:
            number = self.number(connection, run)
        yield from read.stream_cases(self.reading, number)

    def case(self, run: str, case_id: str) -> Case:
        """One case of a run. Raises `LedgerError` where there is none."""
        with self.reading() as connection:
            number = self.number(connection, run)
        for case in read.stream_cases(self.reading, number, case=storable_text(case_id)):
            return case
        raise LedgerError(f"There is no case {case_id!r} in the run {run!r}.")

    def judged_on(self, run: str, case_ids: Sequence[str]) -> Iterator[StoredVerdict]:
        """The verdicts on some cases of a run, without their raw answers; in no order that can be relied on."""
        with self.reading() as connection:
            number = self.number(connection, run)
        yield from read.stream_verdicts_on(self.reading, number, [storable_text(id_) for id_ in case_ids])

    def case_ids(self, run: str) -> list[str]:
        """The ids of the cases of a run that have a verdict, in their order; quick for any number of them."""
        with self.reading() as connection:
            return read.read_case_ids(connection, self.number(connection, run))

    def case_groups(self, run: str, limit: int | None = None) -> dict[str, dict[str, str]]:
        """The groups of the cases of a run by id, of the first so many or of all."""
        with self.reading() as connection:
            return read.read_case_groups(connection, self.number(connection, run), limit)

    def thumbnail(self, digest: str) -> bytes | None:
        """The WebP of an image file, by the digest of the file."""
        column = schema.thumbnails.c
        with self.reading() as connection:
            found = connection.scalar(select(column.webp).where(column.digest == digest_bytes(digest)))
        return None if found is None else bytes(found)

    def tally(self, run: str) -> Tally:
        """What a run came to."""
        with self.reading() as connection:
            number = self.number(connection, run)
        return tally_verdicts(read.stream_extracts(self.reading, number))

    def tallies(self, run: str, group: str) -> dict[str, Tally]:
        """What a run came to, by the values of a group."""
        return tally_groups(self.judged(run), group)

    def frame(self, run: str = "latest") -> polars.DataFrame:
        """The verdicts of a run as a Polars frame, flat columns as in `beholder export --to parquet`."""
        from beholder.ledger.export import to_frame

        return to_frame(self.judged(run))

    def check(self) -> list[str]:
        """Everything that is wrong with the file, as sentences; empty when it is sound. Reads all of it."""
        try:
            with self.reading() as connection:
                return integrity.check_rows(connection, self._kind.check_pages(connection))
        except LedgerError as error:
            return [str(error)]

    def holds(self) -> dict[str, int]:
        """How many runs, cases, verdicts, answers and thumbnails there are."""
        with self.reading() as connection:
            return integrity.count_rows(connection)

    def size(self) -> int:
        """Bytes on the disk, as the database counts them."""
        with self.reading() as connection:
            return self._kind.size(connection)

    def _settle(self, create: bool, read_only: bool) -> bool:
        """Makes sure that the tables are of this version; of a ledger that may only be read, whether they are older."""
        try:
            with self.reading() as connection:
                found = migrations.read_version(connection)
                migrations.check_version(found)
            if not found and not create and self.path is None:
                raise LedgerError(f"There is no ledger at {self.place!r}; name one with --ledger.")
            if read_only:
                return found < migrations.newest_version()
            # Also when there is nothing to upgrade: who cannot write should hear so before anything is paid for.
            with self.writing() as connection:
                migrations.migrate(connection)
                self._kind.may_write(connection)
            return False
        except LedgerError as error:
            sentence = str(error)
            if sentence.startswith(("The ledger", "There is no ledger")):
                raise
            raise LedgerError(f"The ledger {self.place!r} {sentence}") from None

    def _row(self, connection: Connection, name: str) -> AnyRow:
        newest = select(schema.runs).order_by(_RUNS.number.desc()).limit(2)
        stated = storable_text(name)
        start = func.substr(_RUNS.id, 1, len(stated)) == stated
        for condition, several_are_fine in ((_RUNS.id == stated, True), (_RUNS.name == stated, True), (start, False)):
            rows = connection.execute(newest.where(condition)).all() if stated else []
            if len(rows) > 1 and not several_are_fine:
                raise LedgerError(f"Several runs start with {name!r}; write more of the id.")
            if rows:
                return rows[0]
        if stated == "latest":  # a review is about a run, which is the one that is meant
            rows = connection.execute(newest.where(~_RUNS.fingerprint.startswith(REVIEW_PREFIX))).all()
            if rows:
                return rows[0]
            raise LedgerError(f"There is no run in the ledger {self.place!r} yet.")
        raise LedgerError(f"There is no run {name!r} in the ledger {self.place!r}; `beholder runs` lists them.")


def _others(ledger: Ledger, run: str) -> int:
    """How many other processes are at work on the run."""
    from beholder.ledger.leases import count_workers

    with ledger.reading() as connection:
        return count_workers(connection, ledger.number(connection, run))


def _kept(ledger: Ledger, run: str, keys: list[bytes]) -> dict[bytes, BatchReply]:
    with ledger.reading() as connection:
        return batch_jobs.find_replies(connection, ledger.number(connection, run), keys)


def _keys(ledger: Ledger, run: str, job: types.BatchJob) -> list[bytes]:
    with ledger.reading() as connection:
        return batch_jobs.read_request_keys(connection, ledger.number(connection, run), job)


def under_way(ledger: Ledger, run: str) -> list[types.BatchJob]:
    """The jobs of a run whose results are not in the ledger yet."""
    with ledger.reading() as connection:
        return batch_jobs.read_pending_jobs(connection, ledger.number(connection, run))
