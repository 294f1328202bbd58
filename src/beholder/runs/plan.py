"""What a run would do and cost, without a call: cases, calls, tokens, money.

Of very many cases a random sample is gone through, and the sums are extrapolated with their margin of error.
"""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random

from beholder.cases.validation import CaseCheck, iter_valid_cases
from beholder.errors import ImageError
from beholder.images.image import Sizing
from beholder.judges.base import INSTRUMENTS, capabilities_of, identity_for_brief
from beholder.judges.factory import judge_from, judge_identity, judge_sizing, load_plugin
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import AnswerKey, RunRecord
from beholder.providers.base import Provider
from beholder.rubrics.brief import Brief
from beholder.rubrics.rubric import Rubric
from beholder.runs.cache import digest_identity
from beholder.runs.case import make_brief
from beholder.runs.engine import FINAL_OUTCOMES, LOOKUP_CHUNK, pick_positions, split_chunks
from beholder.runs.execution import compute_fingerprint
from beholder.runs.image_pool import ImagePool
from beholder.runs.suite import Suite
from beholder.runs.suite_file import JudgeEntry
from beholder.runs.suite_judges import find_judge_price
from beholder.runs.tokens import TokenEstimate, estimate_cost, estimate_tokens

SAMPLE_SEED = 0  # the same cases give the same plan
_Z = 1.96  # for 95 % confidence intervals


def draw_sample(positions: Sequence[int], size: int | None) -> Sequence[int]:
    """Return a random sample of the positions, ascending; all of them if they are not more than `size`."""
    if size is None or len(positions) <= size:
        return positions
    return array("Q", sorted(positions[index] for index in Random(SAMPLE_SEED).sample(range(len(positions)), size)))


class SampleSpread:
    """Computes the margin of error of a sum that is extrapolated from a sample of its parts."""

    def __init__(self) -> None:
        self._total = 0.0
        self._squares = 0.0

    def add(self, part: float) -> None:
        self._total += part
        self._squares += part * part

    def margin(self, drawn: int, of: int) -> float:
        """Return the relative margin of error of a sum over `of` parts of which `drawn` were sampled.

        Sampled parts that were not added are 0. 0.02 is 2 % either way, at 95 % confidence. It is 0 where all parts
        were drawn, and 1 where all were 0 or fewer than two were drawn, which tells nothing.
        """
        if drawn >= of:
            return 0.0
        if drawn < 2 or not self._total:
            return 1.0
        mean = self._total / drawn
        variance = max(0.0, (self._squares - drawn * mean * mean) / (drawn - 1))
        return _Z * math.sqrt(variance * (1 - drawn / of) / drawn) / mean


NOTHING_SENT = "measured here; nothing is sent"
SAMPLE_SIZE = 2000  # cases whose briefs tell what a very long run comes to


@dataclass(slots=True)
class JudgePlan:
    """What one judge would be asked. `beholder plan --json` prints it: the names are data.

    Money is in US dollars, and `None` if the price is unknown; `batch_low` and `batch_high`, the cost with `run
    --batch`, also if the judge cannot be asked so. `margin` is the relative margin of error of money (else tokens) if
    only a sample of the cases was gone through: 0.02 is 2 % either way, at 95 % confidence; 0 if all were.
    """

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
    """What a run would do.

    `done` have a final outcome in the run that would be resumed. `pending` are the cases that are yet to be judged,
    `made` those of them whose briefs were made: if these are fewer, all numbers of `judges` and `unreadable` are
    extrapolated.
    """

    cases: int
    verdicts: int
    done: int = 0
    unreadable: int = 0
    pending: int = 0
    made: int = 0
    judges: list[JudgePlan] = field(default_factory=list)
    run: str | None = None
    example: Brief | None = None


async def plan_run(suite: Suite, checked: CaseCheck, ledger: Ledger | None, *, sample_size: int | None = None) -> Plan:
    """Plan a run: go through the cases and make their briefs, so that answers that the ledger has are not counted.

    Args:
        suite: What would be run.
        checked: The result of checking its cases.
        ledger: Its ledger, if there is one.
        sample_size: Go through a random sample of at most so many cases; by default through all.
    """
    found = ledger.find(compute_fingerprint(suite, checked)) if ledger else None
    whole = Plan(checked.count, checked.count * len(suite.rubrics()), run=found.id if found else None)
    pending: Sequence[int] = range(checked.count)
    if ledger and found:
        pending, whole.done = _find_pending(suite, checked, ledger, found)
    chosen = draw_sample(pending, sample_size)
    whole.pending, whole.made = len(pending), len(chosen)
    planners = [_JudgePlanner(entry, suite) for entry in suite.judges]
    whole.judges = [planner.plan for planner in planners]
    images = ImagePool(allow_remote=suite.allow_remote)
    try:
        for chunk in split_chunks(pick_positions(iter_valid_cases(suite.rows(), checked), chosen), LOOKUP_CHUNK):
            known = ledger.outcomes(found.id, [case.id for case in chunk]) if ledger and found else {}
            for case in chunk:
                for composer in suite.composers():
                    if known.get((case.id, composer.rubric.name)) in FINAL_OUTCOMES:
                        continue
                    for planner in planners:
                        try:
                            brief = await make_brief(composer, case, planner.sizing_for(composer.rubric), images)
                        except ImageError:
                            whole.unreadable += 1
                            break
                        whole.example = whole.example or brief
                        planner.briefs.append((case.id, brief))
            for planner in planners:
                planner.count(ledger)
    finally:
        images.close()
    if whole.made < whole.pending:
        whole.unreadable = round(whole.unreadable * whole.pending / whole.made)
        for planner in planners:
            planner.extrapolate(whole.made, whole.pending)
    for planner in planners:
        planner.price_by_batch()
    return whole


def _find_pending(suite: Suite, checked: CaseCheck, ledger: Ledger, run: RunRecord) -> tuple[Sequence[int], int]:
    """Return the positions of cases that lack a final outcome by some rubric, and the number of final outcomes."""
    names = [rubric.name for rubric in suite.rubrics()]
    positions = array("Q")
    done = position = 0
    for chunk in split_chunks(iter_valid_cases(suite.rows(), checked), LOOKUP_CHUNK):
        known = ledger.outcomes(run.id, [case.id for case in chunk])
        for case in chunk:
            final = sum(known.get((case.id, name)) in FINAL_OUTCOMES for name in names)
            done += final
            if final < len(names):
                positions.append(position)
            position += 1
    return positions, done


class _JudgePlanner:
    """Counts the calls of one judge: what is the same for all of them, and the briefs of a chunk yet to be counted."""

    def __init__(self, entry: JudgeEntry, suite: Suite) -> None:
        params = {**suite.image_params(), **entry.params}
        self.plan = JudgePlan(entry.judge)
        self.sizing = judge_sizing(entry.judge, params)
        self.briefs: list[tuple[str, Brief]] = []  # each with the id of its case
        self._identity = digest_identity(judge_identity(entry.judge, entry.base_url, params, entry.base_urls))
        self._measures = judge_from(INSTRUMENTS, params=params) if entry.judge == INSTRUMENTS else None
        self._samples = range(suite.samples)
        self._max_tokens = entry.max_tokens()
        self._price = find_judge_price(entry)
        plugin = load_plugin(entry.judge.partition(":")[0])
        has_batch_api = isinstance(plugin, Provider) and plugin.batch is not None
        self._batch_price = find_judge_price(entry, batch=True) if has_batch_api else None
        self._spread = SampleSpread()
        if self._price is None:
            self.plan.money_low = self.plan.money_high = None

    def sizing_for(self, rubric: Rubric) -> Sizing | None:
        """Return how the judge wants its images; `None` where it needs none."""
        return None if self._measures and not capabilities_of(self._measures).needs_images(rubric) else self.sizing

    def count(self, ledger: Ledger | None) -> None:
        """Add the tokens and the cost of the calls, without those whose answers the ledger has."""
        keys = {
            brief.digest: [AnswerKey(brief.digest, self._identity_for(brief), n) for n in self._samples]
            for _, brief in self.briefs
        }
        answered = set(ledger.cached_answers([key for some in keys.values() for key in some])) if ledger else set()
        provider, _, model = self.plan.judge.partition(":")
        parts: defaultdict[str, float] = defaultdict(float)
        for case, brief in self.briefs:
            calls = sum(key not in answered for key in keys[brief.digest])
            self.plan.answered += len(self._samples) - calls
            if self._measures:
                expected = TokenEstimate(0, 0, 0, 0, NOTHING_SENT)
            else:
                expected = estimate_tokens(provider, model, brief, self.sizing.detail, max_tokens=self._max_tokens)
            parts[case] += self._add(calls, expected)
        for part in parts.values():
            self._spread.add(part)
        self.briefs.clear()

    def extrapolate(self, made: int, pending: int) -> None:
        """Extrapolate the sums over the cases that were gone through to all that are pending."""
        plan = self.plan
        plan.margin = self._spread.margin(made, pending)
        for name in ("calls", "answered", "text_tokens", "image_tokens", "output_low", "output_high"):
            setattr(plan, name, round(getattr(plan, name) * pending / made))
        if plan.money_low is not None and plan.money_high is not None:
            plan.money_low, plan.money_high = plan.money_low * pending / made, plan.money_high * pending / made

    def price_by_batch(self) -> None:
        """Compute what all calls cost by batch, from the sums of their tokens."""
        plan = self.plan
        if self._batch_price is not None:
            expected = TokenEstimate(plan.text_tokens, plan.image_tokens, plan.output_low, plan.output_high, plan.rule)
            plan.batch_low, plan.batch_high = estimate_cost(expected, self._batch_price)

    def _identity_for(self, brief: Brief) -> str:
        return digest_identity(identity_for_brief(self._measures, brief)) if self._measures else self._identity

    def _add(self, calls: int, expected: TokenEstimate) -> float:
        """Add so many calls. Returns their cost or, if the price is unknown or 0, their tokens."""
        plan = self.plan
        plan.rule = expected.rule
        plan.calls += calls
        plan.text_tokens += calls * expected.text_tokens
        plan.image_tokens += calls * expected.image_tokens
        plan.output_low += calls * expected.output_low
        plan.output_high += calls * expected.output_high
        if self._price is not None and plan.money_low is not None and plan.money_high is not None:
            low, high = estimate_cost(expected, self._price)
            plan.money_low += calls * low
            plan.money_high += calls * high
            if self._price.input or self._price.output:
                return float(calls * high)
        return float(calls * (expected.input_tokens + expected.output_high))


def sum_estimated_costs(judges: Sequence[JudgePlan]) -> tuple[Decimal, Decimal] | None:
    """Return the lowest and the highest cost over all judges; `None` if a price is unknown."""
    low = [plan.money_low for plan in judges]
    high = [plan.money_high for plan in judges]
    if None in low or None in high:
        return None
    return sum(filter(None, low), Decimal(0)), sum(filter(None, high), Decimal(0))
