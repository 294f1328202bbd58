"""A comparison of two runs for people: one sentence of conclusion, the rows of the table, notes and warnings.

`beholder compare` and the Markdown and JUnit reports (`ci`) use the sentences; `compare_runs` and `comparison_section`
make the section of the HTML report and of the web app, with the cases that changed most and their pictures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup
from msgspec.structs import replace

from beholder.cases.case import format_case_count
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import RunRecord
from beholder.reports.charts import axis_chart, html_result, html_sentences, html_table, interval_chart
from beholder.reports.run_data import RunData
from beholder.reports.text import (
    column_title,
    criterion_titles,
    escape_hidden,
    format_interval,
    format_number,
    humanize,
    use_minus_sign,
)
from beholder.statistics.bootstrap import EQUALITY_TOLERANCE, Interval
from beholder.statistics.case_changes import CaseChanges
from beholder.statistics.comparison import DEFAULT_TOP_CASES, GRADE, Comparison, ComparisonOptions
from beholder.statistics.comparison import compare_runs as compare_loaded
from beholder.statistics.data import ColumnKind
from beholder.statistics.pairs import UnevenCase, join_names, load_compared_run
from beholder.statistics.significance import TARGET_POWER, ColumnChange, find_most_lost
from beholder.verdicts.verdict import Verdict

COMPARISON_HEADERS = ("", "cases", "before", "after", "difference", "p (Holm)", "better–same–worse", "detectable")
_MAX_NAMED = 4  # columns in a sentence

COMPARISON_LEGEND = (
    "The difference is after less before, over cases with a number in both runs; its interval says where the true one "
    "lies. p is the chance of one at least as large if nothing had changed (sign flips of whole groups), corrected by "
    "Holm for the other rows of its kind. “Detectable” is the smallest detectable difference: the smallest true one "
    f"that such a comparison finds with a power of {TARGET_POWER:.0%}, corrected as p is."
)
AXIS_LEGEND = "The charts of all differences share one axis, in percent of the scale of each row."


def with_titles(comparison: Comparison, label: Callable[[str], str]) -> Comparison:
    """Return the comparison with titles in place of column names.

    Args:
        comparison: The comparison.
        label: Gives the title of a column name. Where two columns have the same title, both get their names after it.
            Assertions keep their ids.
    """
    ids = {change.name for change in comparison.select_kinds(ColumnKind.ASSERTION)}
    title_counts = Counter(label(change.name) for change in comparison.changes if change.name not in ids)

    def title_of(name: str) -> str:
        title = name if name in ids else label(name)
        return title if title_counts[title] < 2 else f"{title} ({name})"

    def rename(cases: Sequence[UnevenCase]) -> tuple[UnevenCase, ...]:
        return tuple(
            replace(case, lost=tuple(map(title_of, case.lost)), gained=tuple(map(title_of, case.gained)))
            for case in cases
        )

    return replace(
        comparison,
        changes=tuple(replace(change, name=title_of(change.name)) for change in comparison.changes),
        changed_cases=tuple(
            replace(case, changes={title_of(name): both for name, both in case.changes.items()})
            for case in comparison.changed_cases
        ),
        uneven_cases=rename(comparison.uneven_cases),
        unscored_cases=rename(comparison.unscored_cases),
    )


def title_criteria(comparison: Comparison) -> Comparison:
    """Return the comparison with the titles of criteria as the rubrics have them; columns of files keep their names."""
    titles = criterion_titles(comparison.rubrics)
    criteria = {*titles, *(change.name for change in comparison.select_kinds(ColumnKind.CRITERION))}
    if not comparison.rubrics:
        return comparison
    return with_titles(comparison, lambda name: column_title(name, titles) if name in criteria else name)


def comparison_html(comparison: Comparison) -> Markup:
    """Return a comparison for a notebook: the conclusion, a table with a chart of each difference, and notes."""
    shown = title_criteria(comparison)
    rows, _ = _section_rows(_main_changes(shown))
    heads = [*COMPARISON_HEADERS, ""]
    cells = [(*row.cells, row.chart) for row in rows]
    moved = [
        f"{case.case}: "
        + ", ".join(f"{name} {_case_number(old)} → {_case_number(new)}" for name, (old, new) in changes)
        for case in shown.changed_cases
        if (changes := list(case.changes.items()))
    ]
    parts = [html_table(heads, cells), html_sentences([conclusion(shown), *comparison_notes(shown)])]
    if moved:
        parts += [Markup("<p>Cases that changed most</p>"), html_sentences(moved)]
    title = f"{shown.before} → {shown.after}, {format_case_count(shown.cases)} in both"
    return html_result(title, [*parts, html_sentences([shown.interval_note])])


def comparison_rows(changes: Sequence[ColumnChange]) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each column of the comparison, under `COMPARISON_HEADERS`."""
    for change in changes:
        yield (
            change.name,
            f"{change.cases:,}",
            format_number(change.before),
            format_number(change.after),
            _format_signed(change),
            format_p_value(change.p_holm),
            f"{change.better:,}–{change.same:,}–{change.worse:,}",
            format_number(change.power.minimum_detectable),
        )


def conclusion(comparison: Comparison) -> str:
    """Return the result in one sentence for a reader who is no statistician; a sentence on lost scores comes first."""
    main = comparison.select_kinds(ColumnKind.OVERALL, ColumnKind.PASSED, ColumnKind.CRITERION)
    lost = _lost_sentence(comparison, main)
    if not any(change.cases for change in main):
        nothing = f"Nothing has a number in both {comparison.before} and {comparison.after}: they cannot be compared."
        return f"{lost} {nothing}" if lost else nothing
    changed = _change_sentence(comparison, main)
    return f"{lost} Of the others only: {changed}" if lost else changed


def _lost_sentence(comparison: Comparison, main: Sequence[ColumnChange]) -> str:
    change = find_most_lost(main)
    if change is None:
        return ""
    lost = f"{change.lost:,} of {comparison.cases:,} cases lost {'its' if change.lost == 1 else 'their'} {change.name}"
    if change.worst is None or not change.may_have_fallen or _is_regression(change.difference, change.margin):
        return f"{lost}."
    had = "had it" if change.lost == 1 else "had each"
    fallen = f"{change.name} would be worse by {_format_amount(change.worst, 'worse')}"
    return f"{lost}; {had} the lowest, {fallen}: it could be a regression."


def _change_sentence(comparison: Comparison, main: Sequence[ColumnChange]) -> str:
    """Return what changed on the cases with a number in both runs."""
    parts = []
    for word, chosen in (
        ("worse", [change for change in main if change.is_worse]),
        ("better", [change for change in main if change.is_better]),
    ):
        if chosen:
            amounts = [f"{change.name} by {_format_amount(change.difference, word)}" for change in chosen]
            parts.append(f"{word} on {_join_with_and(amounts)}")
    for word, chosen in (
        ("more often fails", [change for change in comparison.select_kinds(ColumnKind.ASSERTION) if change.is_worse]),
        ("more often passes", [change for change in comparison.select_kinds(ColumnKind.ASSERTION) if change.is_better]),
    ):
        if chosen:
            parts.append(f"{word} {join_names([change.name for change in chosen], _MAX_NAMED)}")
    count = max(change.cases for change in main)
    cases = f"these {count:,} cases" if count != 1 else "this one case"
    hinted = [change for change in main if change.is_uncertain]
    if not parts:
        if all(change.better == change.worse == 0 for change in main):
            return f"{comparison.after} is the same as {comparison.before} {_say_where_same(comparison, main)}."
        if hinted:
            return f"Not sure: {_hint_sentences(hinted)}{_undetectable_sentence(main)}."
        return f"Nothing changed that {cases} could show{_undetectable_sentence(main)}."
    changed = f"{comparison.after} {_change_phrase(parts)}"
    if hinted:
        return f"{changed}; not sure: {_hint_sentences(hinted)}{_undetectable_sentence(main)}."
    if all(change.is_significant for change in main):
        return f"{changed}."
    return f"{changed}; nothing else changed that {cases} could show{_undetectable_sentence(main)}."


def _say_where_same(comparison: Comparison, main: Sequence[ColumnChange]) -> str:
    """Return on how many of the shared cases two runs are the same: each number on those that have it in both."""
    counts = {change.name: change.cases for change in main if change.cases}
    most = max(counts.values())
    others = [f"{name} on {count:,}" for name, count in counts.items() if count < most]
    if most == comparison.cases and not others:
        return f"on every one of these {most:,} cases" if most > 1 else "on this one case"
    some = f"on {most:,} of {format_case_count(comparison.cases)}, those with a number in both runs"
    return f"{some} ({join_names(others, _MAX_NAMED)})" if others else some


def comparison_notes(comparison: Comparison) -> list[str]:
    """Return warnings and notes: cases that the numbers leave out, and whether they could reverse the result."""
    notes = [f"Not like with like: {warning}" for warning in comparison.warnings]
    for name, only in ((comparison.before, comparison.only_before), (comparison.after, comparison.only_after)):
        if only:
            notes.append(f"{_count_cases(len(only))} only in {name}: {join_names(only)}.")
    if unlike := comparison.uneven_cases:
        counts = "counts" if len(unlike) == 1 else "count"
        notes.append(
            f"{_count_cases(len(unlike), 'lacks', 'lack')} a number in one of the two runs, and {counts} only where "
            f"both have one: {join_names([_describe_uneven(case) for case in unlike])}."
        )
    if comparison.unscored_cases:
        named = join_names(
            [f"{case.case} (before: {case.before}; now: {case.after})" for case in comparison.unscored_cases]
        )
        notes.append(f"{_count_cases(len(comparison.unscored_cases), 'has', 'have')} no score in either run: {named}.")
    notes += [sentence for change in comparison.changes if (sentence := _lost_scores_sentence(change))]
    if comparison.group is None:
        notes.append(
            "The cases name no source: each is taken as independent of the others (--group or group= says otherwise)."
        )
    return notes


def cases_needed(comparison: Comparison) -> list[str]:
    """Return how many cases detect the difference asked about, for each overall score, else for each criterion."""
    sentences = []
    for change in comparison.select_kinds(ColumnKind.OVERALL) or comparison.select_kinds(ColumnKind.CRITERION):
        power = change.power
        if power.detect is None:
            continue
        if power.more_cases is None:
            sentence = f"how many cases show {power.detect:g} is not known; {power.why}."
        elif power.more_cases == 0:
            sentence = (
                f"these {change.cases:,} cases are enough to find a difference of {power.detect:g} in "
                f"{TARGET_POWER:.0%} of comparisons."
            )
        else:
            sentence = (
                f"to find a difference of {power.detect:g} in {TARGET_POWER:.0%} of comparisons takes "
                f"{power.cases:,} cases, {power.more_cases:,} more."
            )
        sentences.append(f"{change.name}: {sentence}")
    return sentences


def _format_signed(change: ColumnChange) -> str:
    text = format_interval(change.difference)
    return f"+{text}" if change.difference.value is not None and change.difference.value > 0 else text


def format_p_value(p: float | None) -> str:
    """Return a p-value with three decimals, `<0.001` for a smaller one, a dash for None."""
    return "–" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"


def _format_amount(difference: Interval, word: str) -> str:
    value, low, high = difference.value, difference.low, difference.high
    assert value is not None
    if low is None or high is None:
        return format_number(abs(value))
    ends = (low, high) if word == "better" else (-high, -low)
    return f"{format_number(abs(value))} ({format_number(ends[0])} to {format_number(ends[1])} {word})"


def _hint_sentences(hinted: Sequence[ColumnChange]) -> str:
    """Return the changes that the interval shows and the permutation test does not confirm."""
    words = [
        (change, "worse" if change.difference.value is not None and change.difference.value < 0 else "better")
        for change in hinted
    ]
    named = join_names(
        [f"{change.name} is {word} by {_format_amount(change.difference, word)}" for change, word in words], _MAX_NAMED
    )
    p = ", ".join(format_p_value(change.p_holm) for change in hinted[:_MAX_NAMED])
    return f"{named}, but the permutation test does not agree (p = {p})"


def _undetectable_sentence(main: Sequence[ColumnChange]) -> str:
    """Return which change is found with what power, and why nothing could be detected where groups are too few.

    The change is that of the first column without a shown change (the overall score, if there is one).
    """
    first = next(
        (change for change in main if change.power.minimum_detectable is not None and not change.is_significant), None
    )
    blind = next((change for change in main if change.cases and change.power.detects_nothing), None)
    parts = [blind.power.why] if blind is not None else []
    if first is not None:
        parts.insert(
            0,
            f"a change of {first.name} by {first.power.minimum_detectable:.2g} would have been found in only "
            f"{TARGET_POWER:.0%} of such comparisons, a smaller one in fewer",
        )
    return "; " + ("; ".join(parts) or "how small a change they would show is not known")


def _lost_scores_sentence(change: ColumnChange) -> str:
    """Return whether the cases that lost their score could reverse the result."""
    if change.kind != ColumnKind.OVERALL or change.worst is None or change.best is None:
        return ""
    was, better = _is_regression(change.difference, change.margin), _is_regression(change.best, change.margin)
    lost = (
        "1 case had a score and has none now"
        if change.lost == 1
        else f"{change.lost:,} cases had a score and have none now"
    )
    if change.may_have_fallen and not was:
        bound = format_interval(change.worst)
        return f"{lost}: had each the lowest {change.name}, the difference would be {bound}, wholly below the margin."
    if was and not better:
        bound = format_interval(change.best)
        return (
            f"{lost}: had each the highest {change.name}, the difference would be {bound}, not wholly below the margin."
        )
    return f"{lost}: not even the lowest or highest {change.name} for each would turn the result."


def _is_regression(difference: Interval, margin: float) -> bool:
    return difference.high is not None and difference.high < -margin - EQUALITY_TOLERANCE


def _describe_uneven(case: UnevenCase) -> str:
    if case.before == case.after:
        gone = [f"no {name} any more" for name in case.lost] + [f"{name} is new" for name in case.gained]
        return f"{case.case} ({', '.join(gone)})"
    return f"{case.case} (before: {case.before}; now: {case.after})"


def _count_cases(count: int, one: str = "is", many: str = "are") -> str:
    return f"1 case {one}" if count == 1 else f"{count:,} cases {many}"


def _join_with_and(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _change_phrase(parts: Sequence[str]) -> str:
    """Join parts to `is worse on … and better on …, and more often fails …`."""
    states = [part for part in parts if not part.startswith("more often")]
    verbs = [part for part in parts if part.startswith("more often")]
    return _join_with_and([*([f"is {' and '.join(states)}"] if states else []), *verbs])


_MAX_ASSERTIONS = 12  # in the section of a page


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """A row of the table: cells under `COMPARISON_HEADERS`, a chart of the difference, its direction, and for an
    assertion its question."""

    cells: tuple[str, ...]
    chart: Markup
    way: str
    about: str


@dataclass(frozen=True, slots=True)
class ChangedCase:
    """A case that changed much.

    Attributes:
        number: Of its verdict on the page, if it is there.
        by: Total change, with its sign.
        what: Each number that changed, as `NAME OLD → NEW`.
        shots: Label and digest of each of its pictures.
    """

    case: str
    number: int | None
    by: str
    what: tuple[str, ...]
    shots: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class RunComparison:
    """A comparison of two runs with titles for its columns; `shots` are the pictures of the cases that changed most, as
    in `ChangedCase`."""

    comparison: Comparison
    shots: Mapping[str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True, slots=True)
class ComparisonSection:
    """What a page shows of a comparison; `name` is the older run, `verdict` the conclusion, `axis` that of all charts
    in the rows, `changes` the table of all cases."""

    name: str
    verdict: str
    rows: tuple[ComparisonRow, ...]
    axis: Markup
    movers: tuple[ChangedCase, ...]
    notes: tuple[str, ...]
    method: str
    changes: CaseChanges | None = None
    headers: tuple[str, ...] = COMPARISON_HEADERS


def compare_runs(
    ledger: Ledger, record: RunRecord, other: RunRecord, group: str | None = None, top: int = DEFAULT_TOP_CASES
) -> RunComparison:
    """Compare two runs of a ledger.

    Args:
        ledger: The ledger that has both runs.
        record: The newer run.
        other: The older run.
        group: Name of the group of cases that belong together (clusters of the bootstrap); else `source`.
        top: How many of the cases that changed most are shown with their pictures.

    Raises:
        UsageError: The runs have no case in common.
    """
    before, after = load_compared_run(ledger, other.id), load_compared_run(ledger, record.id)
    comparison = compare_loaded(before, after, ComparisonOptions(group=group, top=top))
    titles = criterion_titles(comparison.rubrics)
    cases = [case.case for case in comparison.changed_cases]
    return RunComparison(
        with_titles(comparison, lambda name: column_title(name, titles)), _case_pictures(ledger, record, other, cases)
    )


def compute_comparison(address: str, new: str, old: str) -> ComparisonSection:
    """Compare two runs for a page, which lists all cases by itself; takes an address and ids, which can be sent to
    another process."""
    with Ledger.open(address, read_only=True) as ledger:
        later, earlier = ledger.run(new), ledger.run(old)
        return comparison_section(compare_runs(ledger, later, earlier, top=0), earlier, RunData(later))


def _case_pictures(
    ledger: Ledger, record: RunRecord, other: RunRecord, cases: Sequence[str]
) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return for each case its input and its output before and now, as far as the ledger has thumbnails."""
    old, new = (verdicts_by_case(ledger, run, cases) for run in (other, record))
    kept = find_thumbnails(ledger, (*old.values(), *new.values()))
    pictures: dict[str, tuple[tuple[str, str], ...]] = {}
    for case, verdicts in new.items():
        given, pair = choose_pictures(old.get(case, []), verdicts)
        shots = (*given, *zip(PAIR_LABELS, pair, strict=True)) if pair else given
        pictures[case] = tuple((label, digest) for label, digest in shots if digest in kept)
    return pictures


def verdicts_by_case(ledger: Ledger, record: RunRecord, cases: Sequence[str]) -> dict[str, list[Verdict]]:
    """Return the verdicts of a run on some cases, by case."""
    found: dict[str, list[Verdict]] = {}
    for stored in ledger.stored_verdicts_on(record.id, cases):
        found.setdefault(stored.verdict.case, []).append(stored.verdict)
    return found


def find_thumbnails(ledger: Ledger, verdicts: Iterable[Sequence[Verdict]]) -> set[str]:
    """Return the digests of the images of verdicts of which the ledger has thumbnails."""
    images = {image.source_digest for some in verdicts for one in some for image in one.shown_images}
    return ledger.has_thumbnail(list(images))


PAIR_LABELS = ("Before", "Now")


def choose_pictures(
    before: Sequence[Verdict], after: Sequence[Verdict]
) -> tuple[tuple[tuple[str, str], ...], tuple[str, str] | None]:
    """Choose the pictures that show what became of a case.

    Args:
        before: Its verdicts in the older run.
        after: Its verdicts in the newer run.

    Returns:
        Label and digest of the pictures that stand for both runs: the input, where there are several images, and the
        output, unless it differs; and the digests of the two outputs where they do.
    """
    old, new = (next((one.shown_images for one in verdicts if one.shown_images), ()) for verdicts in (before, after))
    images = new or old
    given = [(humanize(images[0].role), images[0].source_digest)] if len(images) > 1 else []
    if old and new and old[-1].source_digest != new[-1].source_digest:
        return tuple(given), (old[-1].source_digest, new[-1].source_digest)
    if images:
        label = "Both runs" if old and new else PAIR_LABELS[bool(new)]
        given.append((label, images[-1].source_digest))
    return tuple(given), None


def comparison_section(compared: RunComparison, other: RunRecord, gathered: RunData) -> ComparisonSection:
    """Return the section of a page: overall numbers, criteria, and assertions with a shown change.

    Args:
        compared: The comparison.
        other: The older run.
        gathered: Data of the newer run; the pictures of the cases that changed are added to its pictures.
    """
    comparison = compared.comparison
    for shots in compared.shots.values():
        for _, digest in shots:
            gathered.pictures.setdefault(digest, len(gathered.pictures))
    place = {case: number for number, case in reversed(list(enumerate(gathered.index.case)))}
    movers = [
        ChangedCase(
            case.case,
            place.get(escape_hidden(case.case)),
            use_minus_sign(f"{case.by:+.3f}"),
            tuple(
                f"{escape_hidden(name)} {_case_number(old)} → {_case_number(new)}"
                for name, (old, new) in case.changes.items()
            ),
            compared.shots.get(case.case, ()),
        )
        for case in comparison.changed_cases
    ]
    rows, axis = _section_rows(_main_changes(comparison))
    return ComparisonSection(
        escape_hidden(other.name),
        use_minus_sign(escape_hidden(conclusion(comparison))),
        tuple(rows),
        axis,
        tuple(movers),
        tuple(use_minus_sign(escape_hidden(note)) for note in comparison_notes(comparison)),
        f"{comparison.interval_note} {COMPARISON_LEGEND} {AXIS_LEGEND}",
        comparison.case_changes,
    )


def _main_changes(comparison: Comparison) -> list[ColumnChange]:
    """Return overall numbers, criteria, and assertions with a shown change."""
    assertions = [change for change in comparison.select_kinds(ColumnKind.ASSERTION) if change.is_significant]
    main = comparison.select_kinds(ColumnKind.OVERALL, ColumnKind.PASSED, GRADE, ColumnKind.CRITERION)
    return [*main, *assertions[:_MAX_ASSERTIONS]]


def _section_rows(columns: Sequence[ColumnChange]) -> tuple[list[ComparisonRow], Markup]:
    """Return the rows and the axis that all their charts share: percent of each column's scale, 0 in the middle."""
    shares = [_to_percent(column) for column in columns]
    reach = _round_up(max([0.0, *(abs(end) for share in shares for end in _ends(share))]))
    rows = []
    for column, share, cells in zip(columns, shares, comparison_rows(columns), strict=True):
        way = "worse" if column.is_worse else "better" if column.is_better else ""
        rows.append(
            ComparisonRow(
                (escape_hidden(cells[0]), *(use_minus_sign(cell) for cell in cells[1:])),
                interval_chart(share, (-reach, reach), middle=0.0),
                way,
                escape_hidden(column.question),
            )
        )
    return rows, axis_chart((-reach, reach), 0.0)


def _to_percent(column: ColumnChange) -> Interval:
    """Return the difference in percent of the column's scale; without a known scale in percent of its largest end."""
    ends = _ends(column.difference)
    width = column.scale[1] - column.scale[0] if column.scale else max([0.0, *map(abs, ends)])
    value, low, high = (
        None if end is None else 100 * end / (width or 1.0)
        for end in (column.difference.value, column.difference.low, column.difference.high)
    )
    return Interval(value, low, high)


def _ends(estimate: Interval) -> list[float]:
    return [end for end in (estimate.value, estimate.low, estimate.high) if end is not None]


def _round_up(percent: float) -> float:
    """Return the end of an axis in percent: the first round number that is not smaller."""
    return next((end for end in (1.0, 2.0, 5.0, 10.0, 20.0, 50.0) if percent <= end), 100.0)


def _case_number(value: float) -> str:
    return use_minus_sign(f"{round(value, 3) + 0.0:g}")
