"""The tables, as the newest version has them. A change here needs a step in `migrations`.

`runs.number` counts up and is never given again: it is the order of the runs, whatever the clock says. Digests that
link tables are bytes. `body` columns are packed JSON (`packing`); what a query needs stands beside them.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Row,
    Select,
    Table,
    Text,
    UniqueConstraint,
    event,
)

# Columns are typed by the tables, which mypy does not see through.
AnyRow: TypeAlias = "Row[*tuple[Any, ...]]"
AnySelect: TypeAlias = "Select[*tuple[Any, ...]]"

# Numbers that do not run out, and texts that compare and sort by their bytes, whatever the database is set to.
Number = BigInteger().with_variant(Integer, "sqlite")
Words = Text().with_variant(Text(collation="C"), "postgresql")

PARSED = "parsed"  # in a column's `info`: the column beside it that PostgreSQL has, with the same as `jsonb`

metadata = MetaData()

meta = Table("meta", metadata, Column("key", Words, primary_key=True), Column("value", Words, nullable=False))

runs = Table(
    "runs",
    metadata,
    Column("number", Number, primary_key=True),
    Column("id", Words, nullable=False, unique=True),
    Column("name", Words, nullable=False, index=True),
    Column("fingerprint", Words, nullable=False, index=True),
    Column("state", Words, nullable=False),
    Column("created", Words, nullable=False),
    Column("updated", Words, nullable=False),
    Column("total", Number, nullable=False),
    Column("skipped", Number, nullable=False),
    Column("spent_usd", Words, nullable=False),
    Column("unpriced", Number, nullable=False),
    Column("tags", Words, nullable=False),
    Column("body", LargeBinary, nullable=False),  # suite, rubrics, prompt, versions
    sqlite_autoincrement=True,
)


def _run() -> Column[int]:
    return Column("run", Number, ForeignKey("runs.number"), nullable=False)


cases = Table(
    "cases",
    metadata,
    Column("run", Number, ForeignKey("runs.number"), primary_key=True),
    Column("id", Words, primary_key=True),
    Column("groups", Words, nullable=False),
    Column("body", LargeBinary, nullable=False),  # images, fields
    sqlite_with_rowid=False,
)

verdicts = Table(
    "verdicts",
    metadata,
    Column("number", Number, primary_key=True),
    _run(),
    Column("position", Number, nullable=False),
    Column("case_id", Words, nullable=False),
    Column("rubric", Words, nullable=False),
    Column("outcome", Words, nullable=False),
    Column("score", Float),
    Column("reused", Boolean, nullable=False),
    Column("answers", LargeBinary, nullable=False),  # the ids of the answers it was made from, 16 bytes each
    Column("body", LargeBinary, nullable=False),
    Column("grade", Words),
    Column("passed", Boolean),
    # JSON, see `facets`; empty where there is nothing to tell
    Column("facets", Words, info={PARSED: "facets_parsed"}),
    UniqueConstraint("run", "case_id", "rubric"),
)
# PostgreSQL reads JSON anew for each row and question, four microseconds each, unless it is kept as it reads it.
_parsed = "ALTER TABLE verdicts ADD COLUMN facets_parsed jsonb GENERATED ALWAYS AS (CAST(facets AS jsonb)) STORED"
_add_parsed = DDL(_parsed).execute_if(dialect="postgresql")  # type: ignore[no-untyped-call]  # in SQLAlchemy
event.listen(verdicts, "after_create", _add_parsed)
# With all that lists are filtered and sorted by, so that they need not go through the bodies.
Index(
    "verdicts_in_order",
    *(verdicts.c[name] for name in ("run", "position", "number", "outcome", "score", "grade", "passed", "facets")),
).ddl_if(dialect="sqlite")
# An index of PostgreSQL holds no more than 2,700 bytes of a row, which facets may exceed.
Index(
    "verdicts_in_order_without_facets",
    *(verdicts.c[name] for name in ("run", "position", "number", "outcome", "score", "grade", "passed")),
).ddl_if(dialect="postgresql")
Index("verdicts_by_outcome", verdicts.c.run, verdicts.c.outcome, verdicts.c.score)

answers = Table(
    "answers",
    metadata,
    Column("number", Number, primary_key=True),
    Column("key", LargeBinary, nullable=False),  # of brief, judge and sample
    Column("id", LargeBinary, nullable=False, index=True),  # of brief and text
    Column("brief_digest", LargeBinary, nullable=False),
    Column("judge", Words, nullable=False),
    Column("sample", Number, nullable=False),
    Column("model", Words),
    Column("usage", Words, nullable=False),
    Column("cost_usd", Words),
    Column("latency_s", Float),
    Column("attempts", Number, nullable=False),
    Column("flags", LargeBinary),  # packed; empty for none, as nearly always
    Column("body", LargeBinary, nullable=False),
    UniqueConstraint("key", "id"),
)

thumbnails = Table(
    "thumbnails",
    metadata,
    Column("digest", LargeBinary, primary_key=True),  # of the image file
    Column("webp", LargeBinary, nullable=False),
)

# Who uses what, so that deleting a run takes what only it used. Ordered by what is used: that is what deleting asks.
run_answers = Table(
    "run_answers",
    metadata,
    Column("answer", LargeBinary, primary_key=True),
    Column("run", Number, ForeignKey("runs.number"), primary_key=True),
    sqlite_with_rowid=False,
)
run_thumbnails = Table(
    "run_thumbnails",
    metadata,
    Column("digest", LargeBinary, primary_key=True),
    Column("run", Number, ForeignKey("runs.number"), primary_key=True),
    sqlite_with_rowid=False,
)

# Several processes at work on one run (`sharing`). A worker that does not say in time that it lives is gone, and so are
# its leases and what it may spend.
workers = Table(
    "workers",
    metadata,
    Column("run", Number, ForeignKey("runs.number"), primary_key=True),
    Column("holder", Words, primary_key=True),
    Column("since", Float, nullable=False),  # seconds since 1970, by the database's own clock
    Column("until", Float, nullable=False),
    Column("part", Float, nullable=False),  # of the paces of the run, 0 to 1
    Column("allowance_usd", Words, nullable=False),  # set aside for it, and not yet in the run's `spent_usd`
    Column("written", Words, nullable=False),  # the batch it wrote last, so that none is counted twice
    sqlite_with_rowid=False,
)
leases = Table(
    "leases",
    metadata,
    Column("run", Number, ForeignKey("runs.number"), primary_key=True),
    Column("case_id", Words, primary_key=True),
    Column("rubric", Words, primary_key=True),
    Column("holder", Words, nullable=False),
    Column("done", Float),  # when it came to a verdict without a score; empty while it is held
    sqlite_with_rowid=False,
)

# Requests that a provider answers in its own time (`jobs`), and its replies until there is a verdict.
jobs = Table(
    "jobs",
    metadata,
    Column("number", Number, primary_key=True),
    Column("run", Number, ForeignKey("runs.number"), nullable=False, index=True),
    Column("judge", Words, nullable=False),
    Column("state", Words, nullable=False),
    Column("handle", Words, nullable=False),  # JSON, as the provider's batch API needs it; empty until it has one
    Column("reserved_usd", Words, nullable=False),
    Column("created", Words, nullable=False),
    Column("body", LargeBinary, nullable=False),  # the keys of its requests
)
replies = Table(
    "replies",
    metadata,
    Column("run", Number, ForeignKey("runs.number"), primary_key=True),
    Column("key", LargeBinary, primary_key=True),
    Column("body", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)
