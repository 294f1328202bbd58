"""What is sent between the driver, the coordinator and the workers."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from beholder.cases.case import Case
from beholder.errors import BeholderError, UsageError
from beholder.runs.engine import RunSettings
from beholder.runs.suite import Suite

CHUNK_COLUMN = "chunk"  # the column of Ray Data that has the chunks
MAX_ATTEMPTS = 3  # how often a case is started: after that it has killed its worker often enough
# Cases in progress beyond those that are asked, as a share of them: more than in a local engine, since the coordinator
# is called before and after each.
WORKER_PREPARE_AHEAD = 0.5

Environment = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CaseMessage:
    """A `CaseTask` as it is sent: `rubric` is the position of its composer in the settings."""

    number: int
    position: int
    case: Case
    rubric: int


@dataclass(frozen=True, slots=True)
class TaskChunk:
    """Tasks that one worker gets together."""

    number: int
    tasks: tuple[CaseMessage, ...]


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """Everything that a worker needs to judge as the driver would. No secrets. Relative paths start at `folder`."""

    settings: RunSettings
    suite: Suite
    folder: str


@dataclass(frozen=True, slots=True)
class WorkerShare:
    """What a worker may use from now on: so many cases at once (`slots`), and a part (0 to 1) of the rate limits.

    `stopped` means that no new case is started, `canceled` that those in progress are canceled as well. `version`
    changes with anything in it.
    """

    version: int
    slots: int
    part: float
    stopped: bool = False
    canceled: bool = False


class StartDecision(Enum):
    """The coordinator's answer to a worker that is about to start a case."""

    GO = "go"
    ALONE = "alone"  # it was in progress when its worker died: ask again when nothing else is in progress there
    DONE = "done"  # its verdict is there already
    GIVEN_UP = "given up"  # it was started `MAX_ATTEMPTS` times and never ended
    STOPPED = "stopped"  # no new case is started


def to_pickle(thing: object) -> bytes:
    return pickle.dumps(thing, protocol=5)


def make_picklable(case: Case) -> Case:
    """Return the case with mappings that can be pickled."""
    return replace(case, images=dict(case.images), fields=dict(case.fields), groups=dict(case.groups))


def pickle_error(error: BaseException) -> bytes:
    """Pickle an error for another process: itself where that is possible, else one with the same message."""
    try:
        body = to_pickle(error)
        pickle.loads(body)
    except Exception:
        kind = UsageError if isinstance(error, BeholderError) else RuntimeError
        body = to_pickle(kind(str(error) if isinstance(error, BeholderError) else f"{type(error).__name__}: {error}"))
    return body
