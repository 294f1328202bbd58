"""The values that go into a ledger and come out of it; importing this module loads no database library."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

import msgspec

from beholder.cases.case import Case
from beholder.errors import UsageError
from beholder.rubrics.rubric import Rubric, RubricKind
from beholder.verdicts.answer import Transcript
from beholder.verdicts.verdict import Flag, Verdict

RUNNING, INTERRUPTED, WAITING, FINISHED = STATES = ("running", "interrupted", "waiting", "finished")
REVIEW_PREFIX = "review:"  # of the fingerprint of a review: a run whose judge is a person, about another run


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One execution of a suite. It holds no secrets.

    Attributes:
        total: How many verdicts there are to give (cases × rubrics).
        created: UTC, for display only: the order of runs is that in which they were started, whatever the clock said.
        updated: When the run or its verdicts last changed, in UTC.
        spent_usd: The known part of what was spent; `None` if nothing is known. `Ledger.write` adds to it.
        skipped: How many cases were invalid and left out.
        unpriced: How many verdicts cost an unknown amount. `Ledger.write` adds to it.
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

    @property
    def is_preference(self) -> bool:
        """Whether the run asks which of two candidates is better."""
        return any(rubric.get("kind") == RubricKind.PREFERENCE for rubric in self.rubrics)

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
    """How far a run is: how many verdicts it has, how many of them have a score, and the mean score (0–1).

    `not_asked` counts the verdicts that are `over_budget`: nobody was asked, and the next start asks.
    """

    done: int = 0
    scored: int = 0
    mean_score: float | None = None
    not_asked: int = 0

    @property
    def asked(self) -> int:
        """How many verdicts there are of cases that somebody was asked about."""
        return self.done - self.not_asked


@dataclass(frozen=True, slots=True)
class AnswerKey:
    """The key of the answer cache: the brief, the judge with its parameters, the sample number."""

    brief_digest: str
    judge: str
    sample: int


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """A valid answer, as the cache keeps it. `flags` are those that cannot be found again from its text."""

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
    """One verdict to write.

    Attributes:
        position: The position of the case in the run.
        case: The case.
        verdict: The verdict.
        answers: The new answers behind it.
        thumbnails: New thumbnails: digest of the image file, and JPEG.
        reused: Whether all answers came from the cache.
        spent_usd: What this run paid for it; `None` is an unknown amount, or nothing if it was `reused`.
        used: Keys of answers from the cache. A jury's verdict needs them, so that its answers are kept as long as it
            is; a single judge's verdict that carries its answer does not.
        transcripts: Conversations of more than one turn, and of jurors without a valid answer.
        failure: Why there is no score although judges have answered: another one can never answer, or the ledger
            failed. Not stored; it ends the run after this entry was written.
    """

    position: int
    case: Case
    verdict: Verdict
    answers: tuple[StoredAnswer, ...] = ()
    thumbnails: tuple[tuple[str, bytes], ...] = ()
    reused: bool = False
    spent_usd: Decimal | None = None
    used: tuple[AnswerKey, ...] = ()
    transcripts: tuple[Transcript, ...] = ()
    failure: Exception | None = None


@dataclass(frozen=True, slots=True)
class StoredVerdict:
    """A verdict as it is read back, with the groups of its case; `reused` if its answers came from the cache."""

    position: int
    verdict: Verdict
    groups: Mapping[str, str]
    reused: bool


@dataclass(frozen=True, slots=True)
class Comment:
    """What somebody wrote about a case. `id` is unique in its run; `author` may be empty; `created` is in UTC."""

    id: str
    case: str
    author: str
    text: str
    created: datetime


SORT_ORDERS = ("worst", "best", "order", "case", "bound", "no")


@dataclass(frozen=True, slots=True)
class VerdictFilter:
    """Which verdicts of a run, and in which order. Conditions that are empty or `None` do not count.

    Attributes:
        outcome: An outcome.
        criterion: The criterion whose score `least`, `most` and `sort` are about, on its own scale; empty for the score
            of the verdict (0–1).
        assertion: The id of an assertion that failed.
        winner: Of a preference: `first`, `second`, `tie` or `both_bad`. Flips have the flag `order_flip`.
        groups: The case has each of these groups with this value, or with any if the value is empty.
        starred: Only cases with a star; `commented`: only those with a comment.
        text: Part of the case's id or of a value of its groups; or words that all begin words of its texts, as far as
            those are indexed (`Ledger.index_texts`).
        sort: One of `SORT_ORDERS`: worst, best, in the order of the run, by the id of the case, by the highest score
            that is possible, or by the number of failed assertions.
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
    winner: str = ""
    starred: bool = False
    commented: bool = False
    groups: Mapping[str, str] = field(default_factory=dict)
    text: str = ""
    sort: str = "worst"


@dataclass(frozen=True, slots=True)
class VerdictPage:
    """A page of verdicts, and how many pass the filter in all."""

    total: int
    verdicts: tuple[StoredVerdict, ...]


@dataclass(frozen=True, slots=True)
class FilterValues:
    """The values by which the verdicts of a run can be filtered. `failed` are ids of assertions, A2 before A10;
    `winners` are those of preferences; `groups` has the values of each group that has at least two, and not too many to
    choose from."""

    rubrics: frozenset[str]
    failed: tuple[str, ...]
    flags: tuple[str, ...]
    styles: tuple[str, ...]
    groups: Mapping[str, tuple[str, ...]]
    winners: tuple[str, ...] = ()


@dataclass(slots=True)
class RunCounts:
    """How many verdicts of a run have which result. `states` are outcomes."""

    verdicts: int = 0
    states: Counter[str] = field(default_factory=Counter)
    grades: Counter[str] = field(default_factory=Counter)
    passed: int = 0
    failed: int = 0
    mean: float | None = None


VerdictKey = tuple[str, str]  # the id of a case, the name of a rubric


@dataclass(frozen=True, slots=True)
class WriteToken:
    """Idempotency token of a write: the worker and the name of its batch. A batch that is written again, because it was
    unclear whether the first attempt had succeeded, counts once. `released_usd` is what the worker gives back of its
    allowance. `leased` is false where a process works on the run alone, and leases no cases."""

    holder: str
    batch: str
    released_usd: Decimal = Decimal(0)
    leased: bool = True


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """The result of claiming cases: leased by this worker (`mine`), by another one (`held`); the rest is done."""

    mine: frozenset[VerdictKey]
    held: frozenset[VerdictKey]


@dataclass(frozen=True, slots=True)
class HeartbeatReply:
    """The reply to a heartbeat.

    Attributes:
        part: The share (0 to 1) of the run's rate limits that the worker may use from now on: an equal one, as far as
            the other workers have released theirs already.
        late: The heartbeat came after the leases had expired; others may have taken over the cases.
        new: The worker was not registered: it has no leases and no allowance.
    """

    part: float
    late: bool
    new: bool


# States of a batch job: stored and perhaps submitted; submitted; all results are stored, some without a verdict yet;
# all of them are in verdicts.
JOB_BEGUN, JOB_OPEN, JOB_FETCHED, JOB_CLOSED = JOB_STATES = ("begun", "open", "fetched", "closed")


@dataclass(frozen=True, slots=True)
class BatchJob:
    """A batch job at a provider.

    Attributes:
        judge: The identity of the judge.
        state: One of the four states above.
        handle: What the provider's batch API needs to find the job; empty until it is submitted.
        reserved_usd: What the job may cost at most, or, once it is fetched, what it did cost.
        created: When it was stored, in UTC.
        first: The key of its first request; `Ledger.batch_job_keys` has all.
        count: How many requests it has.
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
        """A label by which the job is recognized in the provider's list: no other pending job has the same first
        request, and none was created at the same moment."""
        return f"beholder-{self.first.hex()}-{self.created:%y%m%d%H%M%S%f}"
