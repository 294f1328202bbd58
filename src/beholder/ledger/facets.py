"""What of a verdict lists are filtered by, beside its outcome, score, grade and whether it passed."""

from __future__ import annotations

from beholder.ledger.packing import dump, plain_json
from beholder.verdicts.model import Verdict

SCORES, NO, FLAGS, STYLE = "scores", "no", "flags", "style"


def facets(verdict: Verdict) -> str | None:
    """JSON: `scores` by criterion, under `no` the ids of the assertions that failed, `flags`, `style`. What is empty is
    left out; `None` where nothing is left."""
    found: dict[str, object] = {}
    failed: list[str] = []
    scores = {}
    for key, result in verdict.criteria.items():
        if result.score is not None:
            scores[key] = result.score
        if result.no:
            failed += [assertion.id for assertion in result.assertions if assertion.answer == "no"]
    if scores:
        found[SCORES] = scores
    if failed:
        found[NO] = failed
    if verdict.flags:
        found[FLAGS] = list(dict.fromkeys(flag.flag for flag in verdict.flags))
    if verdict.style:
        found[STYLE] = verdict.style
    if not found:
        return None
    return plain_json(dump(found))
