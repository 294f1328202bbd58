"""A comparison in words: the verdict in one sentence, the rows of its table, and what must not go unsaid."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from beholder.reports.numbers import shown, with_interval
from beholder.statistics.comparison.comparing import Change, Comparison, most_lost
from beholder.statistics.comparison.pairing import Fate, listed
from beholder.statistics.data import Kind
from beholder.statistics.grouped import SAME
from beholder.statistics.intervals import Estimate

HEADERS = ("", "cases", "before", "after", "difference", "p (Holm)", "better–same–worse", "least seen")
_NAMED = 4  # columns in a sentence

TOLD = (
    "The difference is after less before, over cases with a number in both runs; its interval says where the true one "
    "lies. p is the chance of one at least as large if nothing had changed (sign flips of whole groups), corrected by "
    "Holm for the other rows of its kind. “Least seen” is the smallest true difference that such a comparison finds 8 "
    "times in 10, corrected as p is."
)


def labelled(comparison: Comparison, label: Callable[[str], str]) -> Comparison:
    """The comparison with what people call its columns in place of their names, and with both where two are called the
    same; assertions keep their ids."""
    ids = {one.name for one in comparison.of(Kind.ASSERTION)}
    often = Counter(label(one.name) for one in comparison.changes if one.name not in ids)

    def called(name: str) -> str:
        title = name if name in ids else label(name)
        return title if often[title] < 2 else f"{title} ({name})"

    def fates(found: Sequence[Fate]) -> tuple[Fate, ...]:
        return tuple(
            replace(one, lost=tuple(map(called, one.lost)), gained=tuple(map(called, one.gained))) for one in found
        )

    return replace(
        comparison,
        changes=tuple(replace(one, name=called(one.name)) for one in comparison.changes),
        moved=tuple(
            replace(one, changes={called(name): both for name, both in one.changes.items()}) for one in comparison.moved
        ),
        unlike=fates(comparison.unlike),
        neither=fates(comparison.neither),
    )


def rows(changes: Sequence[Change]) -> Iterator[tuple[str, ...]]:
    """Cells under `HEADERS`."""
    for one in changes:
        yield (
            one.name,
            f"{one.cases:,}",
            shown(one.before),
            shown(one.after),
            _signed(one),
            chance(one.p_holm),
            f"{one.better:,}–{one.same:,}–{one.worse:,}",
            shown(one.power.least),
        )


def verdict(comparison: Comparison) -> str:
    """One sentence for a reader who is no statistician; before it, one on the cases that lost their number, if any."""
    main = comparison.of(Kind.OVERALL, Kind.PASSED, Kind.CRITERION)
    lost = _lost(comparison, main)
    if not any(one.cases for one in main):
        said = f"Nothing has a number in both {comparison.before} and {comparison.after}: they cannot be compared."
        return f"{lost} {said}" if lost else said
    said = _changed(comparison, main)
    return f"{lost} Of the others only: {said}" if lost else said


def _lost(comparison: Comparison, main: Sequence[Change]) -> str:
    one = most_lost(main)
    if one is None:
        return ""
    lost = f"{one.lost:,} of {comparison.cases:,} cases lost {'its' if one.lost == 1 else 'their'} {one.name}"
    if one.worst is None or not one.may_have_fallen or _fallen(one.difference, one.margin):
        return f"{lost}."
    had = "had it" if one.lost == 1 else "had each"
    fallen = f"{one.name} would be worse by {_amount(one.worst, 'worse')}"
    return f"{lost}; {had} the lowest, {fallen}: it could be a regression."


def _changed(comparison: Comparison, main: Sequence[Change]) -> str:
    """Over the cases with a number in both runs."""
    parts = []
    for word, chosen in (("worse", [one for one in main if one.down]), ("better", [one for one in main if one.up])):
        if chosen:
            parts.append(f"{word} on {_and([f'{one.name} by {_amount(one.difference, word)}' for one in chosen])}")
    for word, chosen in (
        ("more often fails", [one for one in comparison.of(Kind.ASSERTION) if one.down]),
        ("more often passes", [one for one in comparison.of(Kind.ASSERTION) if one.up]),
    ):
        if chosen:
            parts.append(f"{word} {listed([one.name for one in chosen], _NAMED)}")
    count = max(one.cases for one in main)
    cases = f"these {count:,} cases" if count != 1 else "this one case"
    hinted = [one for one in main if one.hinted]
    if not parts:
        if all(one.better == one.worse == 0 for one in main):
            return f"{comparison.after} is the same as {comparison.before} on every one of {cases}."
        if hinted:
            return f"Not sure: {_hints(hinted)}{_unseen(main)}."
        return f"Nothing changed that {cases} could show{_unseen(main)}."
    found = f"{comparison.after} {_is(parts)}"
    if hinted:
        return f"{found}; not sure: {_hints(hinted)}{_unseen(main)}."
    if all(one.shown for one in main):
        return f"{found}."
    return f"{found}; nothing else changed that {cases} could show{_unseen(main)}."


def notes(comparison: Comparison) -> list[str]:
    """What must not go unsaid: cases that are not in the numbers, and what they could turn."""
    said = [f"Not like with like: {warning}" for warning in comparison.warnings]
    for name, only in ((comparison.before, comparison.only_before), (comparison.after, comparison.only_after)):
        if only:
            said.append(f"{_cases(len(only))} only in {name}: {listed(only)}.")
    if unlike := comparison.unlike:
        counts = "counts" if len(unlike) == 1 else "count"
        said.append(
            f"{_cases(len(unlike), 'lacks', 'lack')} a number in one of the two runs, and {counts} only where both "
            f"have one: {listed([_fate(one) for one in unlike])}."
        )
    if comparison.neither:
        named = listed([f"{one.case} (before: {one.before}; now: {one.after})" for one in comparison.neither])
        said.append(f"{_cases(len(comparison.neither), 'has', 'have')} no score in either run: {named}.")
    said += [sentence for one in comparison.changes if (sentence := _turned(one))]
    if comparison.group is None:
        said.append("The cases name no source: each is taken as independent of the others (--group says otherwise).")
    return said


def needed(comparison: Comparison) -> list[str]:
    """How many cases it takes to see the difference that was asked about: of each overall score, else of criteria."""
    said = []
    for one in comparison.of(Kind.OVERALL) or comparison.of(Kind.CRITERION):
        asked = one.power
        if asked.detect is None:
            continue
        if asked.more is None:
            said.append(f"{one.name}: how many cases show {asked.detect:g} is not known; {asked.why}.")
        elif asked.more == 0:
            said.append(f"{one.name}: these {one.cases:,} cases are enough to see a difference of {asked.detect:g}.")
        else:
            said.append(
                f"{one.name}: to see a difference of {asked.detect:g} takes {asked.cases:,} cases, {asked.more:,} more."
            )
    return said


def _signed(one: Change) -> str:
    text = with_interval(one.difference)
    return f"+{text}" if one.difference.value is not None and one.difference.value > 0 else text


def chance(p: float | None) -> str:
    """A p-value; a dash where there is none."""
    return "–" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"


def _amount(difference: Estimate, word: str) -> str:
    value, low, high = difference.value, difference.low, difference.high
    assert value is not None
    if low is None or high is None:
        return shown(abs(value))
    ends = (low, high) if word == "better" else (-high, -low)
    return f"{shown(abs(value))} ({shown(ends[0])} to {shown(ends[1])} {word})"


def _hints(hinted: Sequence[Change]) -> str:
    """Changes of which the interval is sure and the test is not."""
    words = [
        (one, "worse" if one.difference.value is not None and one.difference.value < 0 else "better") for one in hinted
    ]
    named = listed([f"{one.name} is {word} by {_amount(one.difference, word)}" for one, word in words], _NAMED)
    p = ", ".join(chance(one.p_holm) for one in hinted[:_NAMED])
    return f"{named}, but the permutation test does not agree (p = {p})"


def _unseen(main: Sequence[Change]) -> str:
    """How large a drop could have been without being noticed, of the first column in which nothing is shown: the
    overall score, if there is one; and why nothing could be, where groups are too few. Of what is shown to have moved
    nothing: a fall that was noticed could not have gone unnoticed."""
    first = next((one for one in main if one.power.least is not None and not one.shown), None)
    blind = next((one for one in main if one.cases and one.power.blind), None)
    said = [blind.power.why] if blind is not None else []
    if first is not None:
        said.insert(0, f"a drop of {first.name} under {first.power.least:.2g} would probably have gone unnoticed")
    return "; " + ("; ".join(said) or "how small a change they would show is not known")


def _turned(one: Change) -> str:
    """Whether the cases that lost their score could turn the result."""
    if one.kind != Kind.OVERALL or one.worst is None or one.best is None:
        return ""
    was, better = _fallen(one.difference, one.margin), _fallen(one.best, one.margin)
    lost = (
        "1 case had a score and has none now" if one.lost == 1 else f"{one.lost:,} cases had a score and have none now"
    )
    if one.may_have_fallen and not was:
        bound = with_interval(one.worst)
        return f"{lost}: had each the lowest {one.name}, the difference would be {bound}, wholly below the margin."
    if was and not better:
        bound = with_interval(one.best)
        return f"{lost}: had each the highest {one.name}, the difference would be {bound}, not wholly below the margin."
    return f"{lost}: not even the lowest or highest {one.name} for each would turn the result."


def _fallen(difference: Estimate, margin: float) -> bool:
    return difference.high is not None and difference.high < -margin - SAME


def _fate(one: Fate) -> str:
    if one.before == one.after:
        gone = [f"no {name} any more" for name in one.lost] + [f"{name} is new" for name in one.gained]
        return f"{one.case} ({', '.join(gone)})"
    return f"{one.case} (before: {one.before}; now: {one.after})"


def _cases(count: int, one: str = "is", many: str = "are") -> str:
    return f"1 case {one}" if count == 1 else f"{count:,} cases {many}"


def _and(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _is(parts: Sequence[str]) -> str:
    """`is worse on …, better on …, and more often fails …`."""
    states = [part for part in parts if not part.startswith("more often")]
    deeds = [part for part in parts if part.startswith("more often")]
    return _and([*([f"is {' and '.join(states)}"] if states else []), *deeds])
