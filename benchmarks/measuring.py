"""Measuring a command from outside: its wall time, CPU, memory, and what the server saw of it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent
_MEGABYTE = 2**20
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of one command. CPU is user and system time, of its own child processes too; `peak_mb` the largest
    resident size of any one of them; `total_mb` the peak of all of them together, where the system tells (`Memory`);
    `first_s` from the start to the first request's arrival."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    code: int
    out: str
    first_s: float | None = None
    requests: int = 0
    server_cpu_s: float = 0.0
    total_mb: float | None = None


class Memory(threading.Thread):
    """Looks five times a second how much memory a process and its children have together: their proportional set size,
    which counts what they share once. Only Linux tells."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.peak_mb: float | None = None
        self._pid, self._ended = pid, threading.Event()

    def run(self) -> None:
        while not self._ended.wait(0.2):
            if (total := sum(map(_resident_bytes, _with_children(self._pid)))) > 0:
                self.peak_mb = max(self.peak_mb or 0.0, total / _MEGABYTE)

    def end(self) -> float | None:
        self._ended.set()
        self.join()
        return self.peak_mb


def _with_children(pid: int) -> Iterator[int]:
    yield pid
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = file.read_text().split()
        except OSError:  # it has ended
            continue
        for child in children:
            yield from _with_children(int(child))


def _resident_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def middle(samples: Sequence[Sample], field: str) -> float:
    """The median of one of the numbers; nan where no sample has it."""
    values = [value for sample in samples if (value := getattr(sample, field)) is not None]
    return float(median(values)) if values else float("nan")


@contextmanager
def server(*options: str) -> Iterator[str]:
    """A fresh server in its own process; its base URL."""
    command = [sys.executable, str(HERE / "server.py"), *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.stdin.close()


def stats(url: str) -> dict[str, object]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url.removesuffix("/v1") + "/stats") as reply:
        found: dict[str, object] = json.load(reply)
    return found


def measure(command: Sequence[str], *, url: str | None = None, env: Mapping[str, str] | None = None) -> Sample:
    """Runs a command to its end. What it prints on standard error is kept only when it fails.

    The measuring process must stay small: on Linux a child's peak counts what its parent had when it was started.
    """
    environment = {**os.environ, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", **(env or {})}
    started = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    assert process.stdout is not None
    assert process.stderr is not None
    errors: list[bytes] = []
    reader = threading.Thread(target=lambda: errors.append(process.stderr.read()))  # type: ignore[union-attr]
    reader.start()
    memory = Memory(process.pid)
    memory.start()
    out = process.stdout.read()
    reader.join()
    total_mb = memory.end()
    _, status, used = os.wait4(process.pid, 0)
    wall_s = time.monotonic() - started
    process.returncode = os.waitstatus_to_exitcode(status)  # or Popen would warn of a child it lost
    process.stdout.close()
    process.stderr.close()
    if process.returncode:
        print(f"{command[0]} … ended with {process.returncode}: {errors[0].decode()[-2000:]}", file=sys.stderr)
    seen = stats(url) if url else {}
    first = seen.get("first_request")
    return Sample(
        wall_s=wall_s,
        cpu_s=used.ru_utime + used.ru_stime,
        peak_mb=used.ru_maxrss * _RSS_UNIT / _MEGABYTE,
        code=process.returncode,
        out=out.decode(),
        first_s=first - started if isinstance(first, float) else None,
        requests=int(str(seen.get("requests", 0))),
        server_cpu_s=float(str(seen.get("cpu_s", 0.0))),
        total_mb=total_mb,
    )


def capacity(body: bytes, requests: int, clients: int = 4) -> tuple[float, float]:
    """How many requests a second the server takes, and its CPU seconds for each.

    From the simplest client there can be: threads that send the same bytes over blocking sockets.
    """
    with server() as url:
        port = int(url.rpartition(":")[2].removesuffix("/v1"))
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\nContent-Length: {len(body)}\r\n\r\n".encode()

        def ask() -> None:
            with socket.create_connection(("127.0.0.1", port)) as connection:
                for _ in range(requests // clients):
                    connection.sendall(head + body)
                    if not connection.recv(65536).startswith(b"HTTP/1.1 200"):
                        raise RuntimeError("the server did not answer")

        before = float(str(stats(url)["cpu_s"]))
        threads = [threading.Thread(target=ask) for _ in range(clients)]
        started = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wall_s = time.monotonic() - started
        seen = stats(url)
        asked = int(str(seen["requests"]))
        return asked / wall_s, (float(str(seen["cpu_s"])) - before) / asked
