"""What a judge made of the demo: which of the bad ones it caught and why, which it missed, and where it cried wolf.

A verdict finds fault with a case when
- `restyle`: its percentage is below `LEAST_PERCENTAGE`; where it has none (the offline judge leaves most assertions
  open), when an assertion that was answered is answered No;
- `edit-preservation`: one of the three factors is `FAULTY_FACTOR` or less, the middle of the scale of 7;
- `description`: it did not pass; where some of it was left open and there is no score, when it cannot pass.
A verdict that answers nothing at all has no opinion, which is not a catch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from beholder.demo.model import BAD
from beholder.judges.audit import DISAGREE
from beholder.ledger.reading import Judged
from beholder.verdicts.model import CriterionResult, Verdict, counted, rounded

LEAST_PERCENTAGE = 60  # grade C
FAULTY_FACTOR = 4
PASSES = 0.7  # the rubric's own threshold
REASONS = 2  # that are told of one case
LISTED = 4  # of what is missing in a description

CAUGHT, MISSED, FINE, FALSE_ALARM, NO_OPINION = "caught", "missed", "fine", "false alarm", "no opinion"

RULES = {
    "restyle": f"Found bad: below {LEAST_PERCENTAGE} %, or where there is no total, an answered assertion is No.",
    "edit-preservation": f"Found bad: unchanged regions · global consistency · identity: any {FAULTY_FACTOR} or less.",
    "description": f"Found bad: it did not pass: below {PASSES}, or with something in it that is not there.",
}


@dataclass(frozen=True, slots=True)
class Told:
    """One case: what is wrong with it (empty: nothing), what became of it, what was said in numbers, and why."""

    case: str
    flaw: str
    mark: str
    said: str
    why: str


def told(judged: Judged) -> Told:
    """A verdict on a case of the demo, in words. Its groups `expected` and `flaw` say what is known."""
    verdict, groups = judged.verdict, judged.groups
    fault, said, why = _opinion(verdict)
    if contradicted := sum(flag.flag == DISAGREE for flag in verdict.flags):
        said += f", the pixels disagree ({contradicted})"
    bad = groups.get("expected") == BAD
    mark = NO_OPINION if fault is None else (CAUGHT if bad else FALSE_ALARM) if fault else (MISSED if bad else FINE)
    return Told(verdict.case, groups.get("flaw", "") if bad else "", mark, said, why)


def count(all_told: Iterable[Told]) -> str:
    """How many were caught and how many were not: nothing is left out."""
    marks: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    for one in all_told:
        marks[bool(one.flaw)][one.mark] += 1
    bad, good = marks[True], marks[False]
    sentences = (
        [f"{bad[CAUGHT]} of {bad.total()} bad ones caught", f"{bad[MISSED]} missed", *_open(bad)],
        [f"{good[FINE]} of {good.total()} good ones found fine", counted(good[FALSE_ALARM], FALSE_ALARM), *_open(good)],
    )
    return "; ".join(", ".join(parts) for parts in sentences)


def _open(marks: Mapping[str, int]) -> list[str]:
    return [f"{marks[NO_OPINION]} without an opinion"] if marks[NO_OPINION] else []


def _opinion(verdict: Verdict) -> tuple[bool | None, str, str]:
    """Whether a verdict finds fault (`None`: it has no opinion), its numbers, and its reason."""
    if not verdict.scored:
        return None, str(verdict.outcome), verdict.detail
    if verdict.rubric == "edit-preservation":
        return _factors(verdict)
    if any(result.assertions for result in verdict.criteria.values()):
        return _assertions(verdict)
    return _description(verdict)


def _assertions(verdict: Verdict) -> tuple[bool | None, str, str]:
    answered = [one for result in verdict.criteria.values() for one in result.assertions if one.answer in ("yes", "no")]
    failed = [one for one in answered if one.answer == "no"]
    said = f"{len(failed)} No of {len(answered)}"
    if verdict.percentage is not None:
        fault: bool | None = verdict.percentage < LEAST_PERCENTAGE
        said = f"{rounded(verdict.percentage, 0):.0f} %, {said}"
    else:
        fault = bool(failed) if answered else None
    reasons = dict.fromkeys(one.evidence or one.question for one in failed)
    return fault, said, _several(list(reasons))


def _factors(verdict: Verdict) -> tuple[bool | None, str, str]:
    scores = {key: result for key, result in verdict.criteria.items() if result.score is not None}
    said = " · ".join(_score(result) for result in verdict.criteria.values())
    if not scores:
        return None, said, _several(list(dict.fromkeys(one.reason for one in verdict.criteria.values() if one.reason)))
    worst = min(scores.values(), key=lambda result: result.score if result.score is not None else 0)
    fault = worst.score is not None and worst.score <= FAULTY_FACTOR
    return fault, said, worst.reason if fault else ""


def _description(verdict: Verdict) -> tuple[bool | None, str, str]:
    if verdict.score is not None:
        fault: bool | None = verdict.passed is False
        said = f"{rounded(verdict.score):.2f} {'passed' if verdict.passed else 'failed'}"
    else:
        best = _best(verdict)
        fault = True if best < PASSES else None
        said = f"at best {best:.2f}"
    return fault, said, "" if fault is False else _found(verdict)


def _found(verdict: Verdict) -> str:
    """What was said and is not there; else what is there and was not said; else the reason of the lowest score."""
    invented, missing = (verdict.findings.get(key, ()) for key in ("hallucinations", "missing_elements"))
    if invented:
        return _several(list(invented))
    if missing:
        more = f" and {len(missing) - LISTED} more" if len(missing) > LISTED else ""
        return f"missing: {', '.join(missing[:LISTED])}{more}"
    scored = [result for result in verdict.criteria.values() if result.score is not None]
    return min(scored, key=lambda result: result.score or 0).reason if scored else verdict.assessment


def _best(verdict: Verdict) -> float:
    """The score if everything that was left open were perfect."""
    results = verdict.criteria.values()
    reached = sum(result.weight * (result.scale[1] if result.score is None else result.score) for result in results)
    return reached / sum(result.weight for result in results)


def _score(result: CriterionResult) -> str:
    return "–" if result.score is None else f"{rounded(result.score):g}"


def _several(reasons: list[str]) -> str:
    """The first reasons, and how many more there are."""
    more = f" (+ {counted(len(reasons) - REASONS, 'more reason')})" if len(reasons) > REASONS else ""
    return " · ".join(reasons[:REASONS]) + more
