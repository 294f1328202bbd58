"""What goes into a ledger and comes out of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

import msgspec

from beholder.cases.case import Case
from beholder.errors import UsageError
from beholder.rubrics.rubric import Rubric
from beholder.verdicts.verdict import Flag, Verdict

RUNNING, INTERRUPTED, WAITING, FINISHED = STATES = ("running", "interrupted", "waiting", "finished")
REVIEW_PREFIX = "review:"  # how the fingerprint of a review begins: a run whose judge is a person, about another run


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

    @property
    def is_review(self) -> bool:
        """Whether the run is a person's review of another run."""
        return self.fingerprint.startswith(REVIEW_PREFIX)

    def load_rubrics(self) -> dict[str, Rubric]:
        """Return the rubrics of the run by name, as they were then; without style and setting.

        Raises:
            UsageError: A rubric is of a version that can no longer be read.
        """
        try:
            rubrics = [msgspec.convert(rubric, Rubric) for rubric in self.rubrics]
        except msgspec.ValidationError as error:
            raise UsageError(f"The rubric of the run {self.id} cannot be read from the ledger: {error}.") from None
        return {rubric.name: rubric for rubric in rubrics}


@dataclass(frozen=True, slots=True)
class RunProgress:
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


@dataclass(frozen=True, slots=True)
class StoredVerdict:
    """A verdict as the ledger has it, with the groups of its case. `reused`: nobody was asked for it in this run."""

    position: int
    verdict: Verdict
    groups: Mapping[str, str]
    reused: bool


LEFT_OPEN = "left_open"  # scored, but too little of it was answered for a score
SORT_ORDERS = ("worst", "best", "order", "case")


@dataclass(frozen=True, slots=True)
class VerdictFilter:
    """Which verdicts of a run, and in which order. What is empty or `None` does not matter.

    `outcome` may be `left_open`; `scored` then means those with a score. `least` and `most` bound the score of
    `criterion` on its own scale, or the verdict's own (0–1) where no criterion is named. The case has each of `groups`
    with this value, or any where it is empty. `text` is in the case's id, or in a value of its groups.
    """

    outcome: str = ""
    grade: str = ""
    passed: bool | None = None
    rubric: str = ""
    criterion: str = ""
    least: float | None = None
    most: float | None = None
    assertion: str = ""
    flag: str = ""
    style: str = ""
    groups: Mapping[str, str] = field(default_factory=dict)
    text: str = ""
    sort: str = "worst"


@dataclass(frozen=True, slots=True)
class VerdictPage:
    """A page of verdicts, and how many there are in all."""

    total: int
    verdicts: tuple[StoredVerdict, ...]


@dataclass(frozen=True, slots=True)
class FilterValues:
    """The values by which the verdicts of a run can be filtered. `failed` are ids of assertions, A2 before A10; `groups`
    has the values of each group that has at least two, and not too many to choose from."""

    rubrics: frozenset[str]
    failed: tuple[str, ...]
    flags: tuple[str, ...]
    styles: tuple[str, ...]
    groups: Mapping[str, tuple[str, ...]]


@dataclass(slots=True)
class RunCounts:
    """How many verdicts of a run came to what. `states` are outcomes, with `left_open` apart from `scored`."""

    verdicts: int = 0
    states: Counter[str] = field(default_factory=Counter)
    grades: Counter[str] = field(default_factory=Counter)
    passed: int = 0
    failed: int = 0
    mean: float | None = None


VerdictKey = tuple[str, str]  # the id of a case, the name of a rubric


@dataclass(frozen=True, slots=True)
class WriteToken:
    """Who writes, and the name of the batch: one that is written twice, because nobody could say whether the first
    time had succeeded, counts once."""

    holder: str
    batch: str


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """What became of a wish to judge some cases: `mine` from now on, `held` by another worker, and the rest is done."""

    mine: frozenset[VerdictKey]
    held: frozenset[VerdictKey]


@dataclass(frozen=True, slots=True)
class HeartbeatReply:
    """What a worker hears when it says that it lives. `part` (0 to 1) of the run's limits per minute is its to use from
    now on: an equal share, as far as the others have made room for it already. If it was `late`, others may have taken
    over what it leased; if it is `new`, nothing is leased by it or set aside for it, whatever it thought."""

    part: float
    late: bool
    new: bool


# States of a batch job: stored and perhaps submitted; submitted; all results are stored, some without a verdict yet; all
# of them are in verdicts.
JOB_BEGUN, JOB_OPEN, JOB_FETCHED, JOB_CLOSED = "begun", "open", "fetched", "closed"


@dataclass(frozen=True, slots=True)
class BatchJob:
    """A job of `count` requests. `judge` is the identity of the judge it is for; `first` is the key of its first
    request (`keys` has them all); `reserved_usd` is what it may cost at most, and once it is fetched what it did cost.
    """

    judge: str
    state: str
    handle: Mapping[str, str]
    reserved_usd: Decimal
    created: datetime
    first: bytes
    count: int

    @property
    def pending(self) -> bool:
        """Whether its results have not been fetched yet."""
        return self.state in (JOB_BEGUN, JOB_OPEN)

    @property
    def note(self) -> str:
        """By which the provider's list of jobs tells it from others: of its first request, which no other job has at
        the same time, and of when it was begun."""
        return f"beholder-{self.first.hex()}-{self.created:%y%m%d%H%M%S%f}"
