"""A comparison as JUnit XML, which every build server reads: a test for each column, failed where the gate says so."""

from __future__ import annotations

from xml.etree import ElementTree as Xml

from beholder.reports.changes import notes, verdict
from beholder.reports.numbers import shown
from beholder.reports.terminal import printable
from beholder.statistics.comparison.comparing import Change, Comparison, Moved
from beholder.statistics.comparison.gating import Gate


def comparison_junit(comparison: Comparison, gate: Gate) -> str:
    """What the gate looked at is a test each: failed where it regressed, or where the gate asks for more than it got;
    an error where there was nothing to decide by; one that looks like a regression and is none says so in its own
    `system-out`, everything else is told in that of the suite. Control characters in names become blanks: XML has no
    place for them."""
    looked = [one for one in comparison.changes if one.name in gate.on]
    unknown = [name for name in gate.undecided if name not in gate.on]
    suite = Xml.Element(
        "testsuite",
        name="beholder compare",
        tests=str(len(looked) + len(unknown)),
        failures=str(len(gate.failed)),
        errors=str(len(gate.undecided)),
        skipped="0",
    )
    for change in looked:
        _test(suite, change, comparison, gate)
    for name in unknown:
        _error(_case(suite, "column", name), gate.undecided[name])
    unweighed = [gate.unweighed] if gate.unweighed else []
    Xml.SubElement(suite, "system-out").text = printable(
        "\n".join([verdict(comparison), *unweighed, *notes(comparison), comparison.told]), lines=True
    )
    whole = Xml.Element("testsuites", name="beholder")
    whole.append(suite)
    return Xml.tostring(whole, encoding="unicode", xml_declaration=True) + "\n"


def _test(suite: Xml.Element, change: Change, comparison: Comparison, gate: Gate) -> None:
    test = _case(suite, change.kind, change.name)
    if change.name in gate.failed:
        kind = "regression" if change.name in gate.regressed else "inconclusive"
        said = printable(gate.failed[change.name])
        failure = Xml.SubElement(test, "failure", type=kind, message=said)
        fell = [_line(one) for one in comparison.moved if _fell(one, change.name)]
        failure.text = printable("\n".join([said, *(["Cases that fell most:", *fell] if fell else [])]), lines=True)
    elif change.name in gate.undecided:
        _error(test, gate.undecided[change.name])
    elif change.name in gate.doubted:
        Xml.SubElement(test, "system-out").text = printable(gate.doubted[change.name])


def _case(suite: Xml.Element, kind: str, name: str) -> Xml.Element:
    return Xml.SubElement(suite, "testcase", classname=printable(f"beholder.compare.{kind}"), name=printable(name))


def _error(test: Xml.Element, said: str) -> None:
    Xml.SubElement(test, "error", type="undecided", message=printable(said))


def _fell(one: Moved, name: str) -> bool:
    old, new = one.changes.get(name, (0.0, 0.0))
    return new < old


def _line(one: Moved) -> str:
    changes = ", ".join(f"{name} {shown(old)} → {shown(new)}" for name, (old, new) in one.changes.items())
    return printable(f"{one.case}: {changes}")
