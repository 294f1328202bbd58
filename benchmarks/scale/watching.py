"""A run, looked at from outside while it works: how far it is, its CPU time and its memory, every 2 seconds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from measuring import stats

_TICKS = os.sysconf("SC_CLK_TCK")
_MEGABYTE = 2**20
_LOOK_S = 0.02


@dataclass(frozen=True, slots=True)
class Moment:
    """`at_s` seconds after the start of the command. `server_s` is the CPU time of the server that it asks."""

    at_s: float
    done: int
    server_s: float
    cpu_s: float
    resident_mb: float


@dataclass(frozen=True, slots=True)
class Watched:
    """A run that is over. CPU is user and system time of all its processes; `first_s` is from the start of the command
    to the arrival of its first request, `None` where it made none."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    code: int
    requests: int
    first_s: float | None
    moments: tuple[Moment, ...]
    summary: dict[str, object]

    def resident_at(self, done: int) -> float:
        """Megabytes when so many were done, or at the last look before that many were."""
        there = next((one for one in self.moments if one.done >= done), self.moments[-1])
        return there.resident_mb

    def halves(self, name: str) -> float:
        """The second half of what was watched against the first: by `at_s`, `cpu_s` or `server_s`."""
        first, last = self.moments[0], self.moments[-1]
        middle = _at(self.moments, name, (first.done + last.done) / 2)
        return float((getattr(last, name) - middle) / (middle - getattr(first, name)))


def _at(moments: Sequence[Moment], name: str, done: float) -> float:
    """When so many were done, on a straight line between two looks."""
    for before, after in pairwise(moments):
        if before.done <= done <= after.done and before.done < after.done:
            part = (done - before.done) / (after.done - before.done)
            return getattr(before, name) + part * (getattr(after, name) - getattr(before, name))
    raise ValueError(f"the run was watched too seldom to say when {done:.0f} were done")


def watch(command: Sequence[str], url: str) -> Watched:
    """Runs a command that prints lines of JSON about its progress (`beholder run --json`) to its end. `url` is of the
    server that it asks."""
    environment = {**os.environ, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    before = int(str(stats(url)["requests"]))
    started = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    asked = threading.Event()
    first: list[float] = []
    looking = threading.Thread(target=_look_out, args=(url, before, asked, first))
    looking.start()
    moments: list[Moment] = []
    summary: dict[str, object] = {}
    assert process.stdout is not None
    for line in process.stdout:
        told = json.loads(line)
        if told["event"] == "summary":
            summary = told
        if (seen := _seen(process.pid)) is not None:
            served = float(str(stats(url)["cpu_s"]))
            moments.append(Moment(time.monotonic() - started, told["done"], served, *seen))
    _, status, used = os.wait4(process.pid, 0)
    wall_s = time.monotonic() - started
    asked.set()
    looking.join()
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    if process.returncode:
        print(f"{' '.join(command[:4])} … ended with {process.returncode}", file=sys.stderr)
    return Watched(
        wall_s=wall_s,
        cpu_s=used.ru_utime + used.ru_stime,
        peak_mb=used.ru_maxrss * 1024 / _MEGABYTE,
        code=process.returncode,
        requests=int(str(stats(url)["requests"])) - before,
        first_s=first[0] - started if first else None,
        moments=tuple(moments),
        summary=summary,
    )


def _look_out(url: str, before: int, over: threading.Event, first: list[float]) -> None:
    """Asks the server until it has a new request, or the run is over."""
    while not over.wait(_LOOK_S):
        if int(str(stats(url)["requests"])) > before:
            first.append(time.monotonic())
            return


def _seen(pid: int) -> tuple[float, float] | None:
    """CPU seconds and resident megabytes of a process; `None` where it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    resident = next((line for line in lines if line.startswith("VmRSS:")), None)
    if resident is None:  # it has ended, and nobody has waited for it yet
        return None
    return (int(times[11]) + int(times[12])) / _TICKS, int(resident.split()[1]) / 1024
