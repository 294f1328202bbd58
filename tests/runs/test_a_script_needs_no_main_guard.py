"""Scripts without `if __name__ == "__main__"`, notebooks and one-liners can use worker processes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import BrokenExecutor
from pathlib import Path

import cv2
import numpy as np
import pytest

from beholder.rubrics.template import render_foreign_template
from beholder.runs.worker_processes import (
    LARGE_BYTES,
    PIPE_BYTES,
    DaemonThreadPool,
    WorkerPool,
    WorkerProcess,
    default_worker_count,
)

SCALE = """
import asyncio, sys, threading
from beholder.images.image import Sizing
from beholder.runs.image_pool import ImagePool

print("begun")

async def scale():
    pool = ImagePool(workers=2)
    images = await asyncio.gather(*(pool.prepare("large.png", Sizing(max_side=side)) for side in (64, 48, 32)))
    pool.close()
    print(*(image.width for image in images))

asyncio.run(scale())
thread = threading.Thread(target=lambda: asyncio.run(scale()))
thread.start()
thread.join()
"""
MEASURE = """
from beholder.statistics.calibration_features import measure_pixels

print("begun")
values, failed = measure_pixels({"a": ("large.png", "large.png"), "b": ("large.png", "no.png")}, ["colour"], workers=2)
print(len(values), *failed)
"""


def run_script(how: str, script: str, folder: Path) -> str:
    cv2.imwrite(str(folder / "large.png"), np.full((300, 400, 3), 90, np.uint8))
    (folder / "script.py").write_text(script)
    arguments = {"file": ["script.py"], "-c": ["-c", script], "-m": ["-m", "script"], "stdin": ["-"]}[how]
    done = subprocess.run(
        [sys.executable, *arguments],
        input=script if how == "stdin" else "",
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("how", ["file", "-c", "-m", "stdin"])
def test_an_unguarded_script_scales_images_also_from_a_thread(how: str, tmp_path: Path) -> None:
    assert run_script(how, SCALE, tmp_path) == "begun\n64 48 32\n64 48 32\n"


def test_an_unguarded_script_measures_pairs(tmp_path: Path) -> None:
    assert run_script("file", MEASURE, tmp_path) == "begun\n1 b\n"


def test_a_worker_starts_while_opencv_is_being_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    own_folder = str(Path(cv2.__file__).parent)  # it has a `typing`, and stands in the path during the import
    monkeypatch.setattr(sys, "path", [sys.path[0], own_folder, *sys.path[1:]])
    worker = WorkerProcess()
    try:
        assert worker.call(os.getpid) == worker.pid
    finally:
        worker.close()
    assert render_foreign_template("{{ name }} is a worker, too", {"name": "this"}) == "this is a worker, too"


def test_files_of_the_working_folder_are_not_imported(tmp_path: Path) -> None:
    (tmp_path / "threading.py").write_text("raise SystemExit('imported')")
    script = "import sys; sys.path.pop(0)\n" + SCALE
    assert run_script("-c", script, tmp_path).startswith("begun\n64")


def test_what_the_work_raises_arrives_with_its_traceback() -> None:
    with WorkerPool(1) as pool:
        with pytest.raises(ValueError, match="invalid literal") as caught:
            pool.submit(int, "one").result()
        assert "Traceback" in caught.value.__notes__[0]
        assert list(pool.map(abs, [-1, -2])) == [1, 2]


@pytest.mark.parametrize("size", [0, 1, LARGE_BYTES - 1, LARGE_BYTES, 3 * PIPE_BYTES + 1])
def test_bytes_of_any_length_travel_both_ways(size: int) -> None:
    data = np.random.default_rng(size).bytes(size)
    with WorkerPool(1) as pool:
        sent = [(data, "first"), (data[::-1], "second"), (bytearray(data), None)]
        assert pool.submit(list, sent).result() == sent
        assert pool.submit(dict, same=data).result() == {"same": data}


def test_what_a_library_prints_is_no_reply(capfd: pytest.CaptureFixture[str]) -> None:
    with WorkerPool(1) as pool:
        assert pool.submit(os.system, "echo printed").result() == 0
    assert capfd.readouterr().err == "printed\n"


def test_a_worker_that_dies_breaks_only_its_own_call() -> None:
    with WorkerPool(2) as pool:
        dies, lives = pool.submit(os._exit, 3), pool.submit(abs, -1)
        with pytest.raises(BrokenExecutor, match=r"\(3\)"):
            dies.result()
        assert lives.result() == 1
        assert pool.submit(abs, -2).result() == 2


@pytest.mark.skipif(not hasattr(os, "getpgid"), reason="there are process groups on POSIX only")
def test_ctrl_c_is_left_to_the_parent() -> None:
    worker = WorkerProcess()
    try:
        assert worker.call(os.getpgid, 0) != os.getpgid(0)
    finally:
        worker.close()


def test_a_program_that_is_no_python_starts_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_worker_count() == os.cpu_count()
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert default_worker_count() == 0


@pytest.mark.parametrize("running", [0, 1])
def test_a_pool_works_where_no_thread_can_be_started(running: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:  # as Python 3.12 does once the main thread has ended
        raise RuntimeError("can't create new thread at interpreter shutdown")

    pool, busy = DaemonThreadPool(4, "test"), threading.Event()
    first = [pool.submit(busy.wait) for _ in range(running)]
    monkeypatch.setattr(threading.Thread, "start", refuse)
    second = pool.submit(len, "four")
    third = pool.submit(int, "no number")
    busy.set()
    assert [one.result(30) for one in first] == [True] * running
    assert second.result(30) == 4
    with pytest.raises(ValueError, match="no number"):
        third.result(30)
    pool.shutdown()
    with pytest.raises(RuntimeError, match="shut down"):
        pool.submit(len, "")
