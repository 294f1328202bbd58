"""The tables, as the newest version has them. A change here needs a step in `migrations`.

`runs.number` counts up and is never given again: it is the order of the runs, whatever the clock says. Digests that
link tables are bytes. `body` columns are packed JSON (`packing`); what a query needs stands beside them.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from sqlalchemy import (
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
)

# Columns are typed by the tables, which mypy does not see through.
AnyRow: TypeAlias = "Row[*tuple[Any, ...]]"
AnySelect: TypeAlias = "Select[*tuple[Any, ...]]"

metadata = MetaData()

meta = Table("meta", metadata, Column("key", Text, primary_key=True), Column("value", Text, nullable=False))

runs = Table(
    "runs",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
    Column("name", Text, nullable=False, index=True),
    Column("fingerprint", Text, nullable=False, index=True),
    Column("state", Text, nullable=False),
    Column("created", Text, nullable=False),
    Column("updated", Text, nullable=False),
    Column("total", Integer, nullable=False),
    Column("skipped", Integer, nullable=False),
    Column("spent_usd", Text, nullable=False),
    Column("unpriced", Integer, nullable=False),
    Column("tags", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),  # suite, rubrics, prompt, versions
    sqlite_autoincrement=True,
)


def _run() -> Column[int]:
    return Column("run", Integer, ForeignKey("runs.number"), nullable=False)


cases = Table(
    "cases",
    metadata,
    Column("run", Integer, ForeignKey("runs.number"), primary_key=True),
    Column("id", Text, primary_key=True),
    Column("groups", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),  # images, fields
    sqlite_with_rowid=False,
)

verdicts = Table(
    "verdicts",
    metadata,
    Column("number", Integer, primary_key=True),
    _run(),
    Column("position", Integer, nullable=False),
    Column("case_id", Text, nullable=False),
    Column("rubric", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("score", Float),
    Column("reused", Boolean, nullable=False),
    Column("answers", LargeBinary, nullable=False),  # the ids of the answers it was made from, 16 bytes each
    Column("body", LargeBinary, nullable=False),
    Column("grade", Text),
    Column("passed", Boolean),
    Column("facets", Text),  # JSON, see `facets`; empty where there is nothing to tell
    UniqueConstraint("run", "case_id", "rubric"),
)
# With all that lists are filtered and sorted by, so that they need not go through the bodies.
Index(
    "verdicts_in_order",
    *(verdicts.c[name] for name in ("run", "position", "number", "outcome", "score", "grade", "passed", "facets")),
)
Index("verdicts_by_outcome", verdicts.c.run, verdicts.c.outcome, verdicts.c.score)

answers = Table(
    "answers",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("key", LargeBinary, nullable=False),  # of brief, judge and sample
    Column("id", LargeBinary, nullable=False, index=True),  # of brief and text
    Column("brief_digest", LargeBinary, nullable=False),
    Column("judge", Text, nullable=False),
    Column("sample", Integer, nullable=False),
    Column("model", Text),
    Column("usage", Text, nullable=False),
    Column("cost_usd", Text),
    Column("latency_s", Float),
    Column("attempts", Integer, nullable=False),
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
    Column("run", Integer, ForeignKey("runs.number"), primary_key=True),
    sqlite_with_rowid=False,
)
run_thumbnails = Table(
    "run_thumbnails",
    metadata,
    Column("digest", LargeBinary, primary_key=True),
    Column("run", Integer, ForeignKey("runs.number"), primary_key=True),
    sqlite_with_rowid=False,
)
