"""What a run would do and cost, without a call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from beholder.cases.checking import Checked, good
from beholder.errors import ImageError
from beholder.judges.model import identity_of, sizing_of
from beholder.ledger import AnswerKey, Ledger
from beholder.rubrics.brief import Brief
from beholder.runs.engine import CHUNK, FINAL, chunks
from beholder.runs.judging import brief_of, short
from beholder.runs.pictures import Pictures
from beholder.runs.running import composers, fingerprint, price_for
from beholder.runs.suite import JudgeEntry, Suite
from beholder.runs.tokens import estimate, money


@dataclass(slots=True)
class JudgePlan:
    """What one judge would be asked. Money is `None` where nobody knows the price."""

    judge: str
    calls: int = 0
    answered: int = 0
    text_tokens: int = 0
    image_tokens: int = 0
    output_low: int = 0
    output_high: int = 0
    money_low: Decimal | None = Decimal(0)
    money_high: Decimal | None = Decimal(0)
    rule: str = ""


@dataclass(slots=True)
class Plan:
    """What a run would do. `done` have a final outcome in a run that would be gone on with."""

    cases: int
    verdicts: int
    done: int = 0
    unreadable: int = 0
    judges: list[JudgePlan] = field(default_factory=list)
    run: str | None = None
    example: Brief | None = None


async def plan(suite: Suite, checked: Checked, ledger: Ledger | None) -> Plan:
    """Goes through all cases: every brief is made, so that what is in the ledger already is known."""
    found = ledger.find(fingerprint(suite, checked)) if ledger else None
    whole = Plan(checked.count, checked.count * len(suite.rubrics()), run=found.id if found else None)
    whole.judges = [JudgePlan(entry.judge) for entry in suite.judges]
    pictures = Pictures(allow_remote=suite.allow_remote)
    makers = list(composers(suite))
    try:
        for chunk in chunks(good(suite.rows(), checked), CHUNK):
            known = ledger.outcomes(found.id, [case.id for case in chunk]) if ledger and found else {}
            for case in chunk:
                for maker in makers:
                    if known.get((case.id, maker.rubric.name)) in FINAL:
                        whole.done += 1
                        continue
                    for entry, one in zip(suite.judges, whole.judges, strict=True):
                        sizing = sizing_of(entry.judge, {**suite.image_params(), **entry.params})
                        try:
                            brief = await brief_of(maker, case, sizing, pictures)
                        except ImageError:
                            whole.unreadable += 1
                            break
                        whole.example = whole.example or brief
                        _count(one, entry, suite.samples, brief, ledger)
    finally:
        pictures.close()
    return whole


def _count(one: JudgePlan, entry: JudgeEntry, samples: int, brief: Brief, ledger: Ledger | None) -> None:
    """Adds what `samples` calls with a brief come to, less those whose answers the ledger has."""
    identity = short(identity_of(entry.judge, entry.base_url, entry.params))
    keys = [AnswerKey(brief.digest, identity, sample) for sample in range(samples)]
    answered = len(ledger.cached(keys)) if ledger else 0
    calls = samples - answered
    one.answered += answered
    one.calls += calls
    provider, _, model = entry.judge.partition(":")
    expected = estimate(provider, model, brief, max_tokens=entry.max_tokens())
    one.rule = expected.rule
    one.text_tokens += calls * expected.text_tokens
    one.image_tokens += calls * expected.image_tokens
    one.output_low += calls * expected.output_low
    one.output_high += calls * expected.output_high
    price = price_for(entry)
    if price is None or one.money_low is None or one.money_high is None:
        one.money_low = one.money_high = None
    else:
        low, high = money(expected, price)
        one.money_low += calls * low
        one.money_high += calls * high


def total(judges: Sequence[JudgePlan]) -> tuple[Decimal, Decimal] | None:
    """Money from–to over all judges; `None` where a price is unknown."""
    low = [one.money_low for one in judges]
    high = [one.money_high for one in judges]
    if None in low or None in high:
        return None
    return sum(filter(None, low), Decimal(0)), sum(filter(None, high), Decimal(0))
