"""What a run would do and cost, without a call: cases, calls, tokens, money.

Of very many cases a random sample is gone through, and the sums are extrapolated with their margin of error.
"""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from random import Random
from typing import NamedTuple

from beholder.cases.validation import CaseCheck, iter_valid_cases
from beholder.errors import ImageError
from beholder.images.image import Sizing
from beholder.judges.base import INSTRUMENTS, Judge, capabilities_of, identity_for_brief
from beholder.judges.factory import check_judge_name, judge_from, judge_identity, judge_sizing, load_plugin
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import AnswerKey, RunRecord
from beholder.providers.base import Provider
from beholder.rubrics.brief import PROBE, Brief
from beholder.rubrics.prompt import typical_answer_tokens
from beholder.rubrics.rubric import Rubric
from beholder.runs.cache import digest_identity
from beholder.runs.case import make_briefs, make_probe_brief
from beholder.runs.engine import LOOKUP_CHUNK, pick_positions, split_chunks
from beholder.runs.execution import compute_fingerprint
from beholder.runs.image_pool import ImagePool
from beholder.runs.suite import Suite
from beholder.runs.suite_file import JudgeEntry
from beholder.runs.suite_judges import (
    TokenEstimate,
    estimate_cost,
    estimate_tokens,
    estimate_usual_cost,
    find_judge_price,
)
from beholder.verdicts.verdict import FINAL_OUTCOMES

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


LEARNING_SIZE = 300  # answers in the ledger whose usage tells what the next ones cost

_COUNT_FIELDS = ("calls", "answered", "text_tokens", "image_tokens", "output_low", "output_high", "output_expected")
_MONEY_FIELDS = ("money_low", "money_high", "money_expected", "batch_low", "batch_high", "batch_expected")


@dataclass(slots=True)
class JudgePlan:
    """What one judge would be asked. `beholder plan --json` prints it: the names are data.

    Money is in US dollars, and `None` if the price is unknown; `batch_low` and `batch_high`, the cost with `run
    --batch`, also if the judge cannot be asked so. `output_expected`, `money_expected` and `batch_expected` are the
    likely ones: learned from the newest `learned_from` answers of this judge in the ledger, else those of a usual
    answer; `None` for a model that thinks and has not answered yet. `margin` is the relative margin of error of money
    (else tokens) if only a sample of the cases was gone through: 0.02 is 2 % either way, at 95 % confidence; 0 if all
    were. With `probe` each model has a second entry, whose `part` is `probe`: what the questions about crops cost.
    """

    judge: str
    calls: int = 0
    answered: int = 0
    text_tokens: int = 0
    image_tokens: int = 0
    output_low: int = 0
    output_high: int = 0
    output_expected: int | None = 0
    money_low: Decimal | None = Decimal(0)
    money_high: Decimal | None = Decimal(0)
    money_expected: Decimal | None = Decimal(0)
    batch_low: Decimal | None = None
    batch_high: Decimal | None = None
    batch_expected: Decimal | None = None
    learned_from: int = 0
    rule: str = ""
    margin: float = 0.0
    part: str = ""

    @property
    def name(self) -> str:
        """The judge, with its part if it is asked several."""
        return f"{self.judge} ({self.part})" if self.part else self.judge

    def to_dict(self) -> dict[str, object]:
        values = {**asdict(self), **{name: _to_float(getattr(self, name)) for name in _MONEY_FIELDS}}
        if not self.part:
            del values["part"]
        return values


@dataclass(slots=True, repr=False)
class Plan:
    """What a run would do.

    `done` have a final outcome in the run that would be resumed, `left_out` are invalid cases. `pending` are the cases
    that are yet to be judged, `made` those of them whose briefs were made: if these are fewer, all numbers of `judges`
    and `unreadable` are extrapolated.
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
    left_out: int = 0

    @property
    def calls(self) -> int:
        """How many calls all judges get."""
        return sum(judge.calls for judge in self.judges)

    @property
    def money(self) -> tuple[Decimal, Decimal] | None:
        """The lowest and the highest cost over all judges in US dollars; `None` if a price is unknown."""
        low = _sum_known([judge.money_low for judge in self.judges])
        high = _sum_known([judge.money_high for judge in self.judges])
        return None if low is None or high is None else (low, high)

    @property
    def expected_money(self) -> Decimal | None:
        """The likely cost over all judges in US dollars; `None` if a price or the length of answers is unknown."""
        return _sum_known([judge.money_expected for judge in self.judges])

    def to_dict(self) -> dict[str, object]:
        """Return JSON values, as `beholder plan --json` prints them."""
        low, high = self.money or (None, None)
        return {
            "cases": self.cases,
            "verdicts": self.verdicts,
            "done": self.done,
            "unreadable": self.unreadable,
            "run": self.run,
            "sampled": {"cases": self.made, "of": self.pending} if self.made < self.pending else None,
            "calls": self.calls,
            "answered": sum(judge.answered for judge in self.judges),
            "money_low": _to_float(low),
            "money_high": _to_float(high),
            "money_expected": _to_float(self.expected_money),
            "judges": [judge.to_dict() for judge in self.judges],
            "left_out": self.left_out,
            "brief": self.example.to_dict() if self.example else None,
        }

    def __repr__(self) -> str:
        cost = "at an unknown price" if self.money is None else "for ${:.4f} to ${:.4f}".format(*self.money)
        if (expected := self.expected_money) is not None:
            cost += f", about ${expected:.4f}"
        return f"<Plan of {self.verdicts:,} verdicts on {self.cases:,} cases: {self.calls:,} calls {cost}>"

    def _repr_html_(self) -> str:
        from beholder.reports.charts import html_result, html_table

        rows = [
            (
                one.name,
                f"{one.calls:,}",
                f"{one.answered:,}",
                f"{one.text_tokens + one.image_tokens:,}",
                f"{one.output_low:,} – {one.output_high:,}",
                "unknown" if one.money_expected is None else f"{one.money_expected:.4f}",
                "unknown" if one.money_low is None else f"{one.money_low:.4f} – {one.money_high:.4f}",
            )
            for one in self.judges
        ]
        header = ("judge", "calls", "in the ledger", "tokens to send", "answer tokens", "expected USD", "USD")
        table = html_table(header, rows)
        return html_result(f"{self.verdicts:,} verdicts on {self.cases:,} cases, {self.done:,} of them done", [table])


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
    whole.left_out = len(checked.bad_positions)
    pending: Sequence[int] = range(checked.count)
    if ledger and found:
        pending, whole.done = _find_pending(suite, checked, ledger, found)
    chosen = draw_sample(pending, sample_size)
    whole.pending, whole.made = len(pending), len(chosen)
    planners = [
        _JudgePlanner(entry, suite, suite.objects.judges.get(place)) for place, entry in enumerate(suite.judges)
    ]
    probes: list[_JudgePlanner | None] = [None] * len(planners)
    if suite.probe:
        probes = [
            _JudgePlanner(entry, suite, suite.objects.judges.get(place), PROBE) if planner.sees_images else None
            for place, (entry, planner) in enumerate(zip(suite.judges, planners, strict=True))
        ]
    all_planners = [*planners, *filter(None, probes)]
    whole.judges = [planner.plan for planner in all_planners]
    images = ImagePool(allow_remote=suite.allow_remote)
    try:
        for chunk in split_chunks(pick_positions(iter_valid_cases(suite.rows(), checked), chosen), LOOKUP_CHUNK):
            known = ledger.outcomes(found.id, [case.id for case in chunk]) if ledger and found else {}
            for case in chunk:
                for composer in suite.composers():
                    if known.get((case.id, composer.rubric.name)) in FINAL_OUTCOMES:
                        continue
                    for planner, probe in zip(planners, probes, strict=True):
                        try:
                            briefs = await make_briefs(composer, case, planner.sizing_for(composer.rubric), images)
                        except ImageError:
                            whole.unreadable += 1
                            break
                        whole.example = whole.example or briefs[0]
                        rubric = composer.rubric_for(case)
                        planner.briefs += [_PlannedBrief(case.id, brief, rubric, rubric.name) for brief in briefs]
                        if probe is not None and composer.probe_rubric is not None:
                            _, closer = await make_probe_brief(composer, case, probe.sizing, images)
                            if closer is not None:
                                probe.briefs.append(_PlannedBrief(case.id, closer, composer.probe_rubric, rubric.name))
            for planner in all_planners:
                planner.count(ledger)
    finally:
        images.close()
    if whole.made < whole.pending:
        whole.unreadable = round(whole.unreadable * whole.pending / whole.made)
        for planner in all_planners:
            planner.extrapolate(whole.made, whole.pending)
    for planner in all_planners:
        planner.finish()
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


@dataclass(frozen=True, slots=True)
class _UsualAnswer:
    """What an answer usually takes: tokens of output, repairs included, and the share of the input that was cached."""

    output_tokens: float
    cached_share: float = 0.0


def _summarize_usage(counts: Sequence[Mapping[str, int | None]]) -> _UsualAnswer | None:
    """Return the means over the token counts of answers; `None` if there are none."""
    outputs = [output for one in counts if (output := one.get("output_tokens")) is not None]
    if not outputs:
        return None
    sent = sum(one.get("input_tokens") or 0 for one in counts)
    cached = sum(one.get("cached_tokens") or 0 for one in counts)
    return _UsualAnswer(sum(outputs) / len(outputs), min(1.0, cached / sent) if sent else 0.0)


class _PlannedBrief(NamedTuple):
    """A brief with the id of its case and what it asks, and the rubric whose verdicts tell how long answers are."""

    case: str
    brief: Brief
    rubric: Rubric
    learn_from: str


class _JudgePlanner:
    """Counts the calls of one judge: what is the same for all of them, and the briefs of a chunk yet to be counted."""

    def __init__(self, entry: JudgeEntry, suite: Suite, handed_in: Judge | None = None, part: str = "") -> None:
        if handed_in is None:
            check_judge_name(entry.judge)
        params = {**suite.image_params(), **entry.params}
        self.plan = JudgePlan(entry.judge, part=part)
        self.sizing = handed_in.sizing if handed_in else judge_sizing(entry.judge, params)
        self.briefs: list[_PlannedBrief] = []
        self._usage: dict[str, _UsualAnswer | None] = {}  # by rubric; `None` where the ledger has no answer yet
        identity = handed_in.identity if handed_in else ""
        self._identity = digest_identity(
            identity or judge_identity(entry.judge, entry.base_url, params, entry.base_urls)
        )
        self._measures = judge_from(INSTRUMENTS, params=params) if entry.judge == INSTRUMENTS else None
        seeing = handed_in or self._measures
        self.sees_images = seeing is None or capabilities_of(seeing).sees_images
        self._samples = range(suite.samples)
        self._max_tokens = entry.max_tokens()
        self._price = find_judge_price(entry)
        plugin = load_plugin(entry.judge.partition(":")[0])
        has_batch_api = isinstance(plugin, Provider) and plugin.batch is not None
        self._batch_price = find_judge_price(entry, batch=True) if has_batch_api else None
        self._spread = SampleSpread()
        if self._price is None:
            self.plan.money_low = self.plan.money_high = self.plan.money_expected = None

    def sizing_for(self, rubric: Rubric) -> Sizing | None:
        """Return how the judge wants its images; `None` where it needs none."""
        return None if self._measures and not capabilities_of(self._measures).needs_images(rubric) else self.sizing

    def count(self, ledger: Ledger | None) -> None:
        """Add the tokens and the cost of the calls, without those whose answers the ledger has."""
        keys = {
            brief.digest: [AnswerKey(brief.digest, self._identity_for(brief), n) for n in self._samples]
            for _, brief, *_ in self.briefs
        }
        answered = set(ledger.cached_answers([key for some in keys.values() for key in some])) if ledger else set()
        provider, _, model = self.plan.judge.partition(":")
        parts: defaultdict[str, float] = defaultdict(float)
        for case, brief, rubric, learn_from in self.briefs:
            calls = sum(key not in answered for key in keys[brief.digest])
            self.plan.answered += len(self._samples) - calls
            if self._measures:
                expected = TokenEstimate(0, 0, 0, 0, NOTHING_SENT)
            else:
                expected = estimate_tokens(provider, model, brief, self.sizing.detail, max_tokens=self._max_tokens)
            parts[case] += self._add(calls, expected)
            if calls:
                usual = self._find_usual_answer(ledger, rubric, learn_from, thinks=expected.thinks)
                self._add_expected(calls, expected, usual)
        for part in parts.values():
            self._spread.add(part)
        self.briefs.clear()

    def extrapolate(self, made: int, pending: int) -> None:
        """Extrapolate the sums over the cases that were gone through to all that are pending."""
        plan = self.plan
        plan.margin = self._spread.margin(made, pending)
        for name in _COUNT_FIELDS:
            if (count := getattr(plan, name)) is not None:
                setattr(plan, name, round(count * pending / made))
        for name in ("money_low", "money_high", "money_expected"):
            if (money := getattr(plan, name)) is not None:
                setattr(plan, name, money * pending / made)

    def finish(self) -> None:
        """Widen the range to the expected cost, and compute what all calls cost by batch, from their tokens."""
        plan = self.plan
        if plan.output_expected is not None:
            plan.output_low = min(plan.output_low, plan.output_expected)
            plan.output_high = max(plan.output_high, plan.output_expected)
        if plan.money_low is not None and plan.money_high is not None and plan.money_expected is not None:
            plan.money_low = min(plan.money_low, plan.money_expected)
            plan.money_high = max(plan.money_high, plan.money_expected)
        if self._batch_price is not None:
            expected = TokenEstimate(plan.text_tokens, plan.image_tokens, plan.output_low, plan.output_high, plan.rule)
            plan.batch_low, plan.batch_high = estimate_cost(expected, self._batch_price)
            if plan.output_expected is not None:
                plan.batch_expected = estimate_usual_cost(expected, plan.output_expected, 0, self._batch_price)
                plan.batch_low = min(plan.batch_low, plan.batch_expected)

    def _identity_for(self, brief: Brief) -> str:
        return digest_identity(identity_for_brief(self._measures, brief)) if self._measures else self._identity

    def _find_usual_answer(
        self, ledger: Ledger | None, rubric: Rubric, learn_from: str, *, thinks: bool
    ) -> _UsualAnswer | None:
        """Return what an answer by a rubric usually takes: by the ledger, else by its length; `None` if unknown."""
        if self._measures:
            return _UsualAnswer(0)
        if learn_from not in self._usage:
            counts = ledger.answer_usage(self._identity, learn_from, LEARNING_SIZE) if ledger else []
            self._usage[learn_from] = _summarize_usage(counts)
            self.plan.learned_from += len(counts)
        learned = self._usage[learn_from]
        return learned or (None if thinks else _UsualAnswer(typical_answer_tokens(rubric)))

    def _add_expected(self, calls: int, expected: TokenEstimate, usual: _UsualAnswer | None) -> None:
        plan = self.plan
        if usual is None or plan.output_expected is None:
            plan.output_expected = plan.money_expected = None
            return
        plan.output_expected += round(calls * usual.output_tokens)
        if self._price is not None and plan.money_expected is not None:
            plan.money_expected += calls * estimate_usual_cost(
                expected, usual.output_tokens, usual.cached_share, self._price
            )

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


def _sum_known(amounts: Sequence[Decimal | None]) -> Decimal | None:
    """Return the sum of the amounts; `None` if one is unknown."""
    known = [amount for amount in amounts if amount is not None]
    return sum(known, Decimal(0)) if len(known) == len(amounts) else None


def _to_float(amount: Decimal | None) -> float | None:
    return None if amount is None else float(amount)
