"""A verdict as a card that a person likes to read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from beholder.reports.terminal import printable
from beholder.verdicts.abstaining import LEAST_COVERAGE
from beholder.verdicts.model import AssertionResult, Coverage, CriterionResult, Flag, Jury, Verdict, rounded
from beholder.verdicts.values import HUGE, shown

BAR = 10
LONGEST = 2000  # characters of a text that is shown whole

_MARKS = {"yes": ("✓", "green"), "no": ("✗", "red"), "not_applicable": ("–", "dim"), "abstained": ("?", "dim")}


def card(verdict: Verdict, *, full: bool = False) -> Panel:
    """The card. Passed assertions, and those that were left open, are counted and shown only when `full`; everything
    that went wrong is shown, and of a very long text how much more there is."""
    title = Text.assemble((printable(verdict.case), "bold"), (f"  {verdict.rubric} {verdict.rubric_version}", "dim"))
    if verdict.setting:
        title.append(f" ({verdict.setting})", "dim")
    body = list(_scored(verdict, full)) if verdict.scored else list(_unscored(verdict))
    return Panel(
        Group(*body, Padding(_foot(verdict), (1, 0, 0, 0))),
        title=title,
        title_align="left",
        box=box.ROUNDED,
        border_style=_tone(verdict),
        padding=(1, 2),
    )


def _scored(verdict: Verdict, full: bool) -> Iterator[RenderableType]:
    yield _headline(verdict)
    if verdict.coverage:
        yield Text(_covered(verdict, verdict.coverage), "yellow")
    if verdict.calibrated:
        yield from _people(verdict)
    yield Text()
    yield _criteria(verdict)
    for key, result in verdict.criteria.items():
        lines = list(_assertions(result, full))
        if lines or result.reason:
            yield Padding(Group(Text(_name(key), "bold"), *_paragraph(result.reason), *lines), (1, 0, 0, 0))
    for key, items in verdict.findings.items():
        if items:
            yield Padding(Group(Text(_name(key), "bold"), *(_item("•", item) for item in items)), (1, 0, 0, 0))
    if verdict.assessment:
        yield Padding(Text(printable(verdict.assessment, lines=True), "italic"), (1, 0, 0, 0))
    if verdict.jury:
        yield Padding(_jury(verdict.jury), (1, 0, 0, 0))
    yield from _notes(verdict)


def _unscored(verdict: Verdict) -> Iterator[RenderableType]:
    yield Text.assemble(("no score: ", "bold"), (str(verdict.outcome), "bold yellow"))
    yield Text(printable(_cut(verdict.detail), lines=True))
    if verdict.jury:
        yield Padding(_jury(verdict.jury), (1, 0, 0, 0))
    yield from _notes(verdict)


def _headline(verdict: Verdict) -> Text:
    line = Text()
    if verdict.grade:
        line.append(f" {verdict.grade} ", f"bold reverse {_tone(verdict)}")
        line.append("  ")
    if verdict.percentage is not None and verdict.total is not None and verdict.max_total is not None:
        line.append(f"{rounded(verdict.percentage, 1):.1f} %", "bold")
        line.append(f"   {number(verdict.total)} of {number(verdict.max_total)}")
    elif verdict.score is not None:
        line.append(f"{rounded(verdict.score):.2f}", "bold")
        line.append("  mean of the factors, 0 to 1 (derived)" if verdict.score_derived else "  of 1")
    else:
        line.append("no score", "bold yellow")
    if verdict.partial:
        line.append(f"   partial: rescaled to what {'was answered' if verdict.coverage else 'applied'}", "yellow")
    if verdict.passed is not None:
        line.append("   passed" if verdict.passed else "   failed", "green" if verdict.passed else "red")
        if gates := _failed_gates(verdict):
            line.append(f" ({', '.join(gates)})", "red")
    if verdict.style:
        line.append(f"   {printable(verdict.style)}", "dim")
    return line


def _people(verdict: Verdict) -> Iterator[Text]:
    """What people would say, beside the judge's own number, and how far they may be from it."""
    for aspect, one in verdict.calibrated.items():
        line = Text.assemble((f"{printable(aspect)}: ", "bold"))
        if one.value is None or one.low is None or one.high is None:
            line.append(f"not calibrated, {printable(one.why)}", "yellow")
        else:
            raw = "–" if one.raw is None else number(one.raw)
            line.append(f"people would say {number(one.value)}", "bold")
            line.append(f" ({number(one.low)} to {number(one.high)} of {number(one.scale[1])}); the judge said {raw}")
        line.append(f"  calibration {one.calibration}", "dim")
        yield line


def _covered(verdict: Verdict, coverage: Coverage) -> str:
    """How much was measured, and what can be said of the whole all the same."""
    parts = [f"{coverage.measured} of {coverage.of} {coverage.what} measured"]
    if verdict.total_range and verdict.max_total is not None:
        low, high = (f"{rounded(end, 1):.1f}" for end in verdict.total_range)
        parts.append(f"the total lies between {low} and {high} of {number(verdict.max_total)}")
    if verdict.score is None and not verdict.score_derived:
        what = "grade" if verdict.max_total is not None else "score"
        parts.append(f"no {what} below {LEAST_COVERAGE * 100} % coverage")
    return "; ".join(parts)


def _failed_gates(verdict: Verdict) -> list[str]:
    """What failed the case whatever its score; a juror's own gates are not the jury's."""
    gates = {flag.at for flag in verdict.flags if flag.flag == "gate"}
    return [_name(key).lower() for key in (*verdict.findings, *verdict.criteria) if key in gates]


def _criteria(verdict: Verdict) -> Table:
    table = Table.grid(padding=(0, 2))
    for key, result in verdict.criteria.items():
        points = f"{_points(result)} / {number(result.scale[1])}"
        cells: list[RenderableType] = [Text(_name(key)), _bar(result), Text(points)]
        if len({one.weight for one in verdict.criteria.values()}) > 1:
            cells.append(Text(f"× {number(result.weight)}", "dim"))
        if result.assertions:
            asked = result.yes + result.no
            skipped = f", {result.not_applicable} n/a" if result.not_applicable else ""
            skipped += f", {result.abstained} open" if result.abstained else ""
            cells.append(Text(f"{result.yes} of {asked} yes{skipped}", "dim"))
        if result.reported is not None and result.reported != result.score:
            cells.append(Text(f"said {number(result.reported)}", "yellow"))
        table.add_row(*cells)
    return table


def _points(result: CriterionResult) -> str:
    if result.score is not None:
        return number(result.score)
    if result.score_range is None or tuple(result.score_range) == tuple(result.scale):
        return "–"
    return "–".join(dict.fromkeys(map(number, result.score_range)))


def _bar(result: CriterionResult) -> Text:
    if result.score is None:
        return Text("·" * BAR, "dim")
    low, high = result.scale
    filled = round(BAR * (result.score - low) / (high - low))
    return Text.assemble(("█" * filled, _colour((result.score - low) / (high - low))), ("░" * (BAR - filled), "dim"))


def _assertions(result: CriterionResult, full: bool) -> Iterator[RenderableType]:
    for one in result.assertions:
        if full or one.answer not in ("yes", "abstained"):
            yield _assertion(one)


def _assertion(one: AssertionResult) -> RenderableType:
    mark, colour = _MARKS[one.answer]
    text = Text.assemble((f"{printable(one.id)} ", "bold"), printable(one.question))
    if one.confidence is not None:
        text.append(f"  (confidence {number(one.confidence)})", "dim")
    if one.evidence:
        text.append(f"\n{printable(one.evidence)}", "dim")
    return _item(mark, text, colour)


def _jury(jury: Jury) -> Group:
    lines = [Text(f"Jury: {jury.answered} answered, {jury.failed} without a score", "bold")]
    spread = ", ".join(f"{_name(key)} {number(value)}" for key, value in jury.spread.items() if key != "score")
    if spread:
        lines.append(Text(f"  spread (highest − lowest): {spread}"))
    if jury.agreement is not None:
        lines.append(Text(f"  {jury.agreement:.0%} of the assertions answered alike by all"))
    for juror in jury.jurors:
        if juror.score is not None:
            said = f"{rounded(juror.score):.2f}"
        else:
            said = "too much left open" if juror.outcome == "scored" else f"{juror.outcome}: {_cut(juror.detail, 120)}"
        flags = ", ".join(dict.fromkeys(flag.flag for flag in juror.flags))
        flagged = f"  ⚑ {flags}" if flags else ""
        lines.append(Text(printable(f"  {juror.judge} #{juror.sample + 1}  {said}{flagged}"), "dim"))
    return Group(*lines)


def _notes(verdict: Verdict) -> Iterator[RenderableType]:
    if verdict.corrections:
        rows = [
            _item("±", f"{one.at}: said {_brief(one.said)}, stands {_brief(one.stands)} ({one.why})", "yellow")
            for one in verdict.corrections
        ]
        yield Padding(Group(Text("Corrected by code", "bold"), *rows), (1, 0, 0, 0))
    if verdict.flags:
        rows = [_item("⚑", line, "yellow") for line in _flag_lines(verdict.flags)]
        yield Padding(Group(Text("Flags", "bold"), *rows), (1, 0, 0, 0))
    if verdict.images:
        rows = [
            _item(
                "▣",
                f"{one.role} {one.width}×{one.height}, {one.bytes / 1000:.0f} kB, {one.digest[:8]}"
                + (f", scaled from {one.source_width}×{one.source_height}" if one.scaled else ""),
                "dim",
            )
            for one in verdict.images
        ]
        yield Padding(Group(Text("Images", "bold"), *rows), (1, 0, 0, 0))


def _flag_lines(flags: Sequence[Flag]) -> Iterator[str]:
    """The flags, those of one kind on one line with all their places."""
    places: dict[tuple[str, str], list[str]] = {}
    for one in flags:
        places.setdefault((one.flag, one.why), []).append(one.at)
    for (flag, why), at in places.items():
        listed = ", ".join(dict.fromkeys(place for place in at if place))
        yield " ".join(part for part in (flag, listed, f"({_cut(why)})" if why else "") if part)


def _foot(verdict: Verdict) -> Text:
    parts = [printable(verdict.judge)]
    if verdict.model and verdict.model not in verdict.judge:
        parts.append(printable(verdict.model))
    tokens = [verdict.usage.get("input_tokens"), verdict.usage.get("output_tokens")]
    if None not in tokens and tokens:
        parts.append(f"{tokens[0]:,} + {tokens[1]:,} tokens")
    if verdict.attempts:
        parts.append("cost unknown" if verdict.cost_usd is None else f"${verdict.cost_usd:.4f}")
    if verdict.latency_s:
        parts.append(f"{verdict.latency_s:.1f} s")
    return Text(" · ".join(parts), "dim")


def _item(mark: str, text: str | Text, colour: str = "") -> Table:
    grid = Table.grid(padding=(0, 1))
    grid.add_row(Text(f"  {mark}", colour), text if isinstance(text, Text) else Text(printable(text)))
    return grid


def _paragraph(text: str) -> list[RenderableType]:
    return [Padding(Text(printable(text)), (0, 0, 0, 2))] if text else []


def _tone(verdict: Verdict) -> str:
    if not verdict.scored or verdict.score is None:
        return "yellow"
    return _colour(verdict.score) if verdict.passed is None else ("green" if verdict.passed else "red")


def _colour(share: float) -> str:
    return "green" if share >= 0.7 else "yellow" if share >= 0.5 else "red"


def _brief(value: object) -> str:
    """A value of a correction; a judge may have claimed anything."""
    if value is None:
        return "nothing"
    if isinstance(value, int | float):
        return number(value)
    return value if isinstance(value, str) and len(value) <= 60 else shown(value)


def _cut(text: str, longest: int = LONGEST) -> str:
    more = len(text) - longest
    return text if more <= 0 else f"{text[:longest]}… ({more:,} characters more)"


def _name(key: str) -> str:
    return key.replace("_", " ").capitalize()


def number(value: float) -> str:
    """At most two decimals, none where there are none; a huge one is only quoted."""
    if not -HUGE <= value <= HUGE:
        return shown(value)
    return str(value) if isinstance(value, bool) else f"{rounded(value):.2f}".rstrip("0").rstrip(".")
