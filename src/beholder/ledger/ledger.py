"""The ledger: what runs leave behind, and what the next run need not pay for again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

from sqlalchemy import Connection, Engine, delete, exists, func, insert, select, update

from beholder.cases import Case
from beholder.errors import LedgerError
from beholder.ledger import browsing, checking, migrations, reading, sqlite, tables, tallying, writing
from beholder.ledger.model import FINISHED, REVIEW, STATES, AnswerKey, Entry, Progress, RunRecord, StoredAnswer
from beholder.ledger.packing import digest_bytes, dump, pack, plain_text, unpack
from beholder.ledger.redacting import redacted
from beholder.ledger.tables import AnyRow
from beholder.verdicts.model import Verdict

if TYPE_CHECKING:
    from types import TracebackType

    import polars

VARIABLE = "BEHOLDER_LEDGER"
USUAL = "beholder.db"
TIMEOUT_S = 30.0

_RUNS, _V = tables.runs.c, tables.verdicts.c


class Changes(TypedDict, total=False):
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

    def __init__(self, path: Path, engine: Engine) -> None:
        self.path = path
        self._engine = engine
        self._writer = sqlite.writing(engine)

    @classmethod
    def open(
        cls,
        where: str | os.PathLike[str] | None = None,
        *,
        create: bool = True,
        read_only: bool = False,
        timeout_s: float = TIMEOUT_S,
    ) -> Ledger:
        """The ledger at a path (or `sqlite:///path`); without one where `BEHOLDER_LEDGER` says, else `beholder.db`.

        A file of an older version is brought up to date. Apart from that, a ledger that is opened `read_only` is never
        written to and never made. `timeout_s` is how long a write waits for another process.
        """
        create = create and not read_only
        path = sqlite.checked_path(place(where), create=create)
        engine = sqlite.open_engine(path, create=create, read_only=read_only, timeout_s=timeout_s)
        ledger = cls(path, engine)
        try:
            older = ledger._settle(read_only)
        except BaseException:
            ledger.close()
            raise
        if older:
            ledger.close()
            cls.open(path, create=False, timeout_s=timeout_s).close()
            return cls.open(path, read_only=True, timeout_s=timeout_s)
        return ledger

    def close(self) -> None:
        self._engine.dispose()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Runs

    def start(self, run: RunRecord) -> None:
        """Writes a new run down. Whatever in it looks like a key is left out."""
        with sqlite.told(self.path), self._writer.begin() as connection:
            _start(connection, run)

    def find_or_start(self, run: RunRecord, *, fresh: bool) -> tuple[RunRecord, bool]:
        """The newest run with the fingerprint of `run`; where there is none, `run` is started. Also whether it was.

        With `fresh` only a run that was begun so (its suite has `fresh: true`) and is not finished is gone on with. Of
        processes that ask at the same time exactly one starts the run.
        """
        with sqlite.told(self.path), self._writer.begin() as connection:
            found = _newest(connection, run.fingerprint)
            if found is not None and (not fresh or (found.suite.get("fresh") is True and found.state != FINISHED)):
                return found, False
            _start(connection, run)
        return run, True

    def run(self, name: str = "latest") -> RunRecord:
        """One run. Raises `LedgerError` where there is none of that name, or several start so."""
        with sqlite.told(self.path), self._engine.begin() as connection:
            return _record(self._row(connection, name))

    def runs(self, *, tag: str | None = None) -> list[RunRecord]:
        """All runs, newest first: by the order in which they were started, not by the clock."""
        with sqlite.told(self.path), self._engine.begin() as connection:
            rows = connection.execute(select(tables.runs).order_by(_RUNS.number.desc())).all()
        records = [_record(row) for row in rows]
        return records if tag is None else [record for record in records if tag in record.tags]

    def find(self, fingerprint: str) -> RunRecord | None:
        """The newest run with that fingerprint."""
        with sqlite.told(self.path), self._engine.begin() as connection:
            return _newest(connection, fingerprint)

    def progress(self) -> dict[str, Progress]:
        """How far each run is, by its id; answered from an index."""
        scored = _V.score.is_not(None)
        query = (
            select(_RUNS.id, func.count(), func.count().filter(scored), func.avg(_V.score).filter(scored))
            .join_from(tables.verdicts, tables.runs, _V.run == _RUNS.number)
            .group_by(_RUNS.id)
        )
        with sqlite.told(self.path), self._engine.begin() as connection:
            return {id_: Progress(done, scored, mean) for id_, done, scored, mean in connection.execute(query)}

    def update(self, run: str, **changes: Unpack[Changes]) -> None:
        """Changes what may change, and the time of the last change."""
        unknown = changes.keys() - Changes.__annotations__.keys()
        if unknown:
            raise TypeError(f"a run has no {', '.join(sorted(unknown))} to change")
        values: dict[str, object] = dict(changes)
        if "state" in changes:
            values["state"] = _state(changes["state"])
        if "name" in changes:
            values["name"] = plain_text(changes["name"])
        if "tags" in changes:
            values["tags"] = dump([plain_text(tag) for tag in changes["tags"]])
        with sqlite.told(self.path), self._writer.begin() as connection:
            _change(connection, self._row(connection, run).number, **values)

    def rename(self, run: str, name: str) -> None:
        if not name.strip():
            raise LedgerError("A run's name must not be empty.")
        self.update(run, name=name)

    def tag(self, run: str, *tags: str, remove: Sequence[str] = ()) -> tuple[str, ...]:
        """Adds tags and removes others; the tags that the run then has."""
        if any(not tag.strip() for tag in tags):
            raise LedgerError("A tag must not be empty.")
        with sqlite.told(self.path), self._writer.begin() as connection:
            row = self._row(connection, run)
            had = json.loads(row.tags)
            new = [tag for tag in dict.fromkeys((*had, *map(plain_text, tags))) if tag not in remove]
            _change(connection, row.number, tags=dump(new))
        return tuple(new)

    def delete(self, run: str) -> None:
        """Deletes a run with everything that only it used: its cases and verdicts, and the answers and thumbnails that
        no other run refers to. The room goes back to the disk, and nothing of it stays readable in the file."""
        answers, thumbnails = tables.run_answers, tables.run_thumbnails
        with sqlite.told(self.path), self._writer.begin() as connection:
            number = self._row(connection, run).number
            for links, link, table, column in (
                (answers, answers.c.answer, tables.answers, tables.answers.c.id),
                (thumbnails, thumbnails.c.digest, tables.thumbnails, tables.thumbnails.c.digest),
            ):
                own = select(link).where(links.c.run == number)
                others = exists().where(link == column, links.c.run != number)
                connection.execute(delete(table).where(column.in_(own), ~others))
                connection.execute(delete(links).where(links.c.run == number))
            connection.execute(delete(tables.verdicts).where(_V.run == number))
            connection.execute(delete(tables.cases).where(tables.cases.c.run == number))
            connection.execute(delete(tables.runs).where(_RUNS.number == number))
        with sqlite.told(self.path):
            sqlite.shrink(self._engine)

    # While a run is under way

    def outcomes(self, run: str, case_ids: Sequence[str]) -> dict[tuple[str, str], str]:
        """The outcomes that there are for these cases, by case id and rubric name."""
        asked = {plain_text(id_): id_ for id_ in case_ids}
        found: dict[tuple[str, str], str] = {}
        with sqlite.told(self.path), self._engine.begin() as connection:
            number = self._row(connection, run).number
            for part in sqlite.parts(list(asked)):
                query = select(_V.case_id, _V.rubric, _V.outcome).where(_V.run == number, _V.case_id.in_(part))
                found |= {(asked[case], rubric): outcome for case, rubric, outcome in connection.execute(query)}
        return found

    def outcomes_of(self, run: str) -> dict[tuple[str, str], str]:
        """All outcomes of a run, by case id and rubric name; for a run that a person can go through."""
        with sqlite.told(self.path), self._engine.begin() as connection:
            query = select(_V.case_id, _V.rubric, _V.outcome).where(_V.run == self._row(connection, run).number)
            return {(case, rubric): outcome for case, rubric, outcome in connection.execute(query)}

    def cached(self, keys: Sequence[AnswerKey]) -> dict[AnswerKey, StoredAnswer]:
        """The newest answer to each key that there is one for, whichever run paid for it."""
        with sqlite.told(self.path), self._engine.begin() as connection:
            return reading.cached(connection, keys)

    def answered_since(self, number: int) -> tuple[list[bytes], int]:
        """The ids (`packing.key_id`) of the keys that were answered after the answer of that number (0: of all), and
        the number of the newest answer. Many are streamed from an index, without the answers themselves."""
        columns = tables.answers.c
        query = select(columns.key)
        with sqlite.told(self.path), self._engine.begin() as connection:
            newest = connection.scalar(select(func.max(columns.number))) or 0
            if newest == number:
                return [], newest
            return list(connection.scalars(query.where(columns.number > number) if number else query)), newest

    def has_thumbnail(self, digests: Sequence[str]) -> set[str]:
        """Those of these image files (by the digest of the file) that have a thumbnail."""
        asked = {digest_bytes(digest): digest for digest in digests}
        column = tables.thumbnails.c.digest
        with sqlite.told(self.path), self._engine.begin() as connection:
            return {
                asked[digest]
                for part in sqlite.parts(list(asked))
                for digest in connection.scalars(select(column).where(column.in_(part)))
            }

    def write(self, run: str, entries: Sequence[Entry]) -> None:
        """Writes verdicts in one transaction: when this returns all of them are safe, when it raises none is there.

        A verdict on the same case by the same rubric is replaced; what was spent is added to the run.
        """
        if not entries:
            return
        known, unknown = writing.spent(entries)
        with sqlite.told(self.path), self._writer.begin() as connection:
            row = self._row(connection, run)
            writing.write_entries(connection, row.number, entries)
            _change(
                connection,
                row.number,
                spent_usd=str(Decimal(row.spent_usd) + known),
                unpriced=row.unpriced + unknown,
            )

    # Afterwards

    def judged(
        self,
        run: str,
        *,
        case: str | None = None,
        outcome: str | None = None,
        rubric: str | None = None,
        answers: bool = False,
    ) -> Iterator[reading.Judged]:
        """The verdicts of a run with the groups of their cases, in the order of the cases, streamed."""
        with sqlite.told(self.path), self._engine.begin() as connection:
            number = self._row(connection, run).number
        wanted = None if case is None else plain_text(case)
        yield from reading.judged(
            self._engine, self.path, number, case=wanted, outcome=outcome, rubric=rubric, answers=answers
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
        with sqlite.told(self.path), self._engine.begin() as connection:
            number = self._row(connection, run).number
            query = select(_V.rubric, _V.answers).where(_V.run == number, _V.case_id == plain_text(case_id))
            found = {row.rubric: reading.answer_texts(connection, row.answers) for row in connection.execute(query)}
        for verdict in self.verdict(run, case_id):
            if verdict.answer and not found.get(verdict.rubric):
                found[verdict.rubric] = [verdict.answer]
        return found

    def browse(
        self, run: str, wanted: browsing.Wanted, *, offset: int = 0, limit: int = 50, answers: bool = False
    ) -> browsing.Found:
        """Some of the verdicts of a run, filtered and sorted by the database."""
        with sqlite.told(self.path), self._engine.begin() as connection:
            number = self._row(connection, run).number
            return browsing.browse(connection, number, wanted, offset, limit, answers=answers)

    def counts(self, run: str) -> browsing.Counts:
        """How many verdicts of a run came to what; quick, as an index tells it. `tally` tells more."""
        with sqlite.told(self.path), self._engine.begin() as connection:
            return browsing.counts(connection, self._row(connection, run).number)

    def groups(self, run: str) -> dict[str, list[str]]:
        """The groups that the cases of a run belong to, with their values, as some cases tell."""
        with sqlite.told(self.path), self._engine.begin() as connection:
            return browsing.groups(connection, self._row(connection, run).number)

    def lines(self, run: str) -> list[browsing.Line]:
        """Every verdict of a run as far as indexes tell it, in the order of the cases."""
        with sqlite.told(self.path), self._engine.begin() as connection:
            return browsing.lines(connection, self._row(connection, run).number)

    def on_case(self, case_id: str, *, most: int = 60) -> list[tuple[str, reading.Judged]]:
        """The verdicts on a case in all runs, with the ids of the runs, newest first."""
        with sqlite.told(self.path), self._engine.begin() as connection:
            return browsing.on_case(connection, case_id, most)

    def cases(self, run: str) -> Iterator[Case]:
        """The cases of a run that have a verdict, by id, streamed. Their images are absolute paths; of a web address
        its query is not kept, of data and bytes only the kind."""
        with sqlite.told(self.path), self._engine.begin() as connection:
            number = self._row(connection, run).number
        yield from reading.cases(self._engine, self.path, number)

    def case(self, run: str, case_id: str) -> Case:
        """One case of a run. Raises `LedgerError` where there is none."""
        with sqlite.told(self.path), self._engine.begin() as connection:
            number = self._row(connection, run).number
        for case in reading.cases(self._engine, self.path, number, case=plain_text(case_id)):
            return case
        raise LedgerError(f"There is no case {case_id!r} in the run {run!r}.")

    def judged_on(self, run: str, case_ids: Sequence[str]) -> Iterator[reading.Judged]:
        """The verdicts on some cases of a run, without their raw answers; in no order that can be relied on."""
        with sqlite.told(self.path), self._engine.begin() as connection:
            number = self._row(connection, run).number
        yield from reading.judged_on(self._engine, self.path, number, [plain_text(id_) for id_ in case_ids])

    def case_ids(self, run: str) -> list[str]:
        """The ids of the cases of a run that have a verdict, in their order; quick for any number of them."""
        with sqlite.told(self.path), self._engine.begin() as connection:
            return reading.case_ids(connection, self._row(connection, run).number)

    def case_groups(self, run: str, limit: int | None = None) -> dict[str, dict[str, str]]:
        """The groups of the cases of a run by id, of the first so many or of all."""
        with sqlite.told(self.path), self._engine.begin() as connection:
            return reading.case_groups(connection, self._row(connection, run).number, limit)

    def thumbnail(self, digest: str) -> bytes | None:
        """The WebP of an image file, by the digest of the file."""
        column = tables.thumbnails.c
        with sqlite.told(self.path), self._engine.begin() as connection:
            found = connection.scalar(select(column.webp).where(column.digest == digest_bytes(digest)))
        return None if found is None else bytes(found)

    def tally(self, run: str) -> tallying.Tally:
        """What a run came to."""
        return tallying.tally(self.judged(run))

    def tallies(self, run: str, group: str) -> dict[str, tallying.Tally]:
        """What a run came to, by the values of a group."""
        return tallying.tallies(self.judged(run), group)

    def frame(self, run: str = "latest") -> polars.DataFrame:
        """The verdicts of a run as a Polars frame, flat columns as in `beholder export --to parquet`."""
        from beholder.ledger.exporting import frame

        return frame(self.judged(run))

    def check(self) -> list[str]:
        """Everything that is wrong with the file, as sentences; empty when it is sound. Reads all of it."""
        try:
            with sqlite.told(self.path), self._engine.begin() as connection:
                return checking.check(connection)
        except LedgerError as error:
            return [str(error)]

    def _settle(self, read_only: bool) -> bool:
        """Makes sure that the tables are of this version; of a ledger that may only be read, whether they are older."""
        try:
            with sqlite.told(self.path), self._engine.begin() as connection:
                found = migrations.version(connection)
                migrations.check(found)
            if read_only:
                return found < migrations.newest()
            # Also when there is nothing to upgrade: who cannot write should hear so before anything is paid for.
            with sqlite.told(self.path), self._writer.begin() as connection:
                migrations.migrate(connection)
            return False
        except LedgerError as error:
            sentence = str(error)
            if sentence.startswith("The ledger"):
                raise
            raise LedgerError(f"The ledger {str(self.path)!r} {sentence}") from None

    def _row(self, connection: Connection, name: str) -> AnyRow:
        newest = select(tables.runs).order_by(_RUNS.number.desc()).limit(2)
        stated = plain_text(name)
        start = func.substr(_RUNS.id, 1, len(stated)) == stated
        for condition, several_are_fine in ((_RUNS.id == stated, True), (_RUNS.name == stated, True), (start, False)):
            rows = connection.execute(newest.where(condition)).all() if stated else []
            if len(rows) > 1 and not several_are_fine:
                raise LedgerError(f"Several runs start with {name!r}; write more of the id.")
            if rows:
                return rows[0]
        if stated == "latest":  # a review is about a run, which is the one that is meant
            rows = connection.execute(newest.where(~_RUNS.fingerprint.startswith(REVIEW))).all()
            if rows:
                return rows[0]
            raise LedgerError(f"There is no run in the ledger {str(self.path)!r} yet.")
        raise LedgerError(f"There is no run {name!r} in the ledger {str(self.path)!r}; `beholder runs` lists them.")


def exists_at(where: str | os.PathLike[str] | None) -> bool:
    """Whether there is a ledger where `Ledger.open` would look for it."""
    return Path(place(where)).exists()


def place(where: str | os.PathLike[str] | None = None) -> str:
    """The path of the ledger that `where` names; without one `BEHOLDER_LEDGER` does, else it is `beholder.db`."""
    text = os.fspath(where if where is not None else os.environ.get(VARIABLE, "").strip() or USUAL)
    if not text.strip():
        raise LedgerError("The ledger has no name; name a file with --ledger.")
    scheme, found, rest = text.partition("://")
    if not found:
        return text
    if scheme == "sqlite":
        return rest.removeprefix("/")  # as SQLAlchemy writes them: sqlite:///relative, sqlite:////absolute
    raise LedgerError(f"A ledger is a file for now, and not at {scheme}:// addresses; name a path with --ledger.")


def _start(connection: Connection, run: RunRecord) -> None:
    if connection.scalar(select(_RUNS.number).where(_RUNS.id == run.id)) is not None:
        raise LedgerError(f"There is a run {run.id!r} in the ledger already.")
    body = redacted({"suite": run.suite, "rubrics": run.rubrics, "prompt": run.prompt, "versions": run.versions})
    row = {
        "id": run.id,
        "name": plain_text(run.name),
        "fingerprint": run.fingerprint,
        "state": _state(run.state),
        "created": _time(run.created),
        "updated": _time(run.updated),
        "total": run.total,
        "skipped": run.skipped,
        "spent_usd": str(run.spent_usd or Decimal(0)),
        "unpriced": run.unpriced,
        "tags": dump([plain_text(tag) for tag in run.tags]),
        "body": pack(body),
    }
    connection.execute(insert(tables.runs).values(row))


def _newest(connection: Connection, fingerprint: str) -> RunRecord | None:
    query = select(tables.runs).where(_RUNS.fingerprint == fingerprint).order_by(_RUNS.number.desc()).limit(1)
    row = connection.execute(query).one_or_none()
    return None if row is None else _record(row)


def _change(connection: Connection, number: int, **values: object) -> None:
    """Changes columns of a run, and the time of its last change."""
    now = _time(datetime.now(UTC))
    connection.execute(update(tables.runs).where(_RUNS.number == number).values(**values, updated=now))


def _record(row: AnyRow) -> RunRecord:
    body = unpack(row.body, f"the run {row.id!r}")
    assert isinstance(body, dict)
    known = Decimal(row.spent_usd)
    return RunRecord(
        id=row.id,
        name=row.name,
        fingerprint=row.fingerprint,
        state=row.state,
        created=datetime.fromisoformat(row.created),
        updated=datetime.fromisoformat(row.updated),
        total=row.total,
        suite=body["suite"],
        rubrics=tuple(body["rubrics"]),
        prompt=body["prompt"],
        versions=body["versions"],
        tags=tuple(json.loads(row.tags)),
        spent_usd=None if row.unpriced and not known else known,
        skipped=row.skipped,
        unpriced=row.unpriced,
    )


def _state(state: str) -> str:
    if state not in STATES:
        raise ValueError(f"a run is {', '.join(STATES)}, not {state!r}")
    return state


def _time(moment: datetime) -> str:
    """Naive times are taken as UTC."""
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
