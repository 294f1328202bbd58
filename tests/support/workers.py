"""What worker processes of the tests run; see the pool in conftest.py, which keeps them from one test to the next."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def work_in(folder: str, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work` in the working folder of whoever asks: a new process would have begun there."""
    os.chdir(folder)
    return work(*args, **kwargs)
