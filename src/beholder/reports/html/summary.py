"""What a report says before it comes to the cases, as lists for its template."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import TypeVar

from beholder.ledger import RunRecord
from beholder.reports.html.figures import Bin
from beholder.reports.html.gathering import AUDIT, Counted, Example, Gathered
from beholder.reports.html.texts import plain
from beholder.verdicts.model import counted

LISTED = 12  # assertions, findings, corrections

Key = TypeVar("Key")


def facts(gathered: Gathered) -> list[tuple[str, list[str]]]:
    record, tally = gathered.record, gathered.tally
    made, changed = (f"{moment:%Y-%m-%d %H:%M} UTC" for moment in (record.created, record.updated))
    rubrics = [f"{plain(name)} {plain(version)}" for name, version in gathered.versions.items()]
    found = [
        ("Judged by", [plain(name) for name in tally.judges] or ["nobody yet"]),
        ("Model, as returned", [plain(name) for name in sorted(tally.models)]),
        ("When", [made if made == changed else f"{made} to {changed}"]),
        ("Rubric", rubrics or [plain(str(one.get("rubric", ""))) for one in record.rubrics]),
        ("Prompt digest", [digest[:12] for digest in prompt_digests(record).values()]),
        ("Cost", [_cost(record.spent_usd, record.unpriced, tally.reused)]),
        ("Tokens", _tokens(tally.usage)),
        ("State", [record.state if record.state != "finished" else ""]),
        ("Tags", [plain(tag) for tag in record.tags]),
    ]
    return [(name, kept) for name, values in found if (kept := [value for value in values if value])]


def prompt_digests(record: RunRecord) -> dict[str, str]:
    """By rubric, the SHA-256 of what the judge was asked with, whatever the case: rubric and prompt as JSON."""
    return {
        plain(str(rubric.get("rubric", ""))): hashlib.sha256(
            json.dumps([rubric, record.prompt], sort_keys=True, default=str).encode("utf-8", "surrogatepass")
        ).hexdigest()
        for rubric in record.rubrics
    }


def pedigree(gathered: Gathered) -> list[tuple[str, str]]:
    record = gathered.record
    rows = [("Run", record.id), ("Fingerprint", record.fingerprint)]
    rows += [(f"Prompt digest, {name}", digest) for name, digest in prompt_digests(record).items()]
    rows += [(name.capitalize(), version) for name, version in record.versions.items()]
    return [(plain(name), plain(value)) for name, value in rows]


def _cost(spent: Decimal | None, unpriced: int, reused: int) -> str:
    parts = ["unknown" if spent is None else "nothing" if not spent and not unpriced else f"${spent:.4f}"]
    if spent is not None and unpriced:
        parts.append(f"and {unpriced:,} of unknown cost")
    if reused:
        parts.append(f"({counted(reused, 'verdict')} from the ledger, asked of nobody)")
    return " ".join(parts)


def _tokens(usage: Mapping[str, int]) -> list[str]:
    told = [
        f"{usage[name]:,} {name.removesuffix('_tokens')}"
        for name in ("input_tokens", "output_tokens")
        if usage.get(name)
    ]
    return [" + ".join(told)] if told else []


def outcomes(gathered: Gathered) -> list[tuple[str, int, list[Example]]]:
    """Scored first, then what has no score, most first; with examples."""
    scored = gathered.tally.score.count
    rest = sorted(gathered.lacks.items(), key=lambda item: (-item[1].count, item[0]))
    return [("scored", scored, []), *((state, one.count, list(one.examples)) for state, one in rest)]


def grades(gathered: Gathered) -> dict[str, list[Bin]]:
    """By rubric, best grade first, as the rubric lists them; those it does not list come last."""
    found = {}
    for rubric, tally in gathered.tally.rubrics.items():
        if not tally.grades:
            continue
        listed: list[str] = []
        for one in gathered.record.rubrics:
            scoring = one.get("scoring") if one.get("rubric") == rubric else None
            grades = scoring.get("grades", ()) if isinstance(scoring, Mapping) else ()
            listed += [str(grade["grade"]) for grade in grades if isinstance(grade, Mapping) and "grade" in grade]
        names = [*dict.fromkeys(listed), *sorted(set(tally.grades) - set(listed))]
        found[plain(rubric)] = [Bin(plain(name), tally.grades[name]) for name in names]
    return found


def failing(gathered: Gathered) -> list[tuple[tuple[str, str, str], Counted]]:
    """The assertions that fail most: by their number of No, then by share."""
    failing = [item for item in gathered.assertions.items() if item[1].count]
    failing.sort(key=lambda item: (-item[1].count, -item[1].count / item[1].of, item[0]))
    return failing[:LISTED]


def findings(gathered: Gathered) -> dict[str, tuple[int, list[tuple[str, Counted]]]]:
    """By kind, how many there are in all, and the most common."""
    return {
        key: (sum(one.count for one in items.values()), most(items))
        for key, items in gathered.findings.items()
        if items
    }


def most(items: Mapping[Key, Counted]) -> list[tuple[Key, Counted]]:
    """What is most common."""
    return sorted(items.items(), key=lambda item: (-item[1].count, str(item[0])))[:LISTED]


def flags(gathered: Gathered) -> list[tuple[str, bool, Counted]]:
    """What the audit found comes first, then what is most common."""
    return sorted(
        ((name, name in AUDIT, one) for name, one in gathered.flags.items()),
        key=lambda item: (not item[1], -item[2].count, item[0]),
    )
