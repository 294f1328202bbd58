"""The judge `instruments`: it measures, offline and for nothing, and leaves open what cannot be measured."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from beholder.images.model import Sizing
from beholder.judges.measured.answering import Document, answer_to, objection
from beholder.judges.protocol import INSTRUMENTS, MEASURED_NOT_SEEN, Answer, Turn, Usage
from beholder.rubrics.brief import Brief
from beholder.rubrics.model import Rubric

if TYPE_CHECKING:
    from beholder.judges.model import Settings

VERSION = "2"  # of what is measured and how answers follow from it; the fitted numbers have a digest of their own

_AS_THEY_ARE = Sizing(max_side=None, max_bytes=None)  # sharpness and coding marks would not survive a new encoding


class InstrumentsJudge:
    """Answers `edit-preservation`, `restyle` and `description` from measurements, and abstains where they cannot tell.

    The settings are those of models; here only `max_side` has a meaning. The same brief has the same answer.
    """

    abstains = True

    def __init__(self, settings: Settings | None = None) -> None:
        side = settings.params.get("max_side") if settings else None
        self._sizing = replace(_AS_THEY_ARE, max_side=side) if isinstance(side, int) else _AS_THEY_ARE
        self._threads: ThreadPoolExecutor | None = None

    def __repr__(self) -> str:
        return "InstrumentsJudge()"

    @property
    def name(self) -> str:
        return INSTRUMENTS

    @property
    def model(self) -> str:
        return f"{INSTRUMENTS} {VERSION} ({_weights()[:8]})"

    @property
    def identity(self) -> str:
        return json.dumps([INSTRUMENTS, VERSION, _weights()])

    @property
    def sizing(self) -> Sizing:
        return self._sizing

    def objection(self, rubric: Rubric) -> str:
        """Why it cannot answer a rubric at all; empty where it can."""
        return objection(rubric)

    def needs_images(self, rubric: Rubric) -> bool:
        return rubric.name != "description"

    async def answer(
        self, brief: Brief, *, sample: int = 0, earlier: Sequence[Turn] = (), max_tokens: int | None = None
    ) -> Answer:
        """Measures in a thread, so that the loop never waits: NumPy and OpenCV let go of the interpreter while they
        work. As many at once as there are cores, since each takes some 100 MB. Raises `ImageError`. Samples, earlier
        turns and limits of tokens are for models."""
        self._threads = self._threads or ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix=INSTRUMENTS)
        loop = asyncio.get_running_loop()
        document, seconds = await loop.run_in_executor(self._threads, _timed, brief)
        return Answer(
            text=json.dumps(document, ensure_ascii=False),
            model=self.model,
            usage=Usage(0, 0, 0),
            cost_usd=Decimal(0),
            latency_s=seconds,
            flags=(MEASURED_NOT_SEEN,),
        )

    async def aclose(self) -> None:
        """Lets go of its threads; one that still measures ends when it is done."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None


def _timed(brief: Brief) -> tuple[Document, float]:
    """The answer, and the seconds that it took, without the time that it waited for a thread."""
    started = time.perf_counter()
    return answer_to(brief), time.perf_counter() - started


@cache
def _weights() -> str:
    """The digest of all fitted numbers that answers may depend on."""
    folder = files("beholder.instruments") / "weights"
    found = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".json")), key=lambda one: one.name)
    together = hashlib.sha256()
    for entry in found:
        together.update(entry.name.encode() + b"\0" + entry.read_bytes() + b"\0")
    return together.hexdigest()
