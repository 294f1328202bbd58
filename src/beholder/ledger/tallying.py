"""What a run came to. Kept small however many verdicts there are; sums are exact, so that a mean of 0.8 is 0.8."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from beholder.ledger.packing import Gist
from beholder.ledger.reading import Counted, Judged
from beholder.verdicts.model import Verdict

_decimal = lru_cache(4096)(lambda value: Decimal(repr(value)))  # most scores occur often


@dataclass(slots=True)
class Mean:
    """A mean that grows. `exact` is for thresholds, `value` for show; `None` where there is nothing to average."""

    total: Decimal = Decimal(0)
    count: int = 0

    def add(self, value: float | None) -> None:
        if value is not None:
            self.total += _decimal(value)
            self.count += 1

    @property
    def exact(self) -> Fraction | None:
        return Fraction(self.total) / self.count if self.count else None

    @property
    def value(self) -> float | None:
        exact = self.exact
        return None if exact is None else float(exact)


@dataclass(slots=True)
class RubricTally:
    """What one rubric's verdicts came to; criteria on their own scales, calibrated aspects on people's."""

    outcomes: Counter[str] = field(default_factory=Counter)
    score: Mean = field(default_factory=Mean)
    criteria: dict[str, Mean] = field(default_factory=dict)
    calibrated: dict[str, Mean] = field(default_factory=dict)
    grades: Counter[str] = field(default_factory=Counter)
    passed: Counter[bool] = field(default_factory=Counter)

    def add(self, verdict: Gist | Verdict) -> None:
        self.outcomes[str(verdict.outcome)] += 1
        self.score.add(verdict.score)
        for key, result in verdict.criteria.items():
            _mean(self.criteria, key).add(result.score)
        for key, people in verdict.calibrated.items():
            _mean(self.calibrated, key).add(people.value)
        if verdict.grade is not None:
            self.grades[verdict.grade] += 1
        if verdict.passed is not None:
            self.passed[verdict.passed] += 1


@dataclass(slots=True)
class Tally:
    """What verdicts came to. Only scored ones are in a mean. `cost_usd` is what all answers cost, whoever paid for them
    and when, as far as it is known; `unpriced` counts those of unknown cost."""

    verdicts: int = 0
    reused: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    score: Mean = field(default_factory=Mean)
    rubrics: dict[str, RubricTally] = field(default_factory=dict)
    judges: Counter[str] = field(default_factory=Counter)
    models: Counter[str] = field(default_factory=Counter)
    flags: Counter[str] = field(default_factory=Counter)
    usage: Counter[str] = field(default_factory=Counter)
    cost_usd: Decimal = Decimal(0)
    unpriced: int = 0

    def add(self, one: Judged | Counted) -> None:
        verdict = one.verdict
        self.verdicts += 1
        self.reused += one.reused
        self.outcomes[str(verdict.outcome)] += 1
        self.score.add(verdict.score)
        if verdict.rubric not in self.rubrics:
            self.rubrics[verdict.rubric] = RubricTally()
        self.rubrics[verdict.rubric].add(verdict)
        self.judges[verdict.judge] += 1
        for model in {verdict.model} if verdict.jury is None else {juror.model for juror in verdict.jury.jurors}:
            if model:
                self.models[model] += 1
        for flag in {flag.flag for flag in verdict.flags}:
            self.flags[flag] += 1
        for name, count in verdict.usage.items():
            if count:
                self.usage[name] += count
        if verdict.cost_usd is not None:
            self.cost_usd += verdict.cost_usd
        elif verdict.attempts:
            self.unpriced += 1

    @property
    def unscored(self) -> int:
        """How many have no score: they failed, or too little of them could be measured."""
        return self.verdicts - self.score.count

    def to_dict(self) -> dict[str, object]:
        """JSON values, the words of a verdict for the same things."""
        return {
            "verdicts": self.verdicts,
            "reused": self.reused,
            "outcomes": dict(self.outcomes.most_common()),
            "score": self.score.value,
            "rubrics": {
                name: {
                    "outcomes": dict(one.outcomes.most_common()),
                    "score": one.score.value,
                    "criteria": {
                        key: {"score": mean.value, "scored": mean.count} for key, mean in one.criteria.items()
                    },
                    **(
                        {
                            "calibrated": {
                                key: {"mean": mean.value, "cases": mean.count} for key, mean in one.calibrated.items()
                            }
                        }
                        if one.calibrated
                        else {}
                    ),
                    "grades": dict(sorted(one.grades.items())),
                    "passed": one.passed[True],
                    "failed": one.passed[False],
                }
                for name, one in self.rubrics.items()
            },
            "judges": dict(self.judges.most_common()),
            "models": dict(self.models.most_common()),
            "flags": dict(self.flags.most_common()),
            "usage": dict(self.usage),
            "cost_usd": None if self.unpriced and not self.cost_usd else float(self.cost_usd),
            "unpriced": self.unpriced,
        }


def _mean(means: dict[str, Mean], key: str) -> Mean:
    if key not in means:
        means[key] = Mean()
    return means[key]


def tally(verdicts: Iterable[Judged | Counted]) -> Tally:
    whole = Tally()
    for one in verdicts:
        whole.add(one)
    return whole


def tallies(verdicts: Iterable[Judged], group: str) -> dict[str, Tally]:
    """By the value of a group; cases that are not in that group are under the empty text."""
    found: dict[str, Tally] = {}
    for one in verdicts:
        found.setdefault(one.groups.get(group, ""), Tally()).add(one)
    return found
