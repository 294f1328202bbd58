"""Which case a person is shown next.

Every order begins from the same shuffle, seeded by run and rater, so that closing the page changes nothing and no two
people go through the cases alike. What needs a look at verdicts looks at `LOOKED_AT` cases, the first of the shuffle:
far more than anybody rates, and quick however large the run is. The rest follows at random.
"""

from __future__ import annotations

import hashlib
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from beholder.errors import UsageError
from beholder.judges.audit import DISAGREE
from beholder.ledger import Ledger, reviews
from beholder.ledger.packing import plain_text
from beholder.verdicts.model import Verdict

LOOKED_AT = 1000


class Kind(StrEnum):
    """`random`: what estimates need. `uncertain`: where jurors differ, much was left open or there is no score.
    `audit`: what the pixels contradict. `quota`: as many cases of each value of a group."""

    RANDOM = "random"
    UNCERTAIN = "uncertain"
    AUDIT = "audit"
    QUOTA = "quota"


@dataclass(frozen=True, slots=True)
class Order:
    """`group` is for a quota; `each`, where it is above 0, how many cases of each value are enough."""

    kind: Kind = Kind.RANDOM
    group: str = ""
    each: int = 0


AT_RANDOM = Order()


def order_from(kind: str = "", group: str = "", each: int = 0) -> Order:
    """The order that a form or an address asks for. Raises `UsageError`."""
    if kind and kind not in tuple(Kind):
        raise UsageError(f"Cases come in one of the orders {', '.join(Kind)}, not {kind!r}.")
    chosen = Kind(kind) if kind else Kind.RANDOM
    if chosen is Kind.QUOTA and not group:
        raise UsageError("A quota is for a group of the cases; choose which.")
    if each < 0:
        raise UsageError(f"So many cases of each value are rated as you say: 0 (all) or more, not {each}.")
    return Order(chosen, group, each) if chosen is Kind.QUOTA else Order(chosen)


def ordered(ledger: Ledger, run: str, seed: str, order: Order) -> list[str]:
    """The ids of all cases of a run that have a verdict, in this order; of a quota with an end, only those in it."""
    shuffle = random.Random(hashlib.sha256(seed.encode("utf-8", "surrogatepass")).digest()).shuffle
    if order.kind is Kind.QUOTA:
        with ledger.reading() as connection:
            values = reviews.group_values(connection, ledger.number(connection, run), order.group)
        ids = list(values)
        shuffle(ids)
        return list(_in_turn(ids, values, order))
    ids = ledger.case_ids(run)
    shuffle(ids)
    if order.kind is Kind.RANDOM:
        return ids
    measure = uncertainty if order.kind is Kind.UNCERTAIN else _contradicted
    return _first(ledger, run, ids, measure)


def uncertainty(verdict: Verdict) -> float:
    """How little a verdict is to be relied on by what it says of itself, 0 to 1: the jurors' spread or disagreement,
    the share that was left open, the width of the calibrated interval; 1 where there is no score."""
    if verdict.score is None:
        return 1.0
    found = [0.0]
    if verdict.jury is not None:
        found.append(float(verdict.jury.spread.get("score", 0)))
        found += [
            float(verdict.jury.spread.get(key, 0)) / (one.scale[1] - one.scale[0])
            for key, one in verdict.criteria.items()
        ]
        if verdict.jury.agreement is not None:
            found.append(1 - verdict.jury.agreement)
    if verdict.coverage is not None:
        found.append(verdict.coverage.open / verdict.coverage.of)
    for one in verdict.calibrated.values():
        if one.low is not None and one.high is not None and one.scale[0] < one.scale[1]:
            found.append((one.high - one.low) / (one.scale[1] - one.scale[0]))
    return min(1.0, max(found))


def _contradicted(verdict: Verdict) -> float:
    return float(sum(flag.flag == DISAGREE for flag in verdict.flags))


def _first(ledger: Ledger, run: str, ids: Sequence[str], measure: Callable[[Verdict], float]) -> list[str]:
    """The ids with the highest measure first; the order of the shuffle among equals."""
    looked = ids[:LOOKED_AT]
    found: dict[str, float] = dict.fromkeys(looked, 0.0)
    for one in ledger.judged_on(run, looked):
        id_ = plain_text(one.verdict.case)
        found[id_] = max(found.get(id_, 0.0), measure(one.verdict))
    return [*sorted(looked, key=lambda id_: -found[id_]), *ids[LOOKED_AT:]]


def _in_turn(ids: Sequence[str], values: Mapping[str, str], order: Order) -> Iterator[str]:
    """One case of each value of the group after the other."""
    by_value: defaultdict[str, list[str]] = defaultdict(list)
    for id_ in ids:
        by_value[values[id_]].append(id_)
    if set(by_value) <= {""}:
        raise UsageError(f"No case of this run is in a group {order.group!r}.")
    listed = list(by_value.values())
    longest = max(map(len, listed))
    for turn in range(min(longest, order.each) if order.each else longest):
        yield from (one[turn] for one in listed if turn < len(one))
