"""What a run does, and who looks on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from beholder.cases import Case
from beholder.judges.protocol import Judge
from beholder.ledger.model import Entry
from beholder.rubrics.composing import Composer
from beholder.runs.judging import Judged
from beholder.runs.sharing import LEASE_S
from beholder.verdicts.model import Outcome

if TYPE_CHECKING:
    from beholder.verdicts.calibrating import Calibration

FINAL = frozenset({Outcome.SCORED, Outcome.REFUSED, Outcome.FILTERED})

Cases = Callable[[], Iterable[Case]]  # in the same order each time


@dataclass(frozen=True, slots=True)
class Work:
    """What a run does. `retry` are final outcomes that are tried again; `recall` allows answers from the ledger."""

    run_id: str
    composers: tuple[Composer, ...]
    judges: tuple[Judge, ...]
    samples: int = 1
    concurrency: int = 32
    timeout_s: float | None = None
    retry: frozenset[Outcome] = frozenset()
    recall: bool = True
    thumbnails: bool = True
    audit: bool = True
    calibration: Calibration | None = None
    lease_s: float = LEASE_S

    @property
    def final(self) -> frozenset[Outcome]:
        """The outcomes after which a case is done."""
        return FINAL - self.retry


class Watch(Protocol):
    """Who looks on. `skipped` were done before, or by others; `waiting` have no answer yet; `done` are verdicts that
    are safely in the ledger."""

    def skipped(self, count: int) -> None: ...

    def waiting(self, count: int) -> None: ...

    def done(self, entries: Sequence[Entry]) -> None: ...


def entry_of(position: int, case: Case, judged: Judged, thumbnails: tuple[tuple[str, bytes], ...]) -> Entry:
    """A judged case as the ledger takes it."""
    return Entry(
        position=position,
        case=case,
        verdict=judged.verdict,
        answers=judged.answers,
        thumbnails=thumbnails,
        reused=not judged.asked and judged.verdict.scored,
        spent_usd=judged.spent_usd,
        used=judged.used,
    )
