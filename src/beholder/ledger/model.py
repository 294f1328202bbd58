"""What goes into a ledger and comes out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from beholder.cases import Case
from beholder.verdicts.model import Flag, Verdict

RUNNING, INTERRUPTED, WAITING, FINISHED = STATES = ("running", "interrupted", "waiting", "finished")
REVIEW = "review:"  # how the fingerprint of a review begins: a run whose judge is a person, about another run


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One execution of a suite. `total` counts verdicts to give (cases × rubrics); nothing in it is a secret.

    `created` and `updated` are UTC, for show: runs are in the order in which they were started, whatever the clock
    said. `spent_usd` is the sum of what is known, `None` where nothing is; `unpriced` counts the verdicts on which an
    unknown amount was spent. `Ledger.write` adds to both.
    """

    id: str
    name: str
    fingerprint: str
    state: str
    created: datetime
    updated: datetime
    total: int
    suite: Mapping[str, object] = field(default_factory=dict)
    rubrics: tuple[Mapping[str, object], ...] = ()
    prompt: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    spent_usd: Decimal | None = None
    skipped: int = 0
    unpriced: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is: verdicts that are there, how many have a score, and their mean (0–1)."""

    done: int = 0
    scored: int = 0
    mean_score: float | None = None


@dataclass(frozen=True, slots=True)
class AnswerKey:
    """What makes an answer the same: the brief, the judge with its parameters, the sample number."""

    brief_digest: str
    judge: str
    sample: int


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """A scored answer that was paid for. `flags` are those about how it came, which its text does not tell again."""

    key: AnswerKey
    text: str
    model: str | None
    usage: Mapping[str, int | None]
    cost_usd: Decimal | None
    latency_s: float | None
    attempts: int
    flags: tuple[Flag, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """One verdict to write, the new answers behind it, and thumbnails (source digest, WebP) that are new.

    `reused` says that nobody was asked; `used` are the keys of answers that came from the ledger. A verdict of one
    judge that carries its answer needs no `used`; a jury's does, so that its answers stay as long as it does.
    `spent_usd` is what this run paid for it; `None` is an unknown amount (and nothing, when `reused`).
    """

    position: int
    case: Case
    verdict: Verdict
    answers: tuple[StoredAnswer, ...] = ()
    thumbnails: tuple[tuple[str, bytes], ...] = ()
    reused: bool = False
    spent_usd: Decimal | None = None
    used: tuple[AnswerKey, ...] = ()
