"""Every exception that Beholder raises on purpose:

    BeholderError              the root; str() is one plain sentence for a person
    ├── UsageError             something was asked for that cannot be done; exit code 2
    │   ├── CaseError          a case lacks a role or a field, or has an unknown one
    │   ├── LedgerError        the ledger cannot be used: locked, read-only, damaged, from a newer version, disk full
    │   │   └── LedgerGone     the ledger's server cannot be reached at the moment
    │   ├── RubricError        a rubric, style or prompt file is wrong; carries every problem with line and key
    │   ├── SetupError         a judge cannot be asked at all: no key, unknown model, a missing extra
    │   └── UntrustedSuite     a suite file asks for what its user has to allow first
    ├── ImageError             an image cannot be used: becomes the outcome `unreadable`
    ├── OverBudget             a call was not made because of the budget: becomes the outcome `over_budget`
    ├── Waiting                there is no verdict yet: the answer comes later, by batch, or the run was stopped first
    ├── Unreachable            the judge gave no answer after every retry: becomes the outcome `unreachable`
    ├── AnswerError            an answer breaks the rubric's form: repaired once, then the outcome `invalid`
    └── JudgeUnavailable       a verdict without a score was compared with a number, or a test has no score to go by

Any other exception that escapes is a bug in Beholder and keeps its traceback.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class BeholderError(Exception):
    """The base class of all exceptions that Beholder raises on purpose."""


class UsageError(BeholderError):
    """Wrong use. The message says what was wrong, what is allowed and what to do next."""


class CaseError(UsageError):
    """A case does not fit its rubric, or a case file cannot be read."""


class LedgerError(UsageError):
    """The ledger cannot be opened, read or written, or does not hold what was asked for."""


class LedgerGone(LedgerError):
    """The connection to the ledger's server failed or was lost.

    Whether a write that was in progress has happened is not known. Trying again later may succeed.
    """


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong in a file.

    Attributes:
        message: What is wrong and what to do about it.
        key: The key path, such as `criteria[0].weight`; empty for the file as a whole.
        line: The line in the file, from 1, where it is known.
    """

    message: str
    key: str = ""
    line: int | None = None

    def __str__(self) -> str:
        where = ", ".join(part for part in (f"line {self.line}" if self.line else "", self.key) if part)
        return f"{where}: {self.message}" if where else self.message


class RubricError(UsageError):
    """A rubric, style or prompt file is wrong. `problems` lists everything that is wrong with it."""

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        super().__init__("\n".join(f"{source}: {problem}" for problem in self.problems))

    def __reduce__(self) -> tuple[object, ...]:  # an exception is made again of its message, unless it says otherwise
        return type(self), (self.source, self.problems), self.__dict__


class SetupError(UsageError):
    """A judge cannot be asked at all."""


class UntrustedSuite(UsageError):
    """A suite file would send keys or images where only its user may have them sent. `reasons` says what and where."""

    def __init__(self, source: str, reasons: Sequence[str]) -> None:
        self.source = source
        self.reasons = tuple(reasons)
        super().__init__(
            f"{source} is not trusted yet: {'; '.join(self.reasons)}. If that is what you want, say so once "
            "(--trust-suite or trust_suite=True); it holds until the file changes."
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.source, self.reasons), self.__dict__


class ImageError(BeholderError):
    """An image cannot be used."""


class OverBudget(BeholderError):
    """A call was not made, because it might have cost more than is left of the budget."""


class Waiting(BeholderError):
    """The answer is not available yet: it comes later, by batch, or the run was stopped while it waited for it."""


class Unreachable(BeholderError):
    """The judge gave no answer. `attempts` counts the requests that were made."""

    def __init__(self, message: str, attempts: int = 1) -> None:
        self.attempts = attempts
        super().__init__(message)


class AnswerError(BeholderError):
    """An answer breaks the rubric's form. `complaints` lists everything that is wrong with it."""

    def __init__(self, complaints: Sequence[str]) -> None:
        self.complaints = tuple(complaints)
        super().__init__("; ".join(self.complaints))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.complaints,), self.__dict__


class JudgeUnavailable(BeholderError):
    """A score was needed and there is none: nothing passed, nothing failed. `verdict` is the `Verdict` without one."""

    def __init__(self, message: str, verdict: object = None) -> None:
        self.verdict = verdict
        super().__init__(message)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.verdict), self.__dict__
