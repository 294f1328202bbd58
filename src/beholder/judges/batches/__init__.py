"""Batch APIs: many requests handed in as one job, answered within a day, at half the price.

Each module here knows one provider's calls. What a job holds is what the live wire would send (`ModelJudge.request`),
byte for byte, and a reply is read as the live one is (`ModelJudge.read`): the same brief, the same key of the cache,
the same checks.

Why not pydantic-ai's `Model.batch_*` (2.66)? For OpenAI they speak only the Responses API, they encode from its own
message model (so that body and cache key of a batch would not be those of a live request), they hold a whole job and
all its results in memory (`b"\\n".join(…)`, `list[BatchResult]`: 200 MB of pictures several times over), and they leave
nothing at the provider by which a job can be found again after a crash between handing it in and writing it down.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from beholder.judges.stages import Stage
from beholder.judges.wires.faults import Again

if TYPE_CHECKING:
    from beholder.judges.batches.desk import Desk

# A job of ours is never larger, whatever a provider allows: it lies on the disk until it is handed in.
MOST_BYTES = 200_000_000

UNSURE = "unsure"  # in the handle of a job that was found again by nothing but its size and its time

Handle = Mapping[str, str]
"""By which a provider finds a job again; can be kept as JSON."""


class State(StrEnum):
    IN_PROGRESS = "in_progress"
    CANCELING = "canceling"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Look:
    """How far a job is. Of so many requests as are `answered` or `failed` an ended job has a result; `rest` became of
    the others; `why` says why, where the provider did, and `full` that it had no room for the job: handing it in again
    later will help."""

    state: State
    answered: int = 0
    failed: int = 0
    rest: Stage = Stage.EXPIRED
    why: str = ""
    full: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """What became of the request of that key; `body` is the provider's reply or error, as it would have come live. A
    result that nobody can read is an error, and has no key where even that cannot be read."""

    key: str
    ending: Stage
    status: int = 200
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Lost:
    """What is known of a job that may or may not have been handed in: the note it would carry, when it was begun, how
    many requests it has, and the ids of jobs that it surely is not."""

    note: str
    since: datetime
    count: int
    others: Collection[str] = ()


class Short(Again):
    """Results came to an end, and some are missing."""


class Forgotten(Exception):
    """The provider does not know the job, or has its results no more. Never leaves `judges` and `runs`."""


@dataclass(frozen=True, slots=True)
class Batches:
    """A provider's batch API. A job is a file: `opening`, requests with `between` between them, `closing`; `frame` is
    what stands before and after the body of a request.

    `submit` hands a file in, under a note. It raises `Again` (and not `busy`) where nobody can tell whether the job was
    taken; then `find` can. `results` come in any order; when they break off, those before were whole, and `Again` is
    raised. All but `submit` raise `Forgotten`. `tidy` is for a job that is done with: what was uploaded for it is
    deleted.
    """

    name: str
    most_requests: int
    frame: Callable[[str], tuple[bytes, bytes]]
    submit: Callable[[Desk, Path, str], Awaitable[Handle]]
    find: Callable[[Desk, Lost], Awaitable[Handle | None]]
    look: Callable[[Desk, Handle], Awaitable[Look]]
    results: Callable[[Desk, Handle], AsyncIterator[Result]]
    cancel: Callable[[Desk, Handle], Awaitable[None]]
    tidy: Callable[[Desk, Handle], Awaitable[None]]
    opening: bytes = b""
    between: bytes = b"\n"
    closing: bytes = b"\n"


def named(made: Mapping[str, object], key: str) -> Handle:
    """The handle of a job that was made just now."""
    id_ = made.get(key)
    if not isinstance(id_, str) or not id_:
        raise Again("A job was taken, and its reply says not under which name.")
    return {"id": id_}


def batches_of(wire: str) -> Batches | None:
    """The batch API that goes with a wire; `None` where there is none."""
    from beholder.judges.batches import anthropic, google, openai

    return {one.name: one for one in (openai.batches, anthropic.batches, google.batches)}.get(wire)
