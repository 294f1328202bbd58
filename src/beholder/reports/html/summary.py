"""What a report says before it comes to the cases, as lists for its template."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeVar

from beholder.ledger import RunRecord
from beholder.reports.html.figures import Bin, Figures, figures
from beholder.reports.html.gathering import AUDIT, Counted, Example, Gathered, Question
from beholder.reports.html.texts import plain
from beholder.reports.run_states import state_of
from beholder.verdicts.model import counted

LISTED = 12  # assertions, findings, corrections
SCORED = "scored"

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run came to. `failed` has, by the column that says who passed, its rubric and how many verdicts did not;
    `corrected` is how often code corrected the judge, of which `corrections` are the most common."""

    verdicts: int
    cases: int
    facts: list[tuple[str, list[str]]]
    figures: Figures
    outcomes: list[tuple[str, int, list[Example]]]
    grades: dict[str, list[Bin]]
    failed: dict[str, tuple[str, int]]
    failing: list[tuple[Question, Counted]]
    findings: dict[str, tuple[int, list[tuple[str, Counted]]]]
    flags: list[tuple[str, bool, Counted]]
    corrections: list[tuple[tuple[str, str, str, str], Counted]]
    corrected: int


def summarised(gathered: Gathered, group: str | None = None) -> Summary:
    """`group` as in `figures.figures`, whose errors these are too."""
    return Summary(
        gathered.tally.verdicts,
        gathered.cases,
        facts(gathered),
        figures(gathered, group),
        outcomes(gathered),
        grades(gathered),
        failed(gathered),
        failing(gathered),
        findings(gathered),
        flags(gathered),
        most(gathered.corrections),
        sum(one.count for one in gathered.corrections.values()),
    )


def facts(gathered: Gathered) -> list[tuple[str, list[str]]]:
    """Who judged what, when, for how much. Of a run that was not gone through yet, what its record says."""
    record, tally = gathered.record, gathered.tally
    made, changed = (f"{moment:%Y-%m-%d %H:%M} UTC" for moment in (record.created, record.updated))
    rubrics = [f"{plain(name)} {plain(version)}" for name, version in gathered.versions.items()]
    found = [
        ("Judged by", [plain(name) for name in [*tally.judges] or judges_of(record)] or ["nobody yet"]),
        ("Model, as returned", [plain(name) for name in sorted(tally.models)]),
        ("When", [made if made == changed else f"{made} to {changed}"]),
        ("Rubric", rubrics or [plain(f"{_rubric(one)} {one.get('version', '')}".strip()) for one in record.rubrics]),
        ("Prompt digest", [digest[:12] for digest in prompt_digests(record).values()]),
        ("Cost", [_cost(record.spent_usd, record.unpriced, tally.reused)]),
        ("Tokens", _tokens(tally.usage)),
        ("State", [state_of(record) if record.state != "finished" else ""]),
        ("Tags", [plain(tag) for tag in record.tags]),
    ]
    return [(name, kept) for name, values in found if (kept := [value for value in values if value])]


def judges_of(record: RunRecord) -> list[str]:
    """Who judges, as far as the suite says."""
    judges = record.suite.get("judges")
    names = [one.get("judge") if isinstance(one, dict) else one for one in judges] if isinstance(judges, list) else []
    return [str(name) for name in names if name]


def prompt_digests(record: RunRecord) -> dict[str, str]:
    """By rubric, the SHA-256 of what the judge was asked with, whatever the case: rubric and prompt as JSON."""
    return {
        plain(_rubric(rubric)): hashlib.sha256(
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


def _rubric(values: Mapping[str, object]) -> str:
    return str(values.get("rubric", ""))


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
    counts = {SCORED: gathered.tally.score.count} | {state: one.count for state, one in gathered.lacks.items()}
    lacks = gathered.lacks
    return [(state, count, list(lacks[state].examples) if state in lacks else []) for state, count in states(counts)]


def states(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Scored first, then what has no score, most first."""
    rest = sorted((-count, state) for state, count in counts.items() if state != SCORED and count)
    return [(SCORED, counts.get(SCORED, 0)), *((state, -count) for count, state in rest)]


def grades(gathered: Gathered) -> dict[str, list[Bin]]:
    """By rubric, best grade first, as the rubric lists them; those it does not list come last."""
    found = {}
    for rubric, tally in gathered.tally.rubrics.items():
        if tally.grades:
            rubrics = [one for one in gathered.record.rubrics if one.get("rubric") == rubric]
            found[rubric] = [Bin(plain(name), tally.grades[name]) for name in grade_names(rubrics, tally.grades)]
    return found


def grade_names(rubrics: Sequence[Mapping[str, object]], given: Collection[str]) -> list[str]:
    """Best first, as the rubrics list them; those that were given and they do not list come last."""
    listed: list[str] = []
    for rubric in rubrics:
        scoring = rubric.get("scoring")
        grades = scoring.get("grades", ()) if isinstance(scoring, Mapping) else ()
        listed += [str(grade["grade"]) for grade in grades if isinstance(grade, Mapping) and "grade" in grade]
    return [*dict.fromkeys(listed), *sorted(set(given) - set(listed))]


def failed(gathered: Gathered) -> dict[str, tuple[str, int]]:
    rubrics = gathered.tally.rubrics
    return {
        "passed" if len(rubrics) == 1 else f"{name}.passed": (name, tally.passed[False])
        for name, tally in rubrics.items()
    }


def failing(gathered: Gathered) -> list[tuple[Question, Counted]]:
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
