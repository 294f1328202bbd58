"""A run as JUnit XML: a test for each verdict, so that a build server lists the cases that failed."""

from __future__ import annotations

from collections.abc import Mapping
from xml.etree import ElementTree as Xml

from beholder.errors import UsageError
from beholder.ledger import Ledger, RunRecord
from beholder.reports.terminal import printable
from beholder.rubrics.model import exact
from beholder.verdicts.model import Verdict

SCORE = "score"


def run_junit(ledger: Ledger, record: RunRecord, fail_under: Mapping[str, float] | None = None) -> str:
    """A verdict that did not pass is a failure, and so is one below `fail_under`, whose names are those of a suite: of
    `score` × 100, or by criterion on its own scale; there of means, here of each case. One without a score is an error
    that names its outcome, one that was left open is skipped. What a scored one came to is in its `system-out`.
    Control characters become blanks: XML has no place for them. Raises `UsageError` for a criterion that none has.
    """
    suite = Xml.Element("testsuite", name=printable(record.name), timestamp=record.created.isoformat())
    counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    unknown = dict.fromkeys(name for name in fail_under or () if name != SCORE)
    there: dict[str, None] = {}
    for verdict in ledger.verdicts(record.id):
        counts["tests"] += 1
        there |= dict.fromkeys(verdict.criteria)
        kind = _test(suite, verdict, fail_under or {})
        if kind:
            counts[kind] += 1
    if missing := [name for name in unknown if name not in there]:
        known = ", ".join((SCORE, *there))
        raise UsageError(f"--fail-under {missing[0]}: no verdict of the run has it; there are: {known}.")
    for name, count in counts.items():
        suite.set(name, str(count))
    whole = Xml.Element("testsuites", name="beholder")
    whole.append(suite)
    return Xml.tostring(whole, encoding="unicode", xml_declaration=True) + "\n"


def _test(suite: Xml.Element, verdict: Verdict, fail_under: Mapping[str, float]) -> str:
    """Writes a test; under which count it goes, empty for one that is well."""
    test = Xml.SubElement(
        suite,
        "testcase",
        classname=printable(f"beholder.{verdict.rubric}"),
        name=printable(verdict.case),
        time=f"{verdict.latency_s or 0:.3f}",
    )
    if verdict.score is None:
        if verdict.scored:
            Xml.SubElement(test, "skipped", message=printable(verdict.lack))
            return "skipped"
        Xml.SubElement(test, "error", type=str(verdict.outcome), message=printable(verdict.lack))
        return "errors"
    below = _below(verdict, fail_under)
    failed = verdict.passed is False or bool(below)
    if failed:
        kind = "failed" if verdict.passed is False else "fail-under"
        message = "; ".join([_came_to(verdict), *below])
        failure = Xml.SubElement(test, "failure", type=kind, message=printable(message))
        failure.text = printable("\n".join(_reasons(verdict)), lines=True)
    scores = [f"{key} {one.score:g}" for key, one in verdict.criteria.items() if one.score is not None]
    told = [_came_to(verdict), *([", ".join(scores)] if scores else [])]
    Xml.SubElement(test, "system-out").text = printable("\n".join(told), lines=True)
    return "failures" if failed else ""


def _came_to(verdict: Verdict) -> str:
    grade = f", grade {verdict.grade}" if verdict.grade else ""
    return f"score {verdict.score:.3f}{grade}"


def _below(verdict: Verdict, fail_under: Mapping[str, float]) -> list[str]:
    """What is lower than was asked for; a criterion that was left open is not."""
    said = []
    for name, least in fail_under.items():
        score = verdict.score if name == SCORE else getattr(verdict.criteria.get(name), "score", None)
        if score is None:
            continue
        reached = exact(str(score)) * (100 if name == SCORE else 1)
        if reached < exact(least):
            said.append(
                f"{name} is {float(reached):g}{' of 100' if name == SCORE else ''}, and {least:g} was asked for"
            )
    return said


def _reasons(verdict: Verdict) -> list[str]:
    lines = [f"{key} {one.score}: {one.reason}" for key, one in verdict.criteria.items() if one.score is not None]
    lines += [f"{key}: {item}" for key, items in verdict.findings.items() for item in items]
    return lines + [f"{flag.flag} {flag.at} {flag.why}".strip() for flag in verdict.flags]
