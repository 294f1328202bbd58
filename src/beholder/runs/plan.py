"""What a run would do and cost, without a call."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from beholder.cases.checking import Checked, good
from beholder.errors import ImageError
from beholder.images import Sizing
from beholder.judges.batches import batches_of
from beholder.judges.model import identity_of, judge_from, sizing_of
from beholder.judges.protocol import INSTRUMENTS, identity_for, needs_images
from beholder.ledger import AnswerKey, Ledger, RunRecord
from beholder.rubrics.brief import Brief
from beholder.rubrics.model import Rubric
from beholder.runs.judging import brief_of, short
from beholder.runs.pictures import Pictures
from beholder.runs.queues import CHUNK, chunks
from beholder.runs.running import fingerprint, price_for
from beholder.runs.sampling import Spread, at, drawn
from beholder.runs.suite import JudgeEntry, Suite
from beholder.runs.tokens import Estimate, estimate, money
from beholder.runs.work import FINAL

NOTHING_SENT = "measured here; nothing is sent"
SAMPLE = 2000  # cases whose briefs tell what a very long run comes to


@dataclass(slots=True)
class JudgePlan:
    """What one judge would be asked. Money is `None` where nobody knows the price; `batch_low` and `batch_high`, that
    with `run --batch`, also where the judge cannot be asked so. `margin` is by how much of itself what the calls come
    to (money, else tokens) may be off because only a part of the cases was gone through: 0.02 is 2 % either way, in 95
    of 100 draws; 0 where all were."""

    judge: str
    calls: int = 0
    answered: int = 0
    text_tokens: int = 0
    image_tokens: int = 0
    output_low: int = 0
    output_high: int = 0
    money_low: Decimal | None = Decimal(0)
    money_high: Decimal | None = Decimal(0)
    batch_low: Decimal | None = None
    batch_high: Decimal | None = None
    rule: str = ""
    margin: float = 0.0


@dataclass(slots=True)
class Plan:
    """What a run would do. `done` have a final outcome in a run that would be gone on with. `pending` are the cases
    that are yet to be judged, `made` those of them whose briefs were made: where these are fewer, all numbers of
    `judges` and `unreadable` are extrapolated."""

    cases: int
    verdicts: int
    done: int = 0
    unreadable: int = 0
    pending: int = 0
    made: int = 0
    judges: list[JudgePlan] = field(default_factory=list)
    run: str | None = None
    example: Brief | None = None


async def plan(suite: Suite, checked: Checked, ledger: Ledger | None, *, most: int | None = None) -> Plan:
    """Goes through the cases and makes their briefs, so that what is in the ledger already is known: of all of them, or
    of at most so many, drawn at random."""
    found = ledger.find(fingerprint(suite, checked)) if ledger else None
    whole = Plan(checked.count, checked.count * len(suite.rubrics()), run=found.id if found else None)
    pending: Sequence[int] = range(checked.count)
    if ledger and found:
        pending, whole.done = _pending(suite, checked, ledger, found)
    chosen = drawn(pending, most)
    whole.pending, whole.made = len(pending), len(chosen)
    seats = [_Seat(entry, suite) for entry in suite.judges]
    whole.judges = [seat.plan for seat in seats]
    pictures = Pictures(allow_remote=suite.allow_remote)
    makers = suite.composers()
    try:
        for chunk in chunks(at(good(suite.rows(), checked), chosen), CHUNK):
            known = ledger.outcomes(found.id, [case.id for case in chunk]) if ledger and found else {}
            for case in chunk:
                for maker in makers:
                    if known.get((case.id, maker.rubric.name)) in FINAL:
                        continue
                    for seat in seats:
                        try:
                            brief = await brief_of(maker, case, seat.sizing_for(maker.rubric), pictures)
                        except ImageError:
                            whole.unreadable += 1
                            break
                        whole.example = whole.example or brief
                        seat.briefs.append((case.id, brief))
            for seat in seats:
                seat.count(ledger)
    finally:
        pictures.close()
    if whole.made < whole.pending:
        whole.unreadable = round(whole.unreadable * whole.pending / whole.made)
        for seat in seats:
            seat.extrapolate(whole.made, whole.pending)
    for seat in seats:
        seat.price_by_batch()
    return whole


def _pending(suite: Suite, checked: Checked, ledger: Ledger, run: RunRecord) -> tuple[Sequence[int], int]:
    """Where the cases stand that lack a final outcome by some rubric, and how many outcomes there are."""
    names = [rubric.name for rubric in suite.rubrics()]
    places = array("Q")
    done = position = 0
    for chunk in chunks(good(suite.rows(), checked), CHUNK):
        known = ledger.outcomes(run.id, [case.id for case in chunk])
        for case in chunk:
            final = sum(known.get((case.id, name)) in FINAL for name in names)
            done += final
            if final < len(names):
                places.append(position)
            position += 1
    return places, done


class _Seat:
    """One judge of the suite: what holds for all of its calls, and the briefs of a chunk that are yet to be counted."""

    def __init__(self, entry: JudgeEntry, suite: Suite) -> None:
        params = {**suite.image_params(), **entry.params}
        self.plan = JudgePlan(entry.judge)
        self.sizing = sizing_of(entry.judge, params)
        self.briefs: list[tuple[str, Brief]] = []  # each with the id of its case
        self._identity = short(identity_of(entry.judge, entry.base_url, params, entry.base_urls))
        self._measures = judge_from(INSTRUMENTS, params=params) if entry.judge == INSTRUMENTS else None
        self._samples = range(suite.samples)
        self._max_tokens = entry.max_tokens()
        self._price = price_for(entry)
        self._batch_price = price_for(entry, batch=True) if batches_of(entry.judge.partition(":")[0]) else None
        self._spread = Spread()
        if self._price is None:
            self.plan.money_low = self.plan.money_high = None

    def sizing_for(self, rubric: Rubric) -> Sizing | None:
        """How it wants the pictures of a case; `None` where it needs none."""
        return None if self._measures and not needs_images(self._measures, rubric) else self.sizing

    def count(self, ledger: Ledger | None) -> None:
        """Adds what the calls come to, less those whose answers the ledger has."""
        keys = {
            brief.digest: [AnswerKey(brief.digest, self._identity_for(brief), n) for n in self._samples]
            for _, brief in self.briefs
        }
        answered = set(ledger.cached([key for some in keys.values() for key in some])) if ledger else set()
        provider, _, model = self.plan.judge.partition(":")
        parts: defaultdict[str, float] = defaultdict(float)
        for case, brief in self.briefs:
            calls = sum(key not in answered for key in keys[brief.digest])
            self.plan.answered += len(self._samples) - calls
            if self._measures:
                expected = Estimate(0, 0, 0, 0, NOTHING_SENT)
            else:
                expected = estimate(provider, model, brief, self.sizing.detail, max_tokens=self._max_tokens)
            parts[case] += self._add(calls, expected)
        for part in parts.values():
            self._spread.add(part)
        self.briefs.clear()

    def extrapolate(self, made: int, pending: int) -> None:
        """Makes what so many cases came to the sum over all that are pending."""
        plan = self.plan
        plan.margin = self._spread.margin(made, pending)
        for name in ("calls", "answered", "text_tokens", "image_tokens", "output_low", "output_high"):
            setattr(plan, name, round(getattr(plan, name) * pending / made))
        if plan.money_low is not None and plan.money_high is not None:
            plan.money_low, plan.money_high = plan.money_low * pending / made, plan.money_high * pending / made

    def price_by_batch(self) -> None:
        """What all calls together come to by batch: money follows from their tokens."""
        plan = self.plan
        if self._batch_price is not None:
            expected = Estimate(plan.text_tokens, plan.image_tokens, plan.output_low, plan.output_high, plan.rule)
            plan.batch_low, plan.batch_high = money(expected, self._batch_price)

    def _identity_for(self, brief: Brief) -> str:
        return short(identity_for(self._measures, brief)) if self._measures else self._identity

    def _add(self, calls: int, expected: Estimate) -> float:
        """Adds so many calls; what they weigh, in money or, where nobody knows that, in tokens."""
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
            if self._price.input or self._price.output:
                return float(calls * high)
        return float(calls * (expected.input_tokens + expected.output_high))


def total(judges: Sequence[JudgePlan]) -> tuple[Decimal, Decimal] | None:
    """Money from–to over all judges; `None` where a price is unknown."""
    low = [one.money_low for one in judges]
    high = [one.money_high for one in judges]
    if None in low or None in high:
        return None
    return sum(filter(None, low), Decimal(0)), sum(filter(None, high), Decimal(0))
