"""What a run would do and cost, without a call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from beholder.cases.checking import Checked, good
from beholder.errors import ImageError
from beholder.images import Sizing
from beholder.judges.model import identity_of, judge_from, sizing_of
from beholder.judges.protocol import INSTRUMENTS, identity_for, needs_images
from beholder.ledger import AnswerKey, Ledger
from beholder.rubrics.brief import Brief
from beholder.rubrics.model import Rubric
from beholder.runs.engine import CHUNK, FINAL, chunks
from beholder.runs.judging import brief_of, short
from beholder.runs.pictures import Pictures
from beholder.runs.running import fingerprint, price_for
from beholder.runs.suite import JudgeEntry, Suite
from beholder.runs.tokens import Estimate, estimate, money

NOTHING_SENT = "measured here; nothing is sent"


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
    seats = [_Seat(entry, suite) for entry in suite.judges]
    whole.judges = [seat.plan for seat in seats]
    pictures = Pictures(allow_remote=suite.allow_remote)
    makers = suite.composers()
    try:
        for chunk in chunks(good(suite.rows(), checked), CHUNK):
            known = ledger.outcomes(found.id, [case.id for case in chunk]) if ledger and found else {}
            for case in chunk:
                for maker in makers:
                    if known.get((case.id, maker.rubric.name)) in FINAL:
                        whole.done += 1
                        continue
                    for seat in seats:
                        try:
                            brief = await brief_of(maker, case, seat.sizing_for(maker.rubric), pictures)
                        except ImageError:
                            whole.unreadable += 1
                            break
                        whole.example = whole.example or brief
                        seat.briefs.append(brief)
            for seat in seats:
                seat.count(ledger)
    finally:
        pictures.close()
    return whole


class _Seat:
    """One judge of the suite: what holds for all of its calls, and the briefs of a chunk that are yet to be counted."""

    def __init__(self, entry: JudgeEntry, suite: Suite) -> None:
        params = {**suite.image_params(), **entry.params}
        self.plan = JudgePlan(entry.judge)
        self.sizing = sizing_of(entry.judge, params)
        self.briefs: list[Brief] = []
        self._identity = short(identity_of(entry.judge, entry.base_url, params))
        self._measures = judge_from(INSTRUMENTS, params=params) if entry.judge == INSTRUMENTS else None
        self._samples = range(suite.samples)
        self._max_tokens = entry.max_tokens()
        self._price = price_for(entry)
        if self._price is None:
            self.plan.money_low = self.plan.money_high = None

    def sizing_for(self, rubric: Rubric) -> Sizing | None:
        """How it wants the pictures of a case; `None` where it needs none."""
        return None if self._measures and not needs_images(self._measures, rubric) else self.sizing

    def count(self, ledger: Ledger | None) -> None:
        """Adds what the calls come to, less those whose answers the ledger has."""
        keys = {
            brief.digest: [AnswerKey(brief.digest, self._identity_for(brief), n) for n in self._samples]
            for brief in self.briefs
        }
        answered = set(ledger.cached([key for some in keys.values() for key in some])) if ledger else set()
        provider, _, model = self.plan.judge.partition(":")
        for brief in self.briefs:
            calls = sum(key not in answered for key in keys[brief.digest])
            self.plan.answered += len(self._samples) - calls
            if self._measures:
                expected = Estimate(0, 0, 0, 0, NOTHING_SENT)
            else:
                expected = estimate(provider, model, brief, self.sizing.detail, max_tokens=self._max_tokens)
            self._add(calls, expected)
        self.briefs.clear()

    def _identity_for(self, brief: Brief) -> str:
        return short(identity_for(self._measures, brief)) if self._measures else self._identity

    def _add(self, calls: int, expected: Estimate) -> None:
        plan = self.plan
        plan.rule = expected.rule
        plan.calls += calls
        plan.text_tokens += calls * expected.text_tokens
        plan.image_tokens += calls * expected.image_tokens
        plan.output_low += calls * expected.output_low
        plan.output_high += calls * expected.output_high
        if self._price is not None and plan.money_low is not None and plan.money_high is not None:
            low, high = money(expected, self._price)
            plan.money_low += calls * low
            plan.money_high += calls * high


def total(judges: Sequence[JudgePlan]) -> tuple[Decimal, Decimal] | None:
    """Money from–to over all judges; `None` where a price is unknown."""
    low = [one.money_low for one in judges]
    high = [one.money_high for one in judges]
    if None in low or None in high:
        return None
    return sum(filter(None, low), Decimal(0)), sum(filter(None, high), Decimal(0))
