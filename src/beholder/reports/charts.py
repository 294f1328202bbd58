"""SVG charts of the HTML report, of the web app and of results in a notebook; and the frame and tables of the last.

Every chart is decoration for people who see it (`aria-hidden`): the page has its numbers in a table or in words beside
it. Colors come from CSS classes (`charts.css`), so that a chart follows the theme.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import TYPE_CHECKING

from markupsafe import Markup

from beholder.reports.text import escape_hidden, use_minus_sign
from beholder.verdicts.verdict import format_count

if TYPE_CHECKING:
    from beholder.reports.summary import HistogramBin, ScoreHistogram
    from beholder.statistics.bootstrap import Interval

HISTOGRAM_WIDTH, HISTOGRAM_HEIGHT, BAR_GAP = 240, 72, 2
STRIP_WIDTH, STRIP_HEIGHT, STRIP_MARGIN = 160, 20, 6
MIN_BAR_HEIGHT = 1.5  # a bar for a single verdict stays visible

ScaleRange = tuple[float, float]

_SVG = Markup('<svg class="chart {}" viewBox="0 0 {} {}" width="{}" height="{}" aria-hidden="true" focusable="false">')
_STACKED_SVG = Markup(
    '<svg class="chart stacked" viewBox="0 0 1000 12" preserveAspectRatio="none" aria-hidden="true" focusable="false">'
)


_NOTEBOOK_STYLE = Markup(
    "<style>.beholder-result table{border-collapse:collapse}"
    ".beholder-result :is(th,td){padding:.2em .8em .2em 0;text-align:right}"
    ".beholder-result :is(th,td):first-child{text-align:left}"
    ".beholder-result .axis{stroke:currentColor;opacity:.4}"
    ".beholder-result .interval{stroke:currentColor;stroke-width:2.5;stroke-linecap:round}"
    ".beholder-result .dot{fill:currentColor}</style>"
)


def html_result(title: str, parts: Iterable[Markup]) -> Markup:
    """Return a result for a notebook, with its own style and no resource from elsewhere."""
    heading = Markup("<p><strong>{}</strong></p>").format(escape_hidden(title))
    return Markup('<div class="beholder-result">{}{}{}</div>').format(_NOTEBOOK_STYLE, heading, Markup("").join(parts))


def html_table(headers: Iterable[str], rows: Iterable[Sequence[str]]) -> Markup:
    """Return a table; cells are escaped except `Markup`, such as a chart."""
    head = Markup("").join(Markup("<th>{}</th>").format(header) for header in headers)
    lines = [
        Markup("").join(
            Markup("<td>{}</td>").format(cell if isinstance(cell, Markup) else escape_hidden(cell)) for cell in row
        )
        for row in rows
    ]
    body = Markup("").join(Markup("<tr>{}</tr>").format(line) for line in lines)
    return Markup("<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>").format(head, body)


def html_interval(estimate: Interval | None) -> str:
    """Return a number with its interval as the text of a cell: `0.62 (0.55 to 0.70)`."""
    if estimate is None or estimate.value is None:
        return "–"
    ends = "" if estimate.low is None or estimate.high is None else f" ({estimate.low:.3f} to {estimate.high:.3f})"
    return f"{estimate.value:.3f}{ends}"


def html_sentences(sentences: Iterable[str]) -> Markup:
    """Return a paragraph for each sentence, escaped."""
    return Markup("").join(Markup("<p>{}</p>").format(escape_hidden(sentence)) for sentence in sentences)


def histogram_chart(histogram: ScoreHistogram, links: Sequence[str] = ()) -> Markup:
    """Draw a bar for each bin, and below them the mean with its interval on the same axis.

    Args:
        histogram: What to draw.
        links: Where the cases of each bin are; none, or empty, where there is nothing to lead to.
    """
    height = HISTOGRAM_HEIGHT + 34
    slot = HISTOGRAM_WIDTH / len(histogram.bins)
    whole = histogram.whole
    parts = _bars(histogram.bins, links)
    parts += [
        _text("count", (at + 0.5) * slot, HISTOGRAM_HEIGHT - tall - 3, one.count)
        for at, (one, tall) in enumerate(_bar_heights(histogram.bins))
        if one.count
    ]
    parts.append(_line("axis", 0, HISTOGRAM_HEIGHT, HISTOGRAM_WIDTH, HISTOGRAM_HEIGHT))
    low, high = histogram.scale
    # A whole number is in the middle of its bar; bins of other numbers run from edge to edge.
    left, right = (slot / 2, HISTOGRAM_WIDTH - slot / 2) if whole else (0.0, float(HISTOGRAM_WIDTH))

    def x(value: float) -> float:
        return left + (right - left) * (value - low) / (high - low) if high > low else left

    parts += _interval(histogram.mean, x, HISTOGRAM_HEIGHT + 9)
    if whole:
        parts += [_text("tick", (at + 0.5) * slot, height - 4, bin_.label) for at, bin_ in enumerate(histogram.bins)]
    else:
        parts.append(_text("tick start", 0, height - 4, f"{low:g}"))
        parts.append(_text("tick", HISTOGRAM_WIDTH / 2, height - 4, f"{(low + high) / 2:g}"))
        parts.append(_text("tick end", HISTOGRAM_WIDTH, height - 4, f"{high:g}"))
    return _svg("spread", HISTOGRAM_WIDTH, height, parts)


def bar_chart(bins: Sequence[HistogramBin], links: Sequence[str] = ()) -> Markup:
    """Draw a bar for each bin with its label under it: for grades. `links` as in `histogram_chart`."""
    slot = HISTOGRAM_WIDTH / max(1, len(bins))
    crowded = any(len(bin_.label) * 7 > slot for bin_ in bins)  # then every second label is a line lower
    height = HISTOGRAM_HEIGHT + (34 if crowded else 18)
    parts = _bars(bins, links)
    for at, (one, tall) in enumerate(_bar_heights(bins)):
        lower = 30 if crowded and at % 2 else 14
        parts.append(_text("count", (at + 0.5) * slot, HISTOGRAM_HEIGHT - tall - 3, one.count))
        parts.append(_text("tick", (at + 0.5) * slot, HISTOGRAM_HEIGHT + lower, one.label))
    parts.append(_line("axis", 0, HISTOGRAM_HEIGHT, HISTOGRAM_WIDTH, HISTOGRAM_HEIGHT))
    return _svg("spread", HISTOGRAM_WIDTH, height, parts)


def bin_links(histogram: ScoreHistogram, list_link: Callable[..., str]) -> list[str]:
    """Return where the cases of each bin of a criterion are; empty where no filter can tell them: of scores that are no
    whole numbers, and of criteria that two rubrics have."""
    if not histogram.whole or "." in histogram.key:
        return [""] * len(histogram.bins)
    return [list_link(criterion=histogram.key, least=one.label, most=one.label) for one in histogram.bins]


def interval_chart(estimate: Interval, scale: ScaleRange, middle: float | None = None) -> Markup:
    """Draw a mean as a dot and its interval as a line, on its whole scale.

    Args:
        estimate: The mean with its interval; without a value only the axis is drawn.
        scale: Lowest and highest value of the axis.
        middle: A value to mark on the axis (0 for differences) in place of its ends.
    """
    low, high = scale
    span = STRIP_WIDTH - 2 * STRIP_MARGIN
    y = STRIP_HEIGHT / 2

    def x(value: float) -> float:
        return STRIP_MARGIN + span * (value - low) / (high - low) if high > low else STRIP_MARGIN

    parts = [_line("axis", STRIP_MARGIN, y, STRIP_WIDTH - STRIP_MARGIN, y)]
    marked = (STRIP_MARGIN, STRIP_WIDTH - STRIP_MARGIN) if middle is None else (x(middle),)
    reach = 3 if middle is None else 8
    parts += [_line("axis", at, y - reach, at, y + reach) for at in marked]
    return _svg("strip", STRIP_WIDTH, STRIP_HEIGHT, [*parts, *_interval(estimate, x, y)])


def axis_chart(scale: ScaleRange, middle: float) -> Markup:
    """Draw the axis of `interval_chart` by itself, with the numbers at its ends and in the middle."""
    low, high = scale
    span = STRIP_WIDTH - 2 * STRIP_MARGIN
    middle_x = STRIP_MARGIN + span * (middle - low) / (high - low)
    ends = [(STRIP_MARGIN, low, "tick start"), (STRIP_WIDTH - STRIP_MARGIN, high, "tick end")]
    room = span / 5  # beside a number at an end
    shown = [end for end in ends if abs(end[0] - middle_x) > room]
    ticks = [*((x, value, kind) for x, value, kind in shown), (middle_x, middle, "tick")]
    parts = [_line("axis", STRIP_MARGIN, 3, STRIP_WIDTH - STRIP_MARGIN, 3)]
    for x, value, kind in ticks:
        parts += [_line("axis", x, 0, x, 6), _text(kind, x, 18, use_minus_sign(f"{value:g}"))]
    return _svg("strip", STRIP_WIDTH, STRIP_HEIGHT, parts)


def share_bar(count: int, of: int, tone: str = "bad") -> Markup:
    """Draw `count` of `of` as the filled part of a bar; `tone` is a CSS class."""
    filled = STRIP_WIDTH * count / of if of else 0
    return _svg("share", STRIP_WIDTH, 8, [_rect("track", 0, 0, STRIP_WIDTH, 8), _rect(f"bar {tone}", 0, 0, filled, 8)])


def stacked_bar(parts: Sequence[tuple[str, int]]) -> Markup:
    """Draw the parts of a whole side by side; a part is a CSS class with its count."""
    whole = sum(count for _, count in parts) or 1
    at, drawn = 0.0, [_STACKED_SVG]
    for tone, count in parts:
        width = 1000.0 * count / whole
        drawn.append(_rect(f"slice {tone}", at, 0, max(width - 2, 1.0), 12))
        at += width
    return Markup("").join([*drawn, Markup("</svg>")])


def bias_chart(bias: float | None, reach: float) -> Markup:
    """Draw how far above (right) or below the others a rater is; `reach` is the bias at the ends of the axis."""
    middle, y = STRIP_WIDTH / 2, STRIP_HEIGHT / 2
    parts = [_line("axis", 0, y, STRIP_WIDTH, y), _line("axis", middle, 2, middle, STRIP_HEIGHT - 2)]
    if bias is not None:
        x = middle + (middle - 6) * bias / (reach or 1)
        parts += [_line("interval", middle, y, x, y), _dot(x, y)]
    return _svg("lean", STRIP_WIDTH, STRIP_HEIGHT, parts)


def _bar_heights(bins: Sequence[HistogramBin]) -> list[tuple[HistogramBin, float]]:
    most = max((bin_.count for bin_ in bins), default=0) or 1
    heights = (round((HISTOGRAM_HEIGHT - 14) * bin_.count / most, 1) for bin_ in bins)
    return [(bin_, max(tall, MIN_BAR_HEIGHT) if bin_.count else 0.0) for bin_, tall in zip(bins, heights, strict=True)]


def _bars(bins: Sequence[HistogramBin], links: Sequence[str]) -> list[Markup]:
    """Return the bars of bins that count something. Links are for the mouse: a table on the page has them, too."""
    slot = HISTOGRAM_WIDTH / max(1, len(bins))
    parts = []
    for at, ((bin_, tall), link) in enumerate(zip(_bar_heights(bins), links or repeat(""), strict=False)):
        if not bin_.count:
            continue
        bar = _rect("bar", at * slot + BAR_GAP, HISTOGRAM_HEIGHT - tall, slot - 2 * BAR_GAP, tall).replace(
            "/>", Markup("><title>{}: {}</title></rect>").format(bin_.label, format_count(bin_.count, "verdict"))
        )
        parts.append(Markup('<a href="{}" tabindex="-1">{}</a>').format(link, bar) if link else bar)
    return parts


def _svg(kind: str, width: int, height: int, parts: Iterable[Markup]) -> Markup:
    return Markup("").join([_SVG.format(kind, width, height, width, height), *parts, Markup("</svg>")])


def _interval(estimate: Interval, x: Callable[[float], float], y: float) -> list[Markup]:
    parts = []
    if estimate.low is not None and estimate.high is not None:
        parts.append(_line("interval", x(estimate.low), y, x(estimate.high), y))
    if estimate.value is not None:
        parts.append(_dot(x(estimate.value), y))
    return parts


def _dot(x: float, y: float) -> Markup:
    return Markup('<circle class="dot" cx="{:.1f}" cy="{:.1f}" r="4.5"/>').format(x, y)


def _rect(kind: str, x: float, y: float, width: float, height: float) -> Markup:
    return Markup('<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>').format(
        kind, x, y, width, height
    )


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> Markup:
    return Markup('<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>').format(kind, x1, y1, x2, y2)


def _text(kind: str, x: float, y: float, text: object) -> Markup:
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}">{}</text>').format(kind, x, y, text)
