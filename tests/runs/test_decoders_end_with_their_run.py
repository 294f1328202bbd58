"""Kill -9 leaves no process behind, and neither does a child that lives on."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

import pytest

from beholder.runs.worker_processes import WorkerProcess

SCRIPT = """
import asyncio, sys
from beholder.images.image import PreparedImage
from beholder.judges.audit import plan_audit
from beholder.rubrics.load import load_rubric
from beholder.runs.image_pool import ImagePool

async def main():
    pictures = ImagePool(workers=1)
    nothing = PreparedImage(b"", "image/png", 1, 1, "", "", 1, 1, "png")
    await pictures.examine(plan_audit(load_rubric("edit-preservation")), [nothing, nothing])
    print(*(worker.pid for worker in pictures._pool._idle_workers), flush=True)
    sys.stdin.read()

asyncio.run(main())
"""


BUSY = """
import sys, threading, time
from beholder.runs.worker_processes import WorkerProcess

worker = WorkerProcess()
worker.call(len, "")
threading.Thread(target=worker.call, args=(time.sleep, 3600), daemon=True).start()
print(worker.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="only Linux tells when a stranger's child has ended")
@pytest.mark.parametrize("script", [SCRIPT, BUSY], ids=["idle", "busy"])
def test_a_run_that_is_killed_takes_its_decoders_along(script: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        [worker] = map(int, process.stdout.readline().split())
        ended = os.pidfd_open(worker)
        process.kill()
        try:
            assert select.select([ended], [], [], 30)[0], "the decoder outlived its run"
        finally:
            os.close(ended)


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists the files of a process in /proc")
@pytest.mark.parametrize("releases", [True, False], ids=["Python's fork", "a fork that Python knows nothing of"])
def test_a_living_child_keeps_no_worker_of_its_parent(releases: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not releases:
        monkeypatch.setattr(WorkerProcess, "release_pipes", lambda worker: None)
    worker = WorkerProcess()
    worker.call(len, "")
    pipes = {os.readlink(f"/proc/self/fd/{file.fileno()}") for file in (worker._requests, worker._replies)}
    said, listen = os.pipe()[::-1]
    if not (child := os.fork()):
        mine = {os.readlink(entry.path) for entry in os.scandir("/proc/self/fd") if os.path.lexists(entry.path)}
        os.write(said, b"%d" % len(pipes & mine))
        signal.pause()
    try:
        assert os.read(listen, 1) == (b"0" if releases else b"2")
        worker.close()
        assert worker._process.returncode == 0
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(said)
        os.close(listen)


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="this system stops no process")
def test_a_worker_that_does_not_exit_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beholder.runs.worker_processes.END_S", 0.0)
    worker = WorkerProcess()
    worker.call(len, "")
    os.kill(worker.pid, signal.SIGSTOP)
    os.waitpid(worker.pid, os.WUNTRACED)
    worker.close()
    assert worker._process.returncode == -signal.SIGKILL
