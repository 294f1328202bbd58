"""Everything Beholder raises on purpose, one tree:

    BeholderError              what a caller may catch; str() is one plain sentence for a person
    ├── UsageError             the person asked for something that cannot be done; exit code 2
    │   ├── CaseError          a case lacks a role or a field, or has one too many
    │   ├── LedgerError        the ledger cannot be used: locked, read-only, damaged, from a newer version, disk full
    │   │   └── LedgerGone     its server cannot be reached, at this moment
    │   ├── RubricError        a rubric, style or prompt file is wrong; carries every problem with line and key
    │   └── SetupError         a judge cannot be asked at all: no key, unknown model, a missing extra
    ├── ImageError             a picture cannot be used: becomes the outcome `unreadable`
    ├── OverBudget             a call was not made because the budget does not allow it: the outcome `over_budget`
    ├── Waiting                the answer will come later, from a provider's batch: there is no verdict yet
    ├── Unreachable            the judge gave no answer after every retry: becomes the outcome `unreachable`
    └── AnswerError            an answer breaks the rubric's form: repaired once, then the outcome `invalid`

Anything else that escapes is our own mistake and keeps its traceback.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class BeholderError(Exception):
    """The root of the tree."""


class UsageError(BeholderError):
    """Wrong use: the sentence says what was wrong, what is allowed and what to do next."""


class CaseError(UsageError):
    """A case does not fit its rubric."""


class LedgerError(UsageError):
    """The ledger cannot be opened, read or written, or does not hold what was asked for."""


class LedgerGone(LedgerError):
    """There is no connection to the ledger's server, or no longer. Whether a write that was under way has happened is
    not known; trying again later may succeed."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong in a file: where it stands and what to do about it."""

    message: str
    key: str = ""
    line: int | None = None

    def __str__(self) -> str:
        where = ", ".join(part for part in (f"line {self.line}" if self.line else "", self.key) if part)
        return f"{where}: {self.message}" if where else self.message


class RubricError(UsageError):
    """A rubric, style or prompt file is wrong. `problems` lists all of them."""

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        super().__init__("\n".join(f"{source}: {problem}" for problem in self.problems))


class SetupError(UsageError):
    """A judge cannot be asked at all."""


class ImageError(BeholderError):
    """A picture cannot be used."""


class OverBudget(BeholderError):
    """A call was not made: it might have cost more than is left."""


class Waiting(BeholderError):
    """The answer is not there yet: it was asked for in a batch, or will be in the next."""


class Unreachable(BeholderError):
    """The judge gave no answer. `attempts` counts the requests that were made."""

    def __init__(self, message: str, attempts: int = 1) -> None:
        self.attempts = attempts
        super().__init__(message)


class AnswerError(BeholderError):
    """An answer breaks the rubric's form. `complaints` names everything that is wrong with it."""

    def __init__(self, complaints: Sequence[str]) -> None:
        self.complaints = tuple(complaints)
        super().__init__("; ".join(self.complaints))
