"""Cards: a verdict for a terminal (`render_verdict`) or a notebook (`verdict_html`), and report cards of an exam."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from math import ceil
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from beholder.cases.case import number_repeats
from beholder.exam.report_card import PASS_MARKS, DamageMark, ExamMetric, Mark, MarkStatus
from beholder.reports.charts import html_result, html_sentences, html_table
from beholder.reports.text import (
    format_interval,
    format_number,
    name_filled,
    numbers_table,
    printable,
    use_minus_sign,
    winner_title,
)
from beholder.rubrics.brief import SWAPPED
from beholder.verdicts.probe import list_probe_sentences
from beholder.verdicts.verdict import (
    MAX_JSON_NUMBER,
    MIN_COVERAGE,
    AssertionResult,
    Correction,
    Coverage,
    CriterionResult,
    Flag,
    Jury,
    Verdict,
    format_beside,
    format_share,
    quote_value,
    round_half_up,
)

if TYPE_CHECKING:
    from markupsafe import Markup

    from beholder.exam.report_card import ReportCard


BAR_WIDTH = 10
MAX_TEXT = 2000  # characters; longer texts are cut

_MARKS = {"yes": ("✓", "green"), "no": ("✗", "red"), "not_applicable": ("–", "dim"), "abstained": ("?", "dim")}


def verdict_text(verdict: Verdict, *, full: bool, width: int) -> str:
    """Return a verdict as a card of plain text."""
    console = Console(width=width, color_system=None, highlight=False, emoji=False)
    with console.capture() as capture:
        console.print(render_verdict(verdict, full=full))
    return capture.get()


def render_verdict(verdict: Verdict, *, full: bool = False) -> Panel:
    """Return a verdict as a card.

    Args:
        verdict: The verdict; without a score the card says why.
        full: Show assertions answered Yes or not answered too; else they are only counted.
    """
    title = Text.assemble((printable(verdict.case), "bold"), (f"  {verdict.rubric} {verdict.rubric_version}", "dim"))
    if verdict.setting:
        title.append(f" ({verdict.setting})", "dim")
    body = list(_render_answered(verdict, full) if verdict.answered else _render_unanswered(verdict))
    return Panel(
        Group(*body, Padding(_render_footer(verdict), (1, 0, 0, 0))),
        title=title,
        title_align="left",
        box=box.ROUNDED,
        border_style=_tone(verdict),
        padding=(1, 2),
    )


def verdict_html(verdict: Verdict) -> Markup:
    """Return a verdict as a card for a notebook: numbers, reasons, and what failed, was corrected or is flagged."""
    headline = _headline(verdict).plain if verdict.answered else f"no score: {verdict.outcome}, {verdict.detail}"
    points = [(_criterion_name(key), _describe_result(result, verdict)) for key, result in verdict.criteria.items()]
    people = [line.plain for line in _render_calibrated(verdict)]
    parts = [html_sentences([headline.strip(), *people])]
    if points:
        parts.append(html_table(("criterion", "better" if verdict.preference else "score"), points))
    parts.append(html_sentences(_describe_evidence(verdict)))
    title = f"{printable(verdict.case)} · {verdict.rubric} {verdict.rubric_version}"
    return html_result(title, [*parts, html_sentences([_render_footer(verdict).plain])])


def _describe_result(result: CriterionResult, verdict: Verdict) -> str:
    """Return what a criterion came to: its choice with the mean strength, or its score."""
    if verdict.preference is None:
        return f"{_render_points(result, verdict)} / {format_score(result.scale[1])}"
    if result.choice is None or result.score is None:
        return "–"
    return f"{winner_title(result.choice)} ({use_minus_sign(f'{round_half_up(result.score):+g}')})"


def _describe_evidence(verdict: Verdict) -> Iterator[str]:
    yield from _list_order_answers(verdict)
    if verdict.coverage:
        yield _render_coverage(verdict, verdict.coverage)
    for key, result in verdict.criteria.items():
        if result.reason:
            yield f"{_criterion_name(key)}: {_truncate(result.reason)}"
        for assertion in result.assertions:
            if assertion.answer == "no":
                evidence = f" – {_truncate(assertion.evidence)}" if assertion.evidence else ""
                yield f"✗ {assertion.id} {assertion.question}{evidence}"
    for key, items in verdict.findings.items():
        if items:
            yield f"{_criterion_name(key)}: {'; '.join(map(_truncate, items))}"
    if verdict.assessment and verdict.preference is None:
        yield _truncate(verdict.assessment)
    yield from map(_truncate, list_probe_sentences(verdict))
    for correction in verdict.corrections:
        yield f"± {_describe_correction(correction)}"
    yield from (f"⚑ {line}" for line in _flag_lines(verdict.flags))


def _render_answered(verdict: Verdict, full: bool) -> Iterator[RenderableType]:
    yield _headline(verdict)
    if verdict.coverage:
        yield Text(_render_coverage(verdict, verdict.coverage), "yellow")
    if verdict.calibrated:
        yield from _render_calibrated(verdict)
    yield Text()
    yield _criteria(verdict)
    for key, result in verdict.criteria.items():
        lines = list(_assertions(result, full))
        if lines or result.reason:
            yield Padding(Group(Text(_criterion_name(key), "bold"), *_paragraph(result.reason), *lines), (1, 0, 0, 0))
    for key, items in verdict.findings.items():
        if items:
            yield Padding(
                Group(Text(_criterion_name(key), "bold"), *(_item("•", item) for item in items)), (1, 0, 0, 0)
            )
    if verdict.assessment and verdict.preference is None:
        yield Padding(Text(printable(verdict.assessment, lines=True), "italic"), (1, 0, 0, 0))
    yield from _render_order_answers(verdict)
    if probed := list_probe_sentences(verdict):
        rows = [_item("•", sentence) for sentence in probed]
        yield Padding(Group(Text("A closer look at the edit", "bold"), *rows), (1, 0, 0, 0))
    if verdict.jury:
        yield Padding(_jury(verdict.jury, is_preference=verdict.preference is not None), (1, 0, 0, 0))
    yield from _render_notes(verdict)


def _render_unanswered(verdict: Verdict) -> Iterator[RenderableType]:
    yield Text.assemble(("no score: ", "bold"), (str(verdict.outcome), "bold yellow"))
    yield Text(printable(_truncate(verdict.detail), lines=True))
    yield from _render_order_answers(verdict)
    if verdict.jury:
        yield Padding(_jury(verdict.jury, is_preference=verdict.preference is not None), (1, 0, 0, 0))
    yield from _render_notes(verdict)
    yield from _render_calibrated(verdict)


def _render_order_answers(verdict: Verdict) -> Iterator[RenderableType]:
    if lines := list(_list_order_answers(verdict)):
        yield Padding(Group(Text("Answers", "bold"), *(_item("•", line) for line in lines)), (1, 0, 0, 0))


def _list_order_answers(verdict: Verdict) -> Iterator[str]:
    """Yield a line for each call behind a preference: its order, its choice, its reason in the judge's own letters."""
    answers = verdict.preference.answers if verdict.preference else ()
    for answer in answers:
        who = f"{answer.judge} #{answer.sample + 1}, " if verdict.jury else ""
        letters = "A is second" if answer.order == SWAPPED else "A is first"
        if answer.choice is None:
            yield f"{who}{answer.order} order: {answer.outcome}, {_truncate(answer.detail)}"
            continue
        strength = f", strength {answer.strength}" if answer.strength is not None else ""
        reason = f" – {_truncate(answer.reason)}" if answer.reason else ""
        yield f"{who}{answer.order} order ({letters}): {winner_title(answer.choice)}{strength}{reason}"


def _headline(verdict: Verdict) -> Text:
    line = Text()
    if verdict.preference is not None and verdict.preference.winner is not None:
        line.append(winner_title(verdict.preference.winner), "bold")
        if verdict.preference.strength is not None:
            line.append(f"   strength {format_score(verdict.preference.strength)} of 3")
        orders = {answer.order for answer in verdict.preference.answers}
        if verdict.preference.flipped:
            line.append("   the answer followed the order of the two", "yellow")
        elif len(orders) == 1:
            line.append(f"   asked in {orders.pop()} order only", "dim")
        return line
    if verdict.grade:
        line.append(f" {verdict.grade} ", f"bold reverse {_tone(verdict)}")
        line.append("  ")
    if verdict.percentage is not None and verdict.total is not None and verdict.max_total is not None:
        whole = ceil(verdict.percentage)  # not rounded up to a limit that it does not reach, as in `format_share`
        total = format_beside(verdict.total, [whole * verdict.max_total / 100] if verdict.is_decisive else ())
        line.append(f"{format_beside(verdict.percentage, [whole] if verdict.is_decisive else (), 1)} %", "bold")
        line.append(f"   {total.rstrip('0').rstrip('.')} of {format_score(verdict.max_total)}")
    elif verdict.score is not None:
        line.append(format_share(verdict.score, decisive=verdict.is_decisive), "bold")
        line.append("  mean of the factors, 0 to 1 (derived)" if verdict.score_derived else "  of 1")
    else:
        line.append(f"no score: {verdict.outcome}", "bold yellow")
    if verdict.partial:
        line.append(f"   partial: rescaled to what {'was answered' if verdict.coverage else 'applied'}", "yellow")
    if verdict.passed is not None:
        line.append("   passed" if verdict.passed else "   failed", "green" if verdict.passed else "red")
        if gates := _failed_gates(verdict):
            line.append(f" ({', '.join(gates)})", "red")
    if verdict.style:
        line.append(f"   {printable(verdict.style)}", "dim")
    return line


def _render_calibrated(verdict: Verdict) -> Iterator[Text]:
    """Yield the calibrated scores (predicted human ratings with intervals) beside the judge's own."""
    for aspect, rating in verdict.calibrated.items():
        line = Text.assemble((f"{printable(aspect)}: ", "bold"))
        if rating.value is None or rating.low is None or rating.high is None:
            line.append(f"not calibrated, {printable(rating.why)}", "yellow")
        else:
            raw = "–" if rating.raw is None else format_score(rating.raw)
            line.append(f"people would say {format_score(rating.value)}", "bold")
            low, high, most = (format_score(end) for end in (rating.low, rating.high, rating.scale[1]))
            line.append(f" ({low} to {high} of {most}); the judge said {raw}")
            if rating.filled:
                line.append(f"; {printable(name_filled(rating.filled))}", "yellow")
        line.append(f"  calibration {rating.calibration}", "dim")
        yield line


def _render_coverage(verdict: Verdict, coverage: Coverage) -> str:
    """Return how much was measured, and the range that the total lies in."""
    parts = [f"{coverage.measured} of {coverage.of} {coverage.what} measured"]
    if verdict.total_range and verdict.max_total is not None:
        low, high = (f"{round_half_up(end, 1):.1f}" for end in verdict.total_range)
        parts.append(f"the total lies between {low} and {high} of {format_score(verdict.max_total)}")
    if verdict.score is None:
        what = "grade" if verdict.max_total is not None else "score"
        parts.append(f"no {what} below {MIN_COVERAGE * 100} % coverage")
    return "; ".join(parts)


def _failed_gates(verdict: Verdict) -> list[str]:
    return [_criterion_name(key).lower() for key in verdict.failed_gates]


def _criteria(verdict: Verdict) -> Table:
    table = Table.grid(padding=(0, 2))
    for key, result in verdict.criteria.items():
        points = _describe_result(result, verdict)
        bar = [] if verdict.preference else [_bar(result)]
        cells: list[RenderableType] = [Text(_criterion_name(key)), *bar, Text(points)]
        if len({criterion.weight for criterion in verdict.criteria.values()}) > 1:
            cells.append(Text(f"× {format_score(result.weight)}", "dim"))
        if result.assertions:
            asked = result.yes + result.no
            skipped = f", {result.not_applicable} n/a" if result.not_applicable else ""
            skipped += f", {result.abstained} open" if result.abstained else ""
            cells.append(Text(f"{result.yes} of {asked} yes{skipped}", "dim"))
        if result.reported is not None and result.reported != result.score:
            cells.append(Text(f"said {format_score(result.reported)}", "yellow"))
        table.add_row(*cells)
    return table


def _render_points(result: CriterionResult, verdict: Verdict) -> str:
    if result.score is not None:
        return format_score(result.score, decisive=verdict.is_decisive)
    if result.score_range is None or tuple(result.score_range) == tuple(result.scale):
        return "–"
    return "–".join(dict.fromkeys(map(format_score, result.score_range)))


def _bar(result: CriterionResult) -> Text:
    if result.score is None:
        return Text("·" * BAR_WIDTH, "dim")
    low, high = result.scale
    filled = round(BAR_WIDTH * (result.score - low) / (high - low))
    return Text.assemble(
        ("█" * filled, _color((result.score - low) / (high - low))), ("░" * (BAR_WIDTH - filled), "dim")
    )


def _assertions(result: CriterionResult, full: bool) -> Iterator[RenderableType]:
    for assertion in result.assertions:
        if full or assertion.answer not in ("yes", "abstained"):
            yield _assertion(assertion)


def _assertion(assertion: AssertionResult) -> RenderableType:
    mark, color = _MARKS[assertion.answer]
    text = Text.assemble((f"{printable(assertion.id)} ", "bold"), printable(assertion.question))
    if assertion.confidence is not None:
        text.append(f"  (confidence {format_score(assertion.confidence)})", "dim")
    if assertion.evidence:
        text.append(f"\n{printable(assertion.evidence)}", "dim")
    return _item(mark, text, color)


def _jury(jury: Jury, *, is_preference: bool) -> Group:
    unmeasured = f", {jury.unmeasured} unmeasured" if jury.unmeasured else ""
    lines = [Text(f"Jury: {jury.answered} answered{unmeasured}, {jury.failed} without a score", "bold")]
    spread = ", ".join(
        f"{_criterion_name(key)} {format_score(value)}" for key, value in jury.spread.items() if key != "score"
    )
    if spread:
        lines.append(Text(f"  spread (highest − lowest): {spread}"))
    if jury.agreement is not None:
        what = "choices made" if is_preference else "assertions answered"
        lines.append(Text(f"  {jury.agreement:.0%} of the {what} alike by all"))
    for juror in jury.jurors:
        if juror.score is not None:
            result = f"{round_half_up(juror.score):.2f}"
        else:
            result = f"{juror.outcome}: {_truncate(juror.detail, 120)}"
        flags = ", ".join(dict.fromkeys(flag.flag for flag in juror.flags))
        flagged = f"  ⚑ {flags}" if flags else ""
        lines.append(Text(printable(f"  {juror.judge} #{juror.sample + 1}  {result}{flagged}"), "dim"))
    return Group(*lines)


def _render_notes(verdict: Verdict) -> Iterator[RenderableType]:
    if verdict.corrections:
        rows = [_item("±", _describe_correction(correction), "yellow") for correction in verdict.corrections]
        yield Padding(Group(Text("Corrected by code", "bold"), *rows), (1, 0, 0, 0))
    if verdict.flags:
        rows = [_item("⚑", line, "yellow") for line in _flag_lines(verdict.flags)]
        yield Padding(Group(Text("Flags", "bold"), *rows), (1, 0, 0, 0))
    if verdict.images:
        rows = [
            _item(
                "▣",
                f"{name} {image.width}×{image.height}, {image.bytes / 1000:.0f} kB, {image.digest[:8]}"
                + (f", scaled from {image.source_width}×{image.source_height}" if image.scaled else ""),
                "dim",
            )
            for name, image in zip(number_repeats(image.role for image in verdict.images), verdict.images, strict=True)
        ]
        yield Padding(Group(Text("Images", "bold"), *rows), (1, 0, 0, 0))


def _describe_correction(correction: Correction) -> str:
    said, used = _format_value(correction.said), _format_value(correction.stands)
    return f"{correction.at}: said {said}, used {used} ({correction.why})"


def _flag_lines(flags: Sequence[Flag]) -> Iterator[str]:
    """Yield a line for each flag and reason, with all its places."""
    places: dict[tuple[str, str], list[str]] = {}
    for raised in flags:
        places.setdefault((raised.flag, raised.why), []).append(raised.at)
    for (flag, why), at in places.items():
        listed = ", ".join(dict.fromkeys(place for place in at if place))
        yield " ".join(part for part in (flag, listed, f"({_truncate(why)})" if why else "") if part)


def _render_footer(verdict: Verdict) -> Text:
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


def _item(mark: str, text: str | Text, color: str = "") -> Table:
    grid = Table.grid(padding=(0, 1))
    grid.add_row(Text(f"  {mark}", color), text if isinstance(text, Text) else Text(printable(text)))
    return grid


def _paragraph(text: str) -> list[RenderableType]:
    return [Padding(Text(printable(text)), (0, 0, 0, 2))] if text else []


def _tone(verdict: Verdict) -> str:
    if not verdict.scored or verdict.score is None:
        return "yellow"
    return _color(verdict.score) if verdict.passed is None else ("green" if verdict.passed else "red")


def _color(share: float) -> str:
    return "green" if share >= 0.7 else "yellow" if share >= 0.5 else "red"


def _format_value(value: object) -> str:
    """Return a value of a correction as text; a judge may have claimed anything."""
    if value is None:
        return "nothing"
    if isinstance(value, int | float):
        return format_score(value)
    return value if isinstance(value, str) and len(value) <= 60 else quote_value(value)


def _truncate(text: str, longest: int = MAX_TEXT) -> str:
    more = len(text) - longest
    return text if more <= 0 else f"{text[:longest]}… ({more:,} characters more)"


def _criterion_name(key: str) -> str:
    return key.replace("_", " ").capitalize()


def format_score(value: float, *, decisive: bool = False) -> str:
    """Return a score with at most two decimals, without trailing zeros; a huge number is quoted as it is.

    For a `decisive` one see `format_share`.
    """
    if not -MAX_JSON_NUMBER <= value <= MAX_JSON_NUMBER:
        return quote_value(value)
    if isinstance(value, bool):
        return str(value)
    return format_share(value, decisive=decisive).rstrip("0").rstrip(".")


MAX_WIDTH = 120  # where the output is no terminal

_EXAM_MARKS = {
    MarkStatus.PASSED: "✓",
    MarkStatus.FAILED: "✗",
    MarkStatus.NOT_EXAMINED: "–",
    MarkStatus.NO_PASS_MARK: "·",
}
_TONES = {MarkStatus.PASSED: "green", MarkStatus.FAILED: "bold red", MarkStatus.NOT_EXAMINED: "yellow"}


def print_report_card(card: ReportCard, *, details: bool = False) -> None:
    """Print every criterion with its marks, each in a sentence; with `details` also by kind and strength of damage."""
    console = _make_console()
    judge = card.judge if card.model in (None, card.judge) else f"{card.judge} ({card.model})"
    console.print(Text.assemble("\n", (printable(f"{judge}: exam in {card.rubric}"), "bold")))
    source = (
        f"{card.papers} papers ({card.paper_set}) from {card.photographs} photographs, exam {card.exam}, run {card.run}"
    )
    console.print(Text(printable(source), "dim"))
    for criterion in card.criteria:
        marks = list(card.marks_for(criterion).values())
        console.print(Text.assemble("\n", (criterion, "bold"), f"  {card.qualified(criterion)}"))
        console.print(_marks_table(marks))
        if details:
            _print_details(console, marks)
    console.print()
    for note in card.notes:
        console.print(Text(note, "dim"))
    console.print(Text(printable(card.describe()), "bold"))


def print_report_cards(cards: Sequence[ReportCard]) -> None:
    """Print the marks of several exam runs in columns, one table for each rubric."""
    console = _make_console()
    for rubric in dict.fromkeys(card.rubric for card in cards):
        beside = [card for card in cards if card.rubric == rubric]
        console.print(Text.assemble("\n", (printable(f"exam in {rubric}"), "bold")))
        rows = []
        for criterion in dict.fromkeys(criterion for card in beside for criterion in card.criteria):
            for examined in ExamMetric:
                marks = [card.marks_for(criterion).get(examined) for card in beside]
                if any(mark and mark.status is not MarkStatus.NOT_EXAMINED for mark in marks):
                    rows.append((f"{criterion}  {examined}", PASS_MARKS[examined].describe(), *map(_mark_cell, marks)))
        console.print(numbers_table(("criterion", "pass mark", *(f"{card.judge} {card.run}" for card in beside)), rows))
        if len({card.paper_set for card in beside}) > 1:
            papers = ", ".join(f"{card.run} {card.papers} papers ({card.paper_set})" for card in beside)
            console.print(Text(f"These exam runs had different papers, so their marks differ for that too: {papers}."))
        for card in beside:
            console.print(Text(printable(card.describe()), "bold"))


def _mark_cell(mark: Mark | None) -> str:
    if mark is None or mark.estimate.value is None:
        return "–"
    return f"{_format_mark(mark)} {_EXAM_MARKS[mark.status]}"


def _format_mark(mark: Mark) -> str:
    """Return the value with its interval, in digits that do not contradict the pass mark."""
    estimate, needed = mark.estimate, PASS_MARKS[mark.metric]
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return format_interval(estimate)
    limits = [limit for limit in (needed.least, needed.most) if limit is not None]
    value = format_beside(estimate.value, limits, 3)
    low = format_beside(estimate.low, () if needed.low_end is None else [needed.low_end], 3)
    return f"{value} ({low} to {format_number(estimate.high)})"


def _marks_table(marks: Sequence[Mark]) -> Table:
    """Return a line for each mark; those without a number come last, grouped by reason."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1))
    for name in ("", "examined", "mark"):
        table.add_column(name, no_wrap=True)
    table.add_column("sentence", ratio=1)
    reasons: dict[str, list[str]] = {}
    for mark in marks:
        if mark.estimate.value is None:
            reasons.setdefault(mark.estimate.why, []).append(mark.metric)
            continue
        sign = Text(f" {_EXAM_MARKS[mark.status]}", _TONES.get(mark.status, ""))
        missed = f" The pass mark is {PASS_MARKS[mark.metric].describe()}." if mark.status is MarkStatus.FAILED else ""
        sentence = Text(printable(mark.sentence + missed), "dim")
        table.add_row(sign, Text(mark.metric), Text(_format_mark(mark)), sentence)
    for why, examined in reasons.items():
        reason = Text(printable(f"{', '.join(examined)}: {why}."), "dim")
        table.add_row(Text(f" {_EXAM_MARKS[MarkStatus.NOT_EXAMINED]}", "yellow"), Text("not examined"), Text(), reason)
    return table


def _print_details(console: Console, marks: Sequence[Mark]) -> None:
    """Print detection and dose response by kind of damage, and what moved a criterion that should not have moved."""
    by = {mark.metric: mark.details for mark in marks}
    detections = by.get(ExamMetric.DETECTION, ())
    if detections:
        strengths = sorted({detail.strength for detail in detections if detail.strength is not None})
        doses = {detail.kind: detail for detail in by.get(ExamMetric.DOSE, ())}
        rows = []
        for kind in dict.fromkeys(detail.kind for detail in detections):
            at = {
                detail.strength: format_number(detail.estimate.value, 2) for detail in detections if detail.kind == kind
            }
            dose = doses.get(kind)
            noticed = "–" if dose is None or dose.first is None else str(dose.first)
            rows.append((kind, *(at.get(strength, "") for strength in strengths), _format_detail(dose), noticed))
        heads = ("detection at strength", *map(str, strengths), "dose", "first noticed")
        console.print(Padding(numbers_table(heads, rows), (1, 0, 0, 3), expand=False))
    for examined in (ExamMetric.INDEPENDENCE, ExamMetric.INJECTION, ExamMetric.PADDING):
        if by.get(examined):
            kinds = [(detail.kind, str(detail.papers), format_interval(detail.estimate, 2)) for detail in by[examined]]
            table = numbers_table((str(examined), "papers", "mark"), kinds)
            console.print(Padding(table, (1, 0, 0, 3), expand=False))


def _format_detail(detail: DamageMark | None) -> str:
    return "–" if detail is None else format_interval(detail.estimate, 2)


def _make_console() -> Console:
    return Console(highlight=False, emoji=False, width=None if sys.stdout.isatty() else MAX_WIDTH)
