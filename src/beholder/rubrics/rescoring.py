"""A rubric whose scoring a person changed, by a flag or in a suite."""

from __future__ import annotations

from collections.abc import Iterable

from beholder.errors import UsageError
from beholder.rubrics.model import Gate, NotApplicable, Rubric


def rescored(rubric: Rubric, threshold: float | None, gates: Iterable[str], not_applicable: str | None) -> Rubric:
    """The rubric with the threshold, gates and treatment of N/A that flags ask for."""
    if threshold is not None:
        if not 0 <= threshold <= 1:
            raise UsageError(f"--threshold is between 0 and 1, and {threshold} is not.")
        rubric = rubric.with_scoring(threshold=threshold)
    for gate in gates:
        known = [finding.key for finding in rubric.findings]
        if gate not in known:
            raise UsageError(f"{rubric.name} has no finding {gate!r} to gate on; it has {', '.join(known) or 'none'}.")
        rubric = rubric.with_scoring(gates=(*rubric.scoring.gates, Gate(finding=gate)))
    if not_applicable is not None:
        try:
            rubric = rubric.with_scoring(not_applicable=NotApplicable(not_applicable))
        except ValueError:
            allowed = ", ".join(NotApplicable)
            raise UsageError(f"--not-applicable is one of {allowed}, not {not_applicable!r}.") from None
    return rubric
