"""Runs, verdicts and entries to fill a ledger with; and, run as a program, a process that does nothing but write.

python tests/support/ledger.py LEDGER RUN FIRST COUNT BATCH    says how many verdicts are safe after each batch
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from hashlib import sha256
from typing import Any

from sqlalchemy import select

from beholder.cases.case import Case
from beholder.ledger import schema
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import AnswerKey, Entry, RunRecord, StoredAnswer
from beholder.verdicts.verdict import CriterionResult, Outcome, SentImage, Verdict

NOW = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)
WORDS = (
    "The brick wall behind the parked car keeps its mortar lines and its shadows exactly as in the input photograph",
    "Light still falls from the upper left on bonnet and pavement, and the colour of the sky is the same throughout",
    "Number plate, rims and badge can all be recognised at once; only the paint changed, as the instruction asked",
)
KEYS = ("unchanged_regions", "global_consistency", "identity_preservation")


def run_record(id_: str = "r1", **changes: object) -> RunRecord:
    record = RunRecord(
        id=id_,
        name="nightly",
        fingerprint=f"fingerprint of {id_}",
        state="running",
        created=NOW,
        updated=NOW,
        total=100,
        suite={"rubric": "edit-preservation", "judges": ["openai:gpt-5-mini"]},
        rubrics=({"rubric": "edit-preservation"},),
        versions={"beholder": "0.1.0"},
        tags=("ci",),
    )
    return replace(record, **changes)  # type: ignore[arg-type]


def hexed(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def verdict(number: int = 0, **changes: object) -> Verdict:
    scores = [1 + (number + place) % 7 for place in range(3)]
    criteria = {
        key: CriterionResult(score, score, (1, 7), 1, f"{words} {number}")
        for key, score, words in zip(KEYS, scores, WORDS, strict=True)
    }
    images = tuple(
        SentImage(role, hexed(name), 1600, 1200, 358112, False, "image/jpeg", hexed(name), 1600, 1200, "jpeg")
        for role, name in (("input", f"photo {number}"), ("edited", f"edit {number}"))
    )
    made = Verdict(
        case=f"photo-{number:05d}/model-a",
        rubric="edit-preservation",
        rubric_version="1.0",
        judge="openai:gpt-5-mini",
        outcome=Outcome.SCORED,
        setting="online",
        model="gpt-5-mini-2025-08-07",
        criteria=criteria,
        score=(sum(scores) - 3) / 18,
        score_derived=True,
        images=images,
        usage={"input_tokens": 2310, "output_tokens": 640, "cached_tokens": 0},
        cost_usd=Decimal("0.0018632500000000000001"),
        latency_s=3.125,
        attempts=1,
        brief_digest=hexed(f"brief {number}"),
        answer=answer_text(number, scores),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def answer_text(number: int, scores: list[int]) -> str:
    parts = (
        f'"{key}": {{"justification": "{words} {number}", "score": {score}}}'
        for key, words, score in zip(KEYS, WORDS, scores, strict=True)
    )
    return f'{{"criteria": {{{", ".join(parts)}}}}}'


def unscored(number: int = 0, outcome: Outcome = Outcome.REFUSED, **changes: object) -> Verdict:
    plain: dict[str, object] = {
        "criteria": {},
        "score": None,
        "score_derived": False,
        "detail": "it said no",
        "answer": "I will not",
    }
    return verdict(number, outcome=outcome, **{**plain, **changes})


def stored(of: Verdict, sample: int = 0, judge: str = "0123456789abcdef") -> StoredAnswer:
    key = AnswerKey(of.brief_digest, judge, sample)
    return StoredAnswer(key, of.answer, of.model, of.usage, of.cost_usd, of.latency_s, of.attempts)


def case(of: Verdict, **changes: object) -> Case:
    name = of.case.replace("/", "-")
    made = Case(
        of.case,
        {"input": f"/data/photos/{name}.jpg", "edited": f"/data/out/{name}.png"},
        {"instruction": "make the car red"},
        {"model": "model-a", "source": name},
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def entry(number: int = 0, of: Verdict | None = None, **changes: object) -> Entry:
    """An entry as the engine makes one: a scored verdict comes with its answer."""
    of = verdict(number) if of is None else of
    answers = (stored(of),) if of.scored else ()
    made = Entry(number, case(of), of, answers, spent_usd=of.cost_usd)
    return replace(made, **changes)  # type: ignore[arg-type]


def listed(ledger: Ledger, run: str) -> list[tuple[Any, ...]]:
    """What lists are filtered by, of every verdict of a run in its order: facets as the last."""
    names = ("case_id", "rubric", "outcome", "score", "grade", "passed", "facets")
    columns = schema.verdicts.c
    query = select(*(columns[name] for name in names)).order_by(columns.position, columns.number)
    with ledger._reading() as connection:
        rows = connection.execute(query.where(columns.run == ledger._run_number(connection, run)))
        return [(*row[:-1], json.loads(row.facets or "{}")) for row in rows]


def main() -> None:
    where, run, first, count, batch = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
    with Ledger.open(where, create=True) as ledger:
        ledger.start(run_record(run))
        print("started", flush=True)
        for start in range(first, first + count, batch):
            ledger.write(run, [entry(number) for number in range(start, start + batch)])
            print(start + batch - first, flush=True)


if __name__ == "__main__":
    main()
