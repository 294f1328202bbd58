"""A run as Markdown, for a pull request: what it came to, and where to look first. Names are kept from being markup as
in `reports.markdown`."""

from __future__ import annotations

from collections.abc import Iterator

from beholder.ledger import Ledger, RunRecord
from beholder.reports.html.against import comparison_of
from beholder.reports.html.gathering import Gathered, Question, Watch, gather, unwatched
from beholder.reports.html.summary import Summary, summarised
from beholder.reports.markdown import code, comparison_markdown, prose
from beholder.reports.numbers import shown, with_interval

WORST = 10


def run_markdown(
    ledger: Ledger,
    record: RunRecord,
    group: str | None = None,
    other: RunRecord | None = None,
    *,
    watch: Watch = unwatched,
) -> str:
    """The run; with an `other`, older one, what changed comes after it."""
    gathered = gather(ledger, record, watch=watch)
    lines = [*_lines(gathered, summarised(gathered, group))]
    if other is not None:
        lines += ["", comparison_markdown(comparison_of(ledger, record, other, group).comparison).rstrip("\n")]
    return "\n".join(lines) + "\n"


def _lines(gathered: Gathered, summary: Summary) -> Iterator[str]:
    record, tally = gathered.record, gathered.tally
    rubrics = ", ".join(code(f"{name} {version}") for name, version in gathered.versions.items())
    judges = ", ".join(
        code(name) for name in [*tally.judges, *(model for model in sorted(tally.models) if model not in tally.judges)]
    )
    yield f"### {code(record.name)}"
    yield ""
    told = f"{tally.verdicts:,} verdicts on {gathered.cases:,} cases by {rubrics or 'no rubric'}"
    yield f"{told}, judged by {judges or 'nobody'}."
    states = [f"{count:,} {prose(state.replace('_', ' '))}" for state, count, _ in summary.outcomes]
    yield f"{', '.join(states)}."
    figures = summary.figures
    if spreads := (*figures.overall, *figures.criteria):
        yield ""
        yield from ("| | verdicts | scale | mean |", "|---|--:|--:|--:|")
        for one in spreads:
            low, high = one.scale
            mean = prose(with_interval(one.mean, one.places))
            yield f"| {code(one.title)} | {one.count:,} | {low:g}–{high:g} | {mean} |"
    yield from _folded("Worst cases", "| case | score | grade |\n|---|--:|---|", _worst(gathered))
    several = len(gathered.versions) > 1
    rows = [
        f"| {code(asked.id)} | {prose(asked.question)} | {_asked_by(asked, several)} | {one.count:,} of {one.of:,} |"
        for asked, one in summary.failing[:WORST]
    ]
    head = "| assertion | question | style | answered No |\n|---|---|---|--:|"
    yield from _folded("Assertions that fail most", head, rows)
    flags = [f"| {code(name)} | {one.count:,} |" for name, _, one in summary.flags]
    yield from _folded("Flags", "| flag | verdicts |\n|---|--:|", flags)
    if figures.told:
        yield ""
        yield f"<sub>{prose(figures.told)}</sub>"


def _asked_by(asked: Question, several: bool) -> str:
    """For which style, and of several rubrics by which: two of them may have an assertion of the same id."""
    return ", ".join(code(name) for name in (asked.style, asked.rubric if several else "") if name)


def _worst(gathered: Gathered) -> list[str]:
    """What has no score first, then the lowest scores."""
    index = gathered.index
    order = sorted(range(len(index)), key=lambda at: (index.score[at] is not None, index.score[at] or 0.0, at))
    graded = [grade or state.replace("_", " ") for grade, state in zip(index.grade, index.state, strict=True)]
    return [f"| {code(index.case[at])} | {shown(index.score[at])} | {prose(graded[at])} |" for at in order[:WORST]]


def _folded(title: str, head: str, rows: list[str]) -> Iterator[str]:
    if rows:
        yield from ("", f"<details><summary>{title}</summary>", "", head, *rows, "", "</details>")
