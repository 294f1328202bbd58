"""What travels between the driver, the office and the workers."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from beholder.cases.case import Case
from beholder.errors import BeholderError, UsageError
from beholder.runs.engine import RunSettings
from beholder.runs.suite import Suite

CHUNK_COLUMN = "chunk"  # the column of Ray Data in which chunks travel


@dataclass(frozen=True, slots=True)
class CaseMessage:
    """A job, as it travels. `number` counts them over the run; `rubric` is the place of the composer in the work."""

    number: int
    position: int
    case: Case
    rubric: int


@dataclass(frozen=True, slots=True)
class TaskChunk:
    """Jobs that one worker gets together."""

    number: int
    jobs: tuple[CaseMessage, ...]


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """All that a worker needs to judge as the driver would; nothing in it is a secret. `folder` is where relative paths
    begin."""

    work: RunSettings
    suite: Suite
    folder: str


@dataclass(frozen=True, slots=True)
class WorkerShare:
    """What a worker may use from now on: so many cases at once, and a part of the limits per minute.

    `halted` means that no new case is begun, `cancelled` that those under way are given up as well. `version` changes
    with anything in it.
    """

    version: int
    slots: int
    part: float
    halted: bool = False
    cancelled: bool = False


class StartDecision(Enum):
    """What the office says to a worker that is about to begin a case."""

    GO = "go"
    ALONE = "alone"  # it was under way when its worker died: ask again when nothing else is under way in your process
    OVER = "over"  # its verdict is there already
    LOST = "lost"  # it was begun as often as may be, and never ended
    HALT = "halt"  # no new case is begun


def to_pickle(thing: object) -> bytes:
    return pickle.dumps(thing, protocol=5)


def make_picklable(case: Case) -> Case:
    """The case with mappings that can be pickled."""
    return replace(case, images=dict(case.images), fields=dict(case.fields), groups=dict(case.groups))


def pickle_error(error: BaseException) -> bytes:
    """An error for another process: itself where it can be pickled, else one that says the same."""
    try:
        body = to_pickle(error)
        pickle.loads(body)
    except Exception:
        kind = UsageError if isinstance(error, BeholderError) else RuntimeError
        body = to_pickle(kind(str(error) if isinstance(error, BeholderError) else f"{type(error).__name__}: {error}"))
    return body


Environment = Mapping[str, str]


MAX_ATTEMPTS = 3  # times that a case is begun: after that it has killed its worker often enough


# Cases under way beyond those that are asked: more than in a local engine, for the office is heard before and after.
WORKER_PREPARE_AHEAD = 0.5
