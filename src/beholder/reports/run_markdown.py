"""A run as Markdown, for a pull request: what it came to, and where to look first. Names are kept from being markup as
in `reports.markdown`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

from beholder.ledger import Ledger, RunRecord
from beholder.reports.html.against import comparison_of
from beholder.reports.html.figures import Figures, figures
from beholder.reports.html.gathering import Gathered, gather
from beholder.reports.markdown import code, comparison_markdown, prose
from beholder.reports.numbers import shown, with_interval

WORST = 10


def run_markdown(ledger: Ledger, record: RunRecord, group: str | None = None, other: RunRecord | None = None) -> str:
    """The run; with an `other`, older one, what changed comes after it."""
    with tempfile.TemporaryFile() as details:
        gathered = gather(ledger, record, details)
    lines = [*_lines(gathered, figures(gathered, group))]
    if other is not None:
        lines += ["", comparison_markdown(comparison_of(ledger, record, other, group)).rstrip("\n")]
    return "\n".join(lines) + "\n"


def _lines(gathered: Gathered, numbers: Figures) -> Iterator[str]:
    record, tally = gathered.record, gathered.tally
    rubrics = ", ".join(code(f"{name} {version}") for name, version in gathered.versions.items())
    judges = ", ".join(
        code(name) for name in [*tally.judges, *(model for model in sorted(tally.models) if model not in tally.judges)]
    )
    yield f"### {code(record.name)}"
    yield ""
    told = f"{tally.verdicts:,} verdicts on {gathered.cases:,} cases by {rubrics or 'no rubric'}"
    yield f"{told}, judged by {judges or 'nobody'}."
    states = [
        f"{tally.score.count:,} scored",
        *(f"{one.count:,} {prose(state.replace('_', ' '))}" for state, one in gathered.lacks.items()),
    ]
    yield f"{', '.join(states)}."
    if spreads := (*numbers.overall, *numbers.criteria):
        yield ""
        yield from ("| | verdicts | scale | mean |", "|---|--:|--:|--:|")
        for one in spreads:
            low, high = one.scale
            mean = prose(with_interval(one.mean, one.places))
            yield f"| {code(one.title)} | {one.count:,} | {low:g}–{high:g} | {mean} |"
    yield from _folded("Worst cases", "| case | score | |\n|---|--:|---|", _worst(gathered))
    failing = sorted(
        (item for item in gathered.assertions.items() if item[1].count), key=lambda item: (-item[1].count, item[0])
    )
    rows = [
        f"| {code(id_)} | {prose(question)} | {one.count} of {one.of} |" for (_, id_, question), one in failing[:WORST]
    ]
    yield from _folded("Assertions that fail most", "| | | No |\n|---|---|--:|", rows)
    flags = sorted(gathered.flags.items(), key=lambda item: (-item[1].count, item[0]))
    yield from _folded(
        "Flags", "| flag | verdicts |\n|---|--:|", [f"| {code(name)} | {one.count:,} |" for name, one in flags]
    )
    if numbers.told:
        yield ""
        yield f"<sub>{prose(numbers.told)}</sub>"


def _worst(gathered: Gathered) -> list[str]:
    """What has no score first, then the lowest scores."""
    index = gathered.index
    order = sorted(range(len(index)), key=lambda at: (index.score[at] is not None, index.score[at] or 0.0, at))
    graded = [grade or state.replace("_", " ") for grade, state in zip(index.grade, index.state, strict=True)]
    return [f"| {code(index.case[at])} | {shown(index.score[at])} | {prose(graded[at])} |" for at in order[:WORST]]


def _folded(title: str, head: str, rows: list[str]) -> Iterator[str]:
    if rows:
        yield from ("", f"<details><summary>{title}</summary>", "", head, *rows, "", "</details>")
