"""A run as JUnit XML: a test for each verdict, so that a build server lists the cases that failed."""

from __future__ import annotations

from xml.etree import ElementTree as Xml

from beholder.ledger import Ledger, RunRecord
from beholder.reports.terminal import printable
from beholder.verdicts.model import Verdict


def run_junit(ledger: Ledger, record: RunRecord) -> str:
    """A verdict that did not pass is a failure, one without a score an error that names its outcome; one whose rubric
    has no threshold is a test that ran. Control characters become blanks: XML has no place for them."""
    suite = Xml.Element("testsuite", name=printable(record.name), timestamp=record.created.isoformat())
    counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for verdict in ledger.verdicts(record.id):
        counts["tests"] += 1
        kind = _test(suite, verdict)
        if kind:
            counts[kind] += 1
    for name, count in counts.items():
        suite.set(name, str(count))
    whole = Xml.Element("testsuites", name="beholder")
    whole.append(suite)
    return Xml.tostring(whole, encoding="unicode", xml_declaration=True) + "\n"


def _test(suite: Xml.Element, verdict: Verdict) -> str:
    test = Xml.SubElement(
        suite,
        "testcase",
        classname=printable(f"beholder.{verdict.rubric}"),
        name=printable(verdict.case),
        time=f"{verdict.latency_s or 0:.3f}",
    )
    if verdict.score is None:
        Xml.SubElement(test, "error", type=str(verdict.outcome), message=printable(verdict.lack))
        return "errors"
    if verdict.passed is False:
        failure = Xml.SubElement(test, "failure", type="failed", message=f"score {verdict.score:.3f}")
        failure.text = printable("\n".join(_reasons(verdict)), lines=True)
        return "failures"
    return ""


def _reasons(verdict: Verdict) -> list[str]:
    lines = [f"{key} {one.score}: {one.reason}" for key, one in verdict.criteria.items() if one.score is not None]
    lines += [f"{key}: {item}" for key, items in verdict.findings.items() for item in items]
    return lines + [f"{flag.flag} {flag.at} {flag.why}".strip() for flag in verdict.flags]
