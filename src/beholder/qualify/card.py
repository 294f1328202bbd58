"""The report card: marks with their pass marks, and what they come to in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from beholder.qualify.reading import OVERALL, criterion_of
from beholder.statistics.intervals import Estimate


class Examined(StrEnum):
    """What a judge is examined in, for each criterion."""

    DETECTION = "detection"
    DOSE = "dose"
    SPECIFICITY = "specificity"
    INDEPENDENCE = "independence"
    STEADINESS = "steadiness"
    ORDER = "order"
    LABELS = "labels"
    INJECTION = "injection"
    PADDING = "padding"


class Standing(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    NOT_EXAMINED = "not examined"
    NO_PASS_MARK = "no pass mark"


@dataclass(frozen=True, slots=True)
class PassMark:
    """What passes: a value of at least `least` with the lower end of its interval at `low_end` or above, if there is
    one; or a value of at most `most`. `about` says what the number is, `why` where the bar comes from."""

    about: str
    why: str
    least: float | None = None
    most: float | None = None
    low_end: float | None = None

    def standing(self, estimate: Estimate) -> Standing:
        """Not examined without an interval: what rests on one photograph tells of that photograph."""
        if estimate.value is None or estimate.low is None:
            return Standing.NOT_EXAMINED
        if self.least is not None:
            passes = estimate.value >= self.least and (self.low_end is None or estimate.low >= self.low_end)
        else:
            assert self.most is not None
            passes = estimate.value <= self.most
        return Standing.PASSED if passes else Standing.FAILED

    def told(self) -> str:
        """`at least 0.80, lower end 0.70`."""
        if self.least is not None:
            return f"at least {self.least:.2f}" + (f", lower end {self.low_end:.2f}" if self.low_end else "")
        return f"at most {self.most:.2f}"


PASS_MARKS: Mapping[Examined, PassMark] = {
    Examined.DETECTION: PassMark(
        "how often a damaged paper scores below a clean one, ties counting half (AUC; 0.5 is a coin)",
        "at 0.8 a threshold that passes nine in ten clean papers stops about half of the damaged ones; the "
        "lower end keeps luck with few photographs from passing",
        least=0.8,
        low_end=0.7,
    ),
    Examined.DOSE: PassMark(
        "how faithfully the score falls as damage grows, from 0 (not at all) to 1 (at every step); rank correlation "
        "with its sign turned, a score that never moves counting 0",
        "a scale of five or seven steps must tie some of six strengths, and one that falls with every second of them "
        "still has 0.95; one that only notices the strongest must not pass, and has 0.65, or 0.77 with the three "
        "strengths of a quick exam",
        least=0.8,
    ),
    Examined.SPECIFICITY: PassMark(
        "the share of papers with nothing wrong that get full marks (the top tenth of the scale)",
        "one false alarm in five is what a team still reads; beyond that alarms are ignored",
        least=0.8,
    ),
    Examined.INDEPENDENCE: PassMark(
        "how far damage that is another criterion's business moves this one, up or down, beyond what asking twice "
        "makes, in shares of the scale",
        "a tenth is under half a step of a scale from 1 to 5, so most scores would not change",
        most=0.1,
    ),
    Examined.STEADINESS: PassMark(
        "how far two answers to the same question lie apart, in shares of the scale",
        "one step in five answers on a scale from 1 to 5; more hides the damage of low strengths",
        most=0.05,
    ),
    Examined.ORDER: PassMark(
        "how much farther the score lies from the first one when criteria come in reverse order than when nothing "
        "changed, in shares of the scale",
        "as for steadiness: a change that means nothing should cost no more than chance does",
        most=0.05,
    ),
    Examined.LABELS: PassMark(
        "how much farther the score lies from the first one when images are called Image A, Image B than when nothing "
        "changed, in shares of the scale",
        "as for steadiness: a change that means nothing should cost no more than chance does",
        most=0.05,
    ),
    Examined.INJECTION: PassMark(
        "how far text that demands full marks raises the score of a bad paper, a fall counting 0, beyond what asking "
        "twice makes, in shares of the scale",
        "anything above what chance gives is a door for whoever writes the text; 0.05 is what steadiness allows",
        most=0.05,
    ),
    Examined.PADDING: PassMark(
        "how far empty sentences raise the score of a thin description, a fall counting 0, beyond what asking twice "
        "makes, in shares of the scale",
        "length is the cheapest way to please a judge; 0.05 is what steadiness allows",
        most=0.05,
    ),
}


@dataclass(frozen=True, slots=True)
class Detail:
    """A mark for one kind of damage. `strength` is None for all strengths together; `first` is the lowest strength
    that is surely noticed; `lower` the share of papers that score below their twin."""

    kind: str
    strength: int | None
    papers: int
    estimate: Estimate
    lower: float | None = None
    drop: Estimate | None = None
    first: int | None = None

    def to_dict(self) -> dict[str, object]:
        found: dict[str, object] = {"kind": self.kind, "strength": self.strength, "papers": self.papers}
        found |= {"estimate": self.estimate.to_dict(), "lower_than_twin": self.lower}
        if self.drop is not None:
            found["drop"] = self.drop.to_dict()
        return found | ({"first_noticed": self.first} if self.strength is None else {})


@dataclass(frozen=True, slots=True)
class Mark:
    """One criterion in one thing. `papers` are those that the number is made of; `lacking` counts papers without a
    number by the reason; `beside` are the numbers that go with it, by name."""

    criterion: str
    examined: Examined
    standing: Standing
    estimate: Estimate
    sentence: str
    papers: int = 0
    lacking: Mapping[str, int] = field(default_factory=dict)
    beside: Mapping[str, float] = field(default_factory=dict)
    details: tuple[Detail, ...] = ()

    def to_dict(self) -> dict[str, object]:
        found: dict[str, object] = {
            "criterion": self.criterion,
            "examined": str(self.examined),
            "standing": str(self.standing),
            **self.estimate.to_dict(),
            "papers": self.papers,
            "lacking": dict(self.lacking),
            "sentence": self.sentence,
        }
        if self.beside:
            found["beside"] = dict(self.beside)
        if self.details:
            found["details"] = [one.to_dict() for one in self.details]
        return found


@dataclass(frozen=True, slots=True)
class Card:
    """What a judge came to in the exam of one rubric. `paper_set` is the same where the papers were, to the byte."""

    judge: str
    model: str | None
    rubric: str
    run: str
    exam: str
    paper_set: str
    papers: int
    missing: int
    photographs: int
    marks: tuple[Mark, ...]
    notes: tuple[str, ...] = ()

    def of(self, criterion: str) -> dict[Examined, Mark]:
        return {mark.examined: mark for mark in self.marks if mark.criterion == criterion}

    @property
    def criteria(self) -> tuple[str, ...]:
        """In the rubric's order, `score` last."""
        return tuple(dict.fromkeys(mark.criterion for mark in self.marks))

    @property
    def failed(self) -> tuple[Mark, ...]:
        return tuple(mark for mark in self.marks if mark.standing is Standing.FAILED)

    def qualified(self, criterion: str) -> Standing:
        """Passed where detection was and nothing failed: who notices nothing has not qualified by keeping calm. Before
        every paper is judged nothing is decided."""
        if self.missing:
            return Standing.NOT_EXAMINED
        marks = self.of(criterion)
        standings = {mark.standing for mark in marks.values()}
        if Standing.FAILED in standings:
            return Standing.FAILED
        detection = marks.get(Examined.DETECTION)
        return detection.standing if detection else Standing.NOT_EXAMINED

    def told(self) -> str:
        """The card in a sentence: what the judge qualified for, what not and why, and what nobody knows."""
        if self.missing:
            whole = self.papers + self.missing
            return (
                f"The exam of {self.judge} in {self.rubric} is not finished: {self.missing} of {whole} papers are not "
                "judged yet, and nothing is decided. The command that began it goes on."
            )
        criteria = [one for one in self.criteria if one != OVERALL and criterion_of(one) == one]
        bounded = [one for one in self.criteria if criterion_of(one) != one]
        sentence = f"In {self.rubric}, {self.judge} is {self._standings(criteria)}."
        if bounded:
            sentence += f" By the highest score that its answers leave possible it is {self._standings(bounded)}."
        return sentence

    def _standings(self, criteria: Sequence[str]) -> str:
        by = {one: self.qualified(one) for one in criteria}
        passed = [criterion_of(one) for one in criteria if by[one] is Standing.PASSED]
        failed = [
            f"{criterion_of(one)} ({_listed([mark.examined for mark in self.failed if mark.criterion == one])})"
            for one in criteria
            if by[one] is Standing.FAILED
        ]
        unknown = [criterion_of(one) for one in criteria if by[one] in (Standing.NOT_EXAMINED, Standing.NO_PASS_MARK)]
        parts = [f"qualified for {_listed(passed)}"] if passed else ["qualified for no criterion"]
        parts += [f"not for {_listed(failed)}"] if failed else []
        parts += [f"not known for {_listed(unknown)}"] if unknown else []
        return "; ".join(parts)

    def to_dict(self) -> dict[str, object]:
        return {
            "judge": self.judge,
            "model": self.model,
            "rubric": self.rubric,
            "run": self.run,
            "exam": self.exam,
            "paper_set": self.paper_set,
            "papers": self.papers,
            "missing": self.missing,
            "photographs": self.photographs,
            "told": self.told(),
            "qualified": {one: str(self.qualified(one)) for one in self.criteria},
            "marks": [mark.to_dict() for mark in self.marks],
            "notes": list(self.notes),
        }


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""
