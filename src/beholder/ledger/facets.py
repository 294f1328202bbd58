"""What of a verdict lists are filtered by, beside its outcome, score, grade and whether it passed."""

from __future__ import annotations

import msgspec

from beholder.ledger.packing import dump, plain_text
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
    try:
        return msgspec.json.encode(found).decode()
    except UnicodeEncodeError:  # half a surrogate pair somewhere, which a database would not find again
        return dump(_plain(found))


def _plain(value: object) -> object:
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, dict):
        return {plain_text(key): _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value
