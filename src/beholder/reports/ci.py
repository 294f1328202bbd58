"""Reports for continuous integration: a run or a comparison as Markdown (pull requests) and as JUnit XML.

Names in Markdown come from cases and rubrics and are untrusted: inside `<code>`, with everything but letters, digits,
blanks, hyphens and slashes as a character reference, they can be no markup, link, table border or @mention.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from xml.etree import ElementTree as Xml

from beholder.errors import UsageError
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import RunRecord
from beholder.reports.comparison import (
    COMPARISON_HEADERS,
    COMPARISON_LEGEND,
    cases_needed,
    compare_runs,
    comparison_notes,
    comparison_rows,
    conclusion,
)
from beholder.reports.run_data import AskedAssertion, ProgressCallback, RunData, collect_run_data, no_progress
from beholder.reports.summary import ReportSummary, summarize_run
from beholder.reports.text import format_done, format_interval, format_number, humanize_state, printable
from beholder.rubrics.rubric import to_fraction
from beholder.statistics.comparison import GRADE, CaseChange, Comparison
from beholder.statistics.data import ColumnKind
from beholder.statistics.gate import Gate
from beholder.statistics.pairs import MAX_LISTED_CASES
from beholder.statistics.significance import ColumnChange
from beholder.verdicts.verdict import Outcome, Verdict, format_share, round_beside

_MAX_TEXT = 300
_SAFE_IN_CODE = frozenset(" -/")
_SAFE_IN_PROSE = frozenset(" -/,.;:()–+%")


def comparison_markdown(comparison: Comparison, gate: Gate | None = None) -> str:
    """Return a comparison as Markdown: the decision of the gate, the conclusion, tables and notes."""
    return "\n".join(_comparison_lines(comparison, gate)) + "\n"


def format_code(text: str) -> str:
    """Return an untrusted name as Markdown that shows it as it is."""
    return f"<code>{_escape_references(text[:_MAX_TEXT], _SAFE_IN_CODE)}</code>"


def format_prose(text: str) -> str:
    """Return a sentence that may hold untrusted names as Markdown.

    Full stops and colons stay where they end something; `@` and `#` cannot mention a person or an issue.
    """
    safe = _escape_references(text, _SAFE_IN_PROSE)
    safe = re.sub(r"[.:](?=[^\s\d])", lambda found: f"&#{ord(found.group())};", safe)
    return re.sub(r"&#(35|64);", r"<code>&#\1;</code>", safe)


def _escape_references(text: str, plain: frozenset[str]) -> str:
    return "".join(letter if letter.isalnum() or letter in plain else f"&#{ord(letter)};" for letter in printable(text))


def _comparison_lines(comparison: Comparison, gate: Gate | None) -> Iterator[str]:
    yield f"### {format_code(comparison.after)} against {format_code(comparison.before)}"
    yield ""
    if gate is not None:
        yield f"{_decision(gate)} on {', '.join(format_code(name) for name in gate.on or gate.undecided)}."
        yield from (f"- {format_prose(sentence)}" for sentence in gate.sentences())
        yield ""
    yield format_prose(conclusion(comparison))
    yield ""
    yield from _table(
        COMPARISON_HEADERS,
        _name_list(comparison.select_kinds(ColumnKind.OVERALL, ColumnKind.PASSED, GRADE, ColumnKind.CRITERION)),
    )
    yield from _grade_rows(comparison)
    yield from _collapsible("Assertions", COMPARISON_HEADERS, _name_list(comparison.select_kinds(ColumnKind.ASSERTION)))
    moved = (
        (
            format_code(case.case),
            format_code(case.group) if case.group else "",
            f"{case.by:+.3f}",
            ", ".join(
                f"{format_code(name)} {format_number(old)} → {format_number(new)}"
                for name, (old, new) in list(case.changes.items())[:MAX_LISTED_CASES]
            ),
        )
        for case in comparison.changed_cases
    )
    headers = ("case", comparison.group or "group", "by", "what")
    yield from _collapsible("Cases that changed most", headers, moved, texts=(0, 1, 3))
    notes = [*comparison_notes(comparison), *cases_needed(comparison)]
    if notes:
        yield ""
        yield from (f"- {format_prose(sentence)}" for sentence in notes)
    yield ""
    yield f"<sub>{format_prose(comparison.interval_note)} {format_prose(COMPARISON_LEGEND)}</sub>"


_UNDECIDED = "❌ **Not decided**"


def _decision(gate: Gate) -> str:
    if gate.regressed:
        return "❌ **Regression**"
    if gate.failed or gate.undecided:
        return _UNDECIDED
    return "⚠️ **No regression shown, and cases lost**" if gate.unweighed else "✅ **No regression**"


def _name_list(changes: Sequence[ColumnChange]) -> Iterator[tuple[str, ...]]:
    for name, *cells in comparison_rows(changes):
        yield (format_code(name), *(format_prose(cell) for cell in cells))


def _grade_rows(comparison: Comparison) -> Iterator[str]:
    for change in comparison.select_kinds(GRADE):
        counts = ((format_code(name), f"{old:,}", f"{new:,}") for name, (old, new) in change.grades.items())
        yield from _collapsible(
            f"Grades: {change.better:,} up, {change.worse:,} down", (change.name, "before", "after"), counts
        )


def _collapsible(
    title: str, headers: Sequence[str], cells: Iterable[Sequence[str]], texts: Sequence[int] = (0,)
) -> Iterator[str]:
    lines = list(_table(headers, cells, texts))
    if len(lines) > 2:
        yield from ("", f"<details><summary>{format_prose(title)}</summary>", "", *lines, "", "</details>")


def _table(headers: Sequence[str], cells: Iterable[Sequence[str]], texts: Sequence[int] = (0,)) -> Iterator[str]:
    """Yield the lines of a table; `texts` are the columns that are no numbers."""
    yield f"| {' | '.join(format_prose(header) for header in headers)} |"
    yield f"|{'|'.join('---' if at in texts else '--:' for at in range(len(headers)))}|"
    for row in cells:
        yield f"| {' | '.join(row)} |"


MAX_WORST = 10


def run_markdown(
    ledger: Ledger,
    record: RunRecord,
    group: str | None = None,
    other: RunRecord | None = None,
    *,
    watch: ProgressCallback = no_progress,
) -> str:
    """Return a run as Markdown; with an `other`, older run, what changed comes after it."""
    gathered = collect_run_data(ledger, record, watch=watch)
    lines = [*_run_lines(gathered, summarize_run(gathered, group))]
    if other is not None:
        lines += ["", comparison_markdown(compare_runs(ledger, record, other, group).comparison).rstrip("\n")]
    return "\n".join(lines) + "\n"


def _run_lines(gathered: RunData, summary: ReportSummary) -> Iterator[str]:
    record, tally = gathered.record, gathered.tally
    rubrics = ", ".join(format_code(f"{name} {version}") for name, version in gathered.versions.items())
    judges = ", ".join(
        format_code(name)
        for name in [*tally.judges, *(model for model in sorted(tally.models) if model not in tally.judges)]
    )
    yield f"### {format_code(record.name)}"
    yield ""
    verdicts = f"{tally.verdicts:,} verdicts on {gathered.cases:,} cases by {rubrics or 'no rubric'}"
    yield f"{verdicts}, judged by {judges or 'nobody'}."
    states = [f"{count:,} {format_prose(humanize_state(state))}" for state, count, _ in summary.outcomes]
    yield f"{', '.join(states)}."
    if tally.not_asked:
        yield f"{format_done(tally.verdicts, record.total, tally.not_asked)}."
    figures = summary.figures
    if spreads := (*figures.overall, *figures.criteria):
        yield ""
        yield from ("| | verdicts | scale | mean |", "|---|--:|--:|--:|")
        for spread in spreads:
            low, high = spread.scale
            mean = format_prose(format_interval(spread.mean, spread.places))
            yield f"| {format_code(spread.title)} | {spread.count:,} | {low:g}–{high:g} | {mean} |"
    yield from _collapsible_list("Worst cases", "| case | score | grade |\n|---|--:|---|", _worst_cases(gathered))
    several = len(gathered.versions) > 1
    rows = [
        f"| {format_code(asked.id)} | {format_prose(asked.question)} | {_assertion_context(asked, several)} "
        f"| {failures.count:,} of {failures.of:,} |"
        for asked, failures in summary.failing[:MAX_WORST]
    ]
    head = "| assertion | question | style | answered No |\n|---|---|---|--:|"
    yield from _collapsible_list("Assertions that fail most", head, rows)
    flags = [f"| {format_code(name)} | {flagged.count:,} |" for name, _, flagged in summary.flags]
    yield from _collapsible_list("Flags", "| flag | verdicts |\n|---|--:|", flags)
    if figures.method:
        yield ""
        yield f"<sub>{format_prose(figures.method)}</sub>"


def _assertion_context(asked: AskedAssertion, several: bool) -> str:
    """Return the style of an assertion and, of several rubrics, its rubric: two may have assertions of the same id."""
    return ", ".join(format_code(name) for name in (asked.style, asked.rubric if several else "") if name)


def _worst_cases(gathered: RunData) -> list[str]:
    """Return rows of the worst cases: without a score first, then the lowest scores."""
    index = gathered.index
    order = sorted(range(len(index)), key=lambda at: (index.score[at] is not None, index.score[at] or 0.0, at))
    rows = []
    for at in order[:MAX_WORST]:
        score, grade = index.score[at], index.grade[at]
        shown = format_number(None) if score is None else format_share(score, 3, decisive=bool(grade))
        result = format_prose(grade or humanize_state(index.state[at]))
        rows.append(f"| {format_code(index.case[at])} | {shown} | {result} |")
    return rows


def _collapsible_list(title: str, head: str, rows: list[str]) -> Iterator[str]:
    if rows:
        yield from ("", f"<details><summary>{title}</summary>", "", head, *rows, "", "</details>")


def comparison_junit(comparison: Comparison, gate: Gate) -> str:
    """Return a comparison as JUnit XML with a test for each column that the gate checks.

    A test fails where the column regressed or the gate is inconclusive; it is an error where nothing can be decided. A
    suspected regression that was not confirmed is in the test's `system-out`, everything else in that of the suite.
    Control characters in names become blanks, since XML does not allow them.
    """
    checked = [change for change in comparison.changes if change.name in gate.on]
    unknown = [name for name in gate.undecided if name not in gate.on]
    suite = Xml.Element(
        "testsuite",
        name="beholder compare",
        tests=str(len(checked) + len(unknown)),
        failures=str(len(gate.failed)),
        errors=str(len(gate.undecided)),
        skipped="0",
    )
    for change in checked:
        _comparison_test(suite, change, comparison, gate)
    for name in unknown:
        _test_error(_test_case(suite, "column", name), gate.undecided[name])
    unweighed = [gate.unweighed] if gate.unweighed else []
    Xml.SubElement(suite, "system-out").text = printable(
        "\n".join([conclusion(comparison), *unweighed, *comparison_notes(comparison), comparison.interval_note]),
        lines=True,
    )
    return _junit_document(suite)


def refused_comparison_junit(reason: str) -> str:
    """Return JUnit XML with one error: the comparison that was asked for could not be made."""
    suite = Xml.Element("testsuite", name="beholder compare", tests="1", failures="0", errors="1", skipped="0")
    _test_error(_test_case(suite, "gate", "gate"), reason)
    return _junit_document(suite)


def refused_comparison_markdown(reason: str) -> str:
    """Return Markdown that says why the comparison that was asked for could not be made."""
    return (
        f"### {format_code('beholder compare')} decided nothing on these runs\n\n{_UNDECIDED}: {format_prose(reason)}\n"
    )


def _comparison_test(suite: Xml.Element, change: ColumnChange, comparison: Comparison, gate: Gate) -> None:
    test = _test_case(suite, change.kind, change.name)
    if change.name in gate.failed:
        kind = "regression" if change.name in gate.regressed else "inconclusive"
        reason = printable(gate.failed[change.name])
        failure = Xml.SubElement(test, "failure", type=kind, message=reason)
        dropped = [_change_line(case) for case in comparison.changed_cases if _has_dropped(case, change.name)]
        cases = ["Cases that fell most:", *dropped] if dropped else []
        failure.text = printable("\n".join([reason, *cases]), lines=True)
    elif change.name in gate.undecided:
        _test_error(test, gate.undecided[change.name])
    elif change.name in gate.doubted:
        Xml.SubElement(test, "system-out").text = printable(gate.doubted[change.name])


def _test_case(suite: Xml.Element, kind: str, name: str) -> Xml.Element:
    return Xml.SubElement(suite, "testcase", classname=printable(f"beholder.compare.{kind}"), name=printable(name))


def _test_error(test: Xml.Element, reason: str) -> None:
    Xml.SubElement(test, "error", type="undecided", message=printable(reason))


def _has_dropped(case: CaseChange, name: str) -> bool:
    old, new = case.changes.get(name, (0.0, 0.0))
    return new < old


def _change_line(case: CaseChange) -> str:
    changes = ", ".join(
        f"{name} {format_number(old)} → {format_number(new)}" for name, (old, new) in case.changes.items()
    )
    return printable(f"{case.case}: {changes}")


SCORE_NAME = "score"


def run_junit(ledger: Ledger, record: RunRecord, fail_under: Mapping[str, float] | None = None) -> str:
    """Return a run as JUnit XML with a test for each verdict.

    A test fails where the verdict did not pass or is below `fail_under`; it is an error, named after the outcome, where
    there is no score, and skipped where it is `unmeasured`. The result of a scored verdict is in `system-out`. Control
    characters become blanks, since XML does not allow them.

    Args:
        ledger: The ledger that has the run.
        record: The run.
        fail_under: Least value for each case, by `score` (× 100) or criterion (on its own scale).

    Raises:
        UsageError: `fail_under` names a criterion that no verdict has.
    """
    suite = Xml.Element("testsuite", name=printable(record.name), timestamp=record.created.isoformat())
    counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    unknown = dict.fromkeys(name for name in fail_under or () if name != SCORE_NAME)
    criteria: dict[str, None] = {}
    for verdict in ledger.verdicts(record.id):
        counts["tests"] += 1
        criteria |= dict.fromkeys(verdict.criteria)
        kind = _verdict_test(suite, verdict, fail_under or {})
        if kind:
            counts[kind] += 1
    if missing := [name for name in unknown if name not in criteria]:
        known = ", ".join((SCORE_NAME, *criteria))
        raise UsageError(f"fail_under names {missing[0]!r}, and no verdict of the run has it; there are: {known}.")
    for name, count in counts.items():
        suite.set(name, str(count))
    return _junit_document(suite)


def _junit_document(suite: Xml.Element) -> str:
    suites = Xml.Element("testsuites", name="beholder")
    suites.append(suite)
    return Xml.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _verdict_test(suite: Xml.Element, verdict: Verdict, fail_under: Mapping[str, float]) -> str:
    """Add a test; return the count that it belongs to, empty for one that passed."""
    test = Xml.SubElement(
        suite,
        "testcase",
        classname=printable(f"beholder.{verdict.rubric}"),
        name=printable(verdict.case),
        time=f"{verdict.latency_s or 0:.3f}",
    )
    if verdict.score is None:
        if verdict.outcome is Outcome.UNMEASURED:
            Xml.SubElement(test, "skipped", message=printable(verdict.missing_score_reason))
            return "skipped"
        Xml.SubElement(test, "error", type=str(verdict.outcome), message=printable(verdict.missing_score_reason))
        return "errors"
    below = _below_threshold(verdict, fail_under)
    failed = verdict.passed is False or bool(below)
    if failed:
        kind = "failed" if verdict.passed is False else "fail-under"
        message = "; ".join([_result_line(verdict), *below])
        failure = Xml.SubElement(test, "failure", type=kind, message=printable(message))
        failure.text = printable("\n".join(_failure_reasons(verdict)), lines=True)
    scores = [
        f"{key} {criterion.score:g}" for key, criterion in verdict.criteria.items() if criterion.score is not None
    ]
    lines = [_result_line(verdict), *([", ".join(scores)] if scores else [])]
    Xml.SubElement(test, "system-out").text = printable("\n".join(lines), lines=True)
    return "failures" if failed else ""


def _result_line(verdict: Verdict) -> str:
    grade = f", grade {verdict.grade}" if verdict.grade else ""
    assert verdict.score is not None
    return f"score {format_share(verdict.score, 3, decisive=verdict.is_decisive)}{grade}"


def _below_threshold(verdict: Verdict, fail_under: Mapping[str, float]) -> list[str]:
    """Return a sentence for each value below its threshold; a criterion without a score is not below."""
    sentences = []
    for name, least in fail_under.items():
        score = verdict.score if name == SCORE_NAME else getattr(verdict.criteria.get(name), "score", None)
        if score is None:
            continue
        reached = to_fraction(str(score)) * (100 if name == SCORE_NAME else 1)
        if reached < to_fraction(least):
            shown = round_beside(float(reached), [least])
            sentences.append(
                f"{name} is {shown:.12g}{' of 100' if name == SCORE_NAME else ''}, and {least:g} was asked for"
            )
    return sentences


def _failure_reasons(verdict: Verdict) -> list[str]:
    lines = [
        f"{key} {criterion.score}: {criterion.reason}"
        for key, criterion in verdict.criteria.items()
        if criterion.score is not None
    ]
    lines += [f"{key}: {item}" for key, items in verdict.findings.items() for item in items]
    return lines + [f"{flag.flag} {flag.at} {flag.why}".strip() for flag in verdict.flags]
