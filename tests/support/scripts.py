"""Scripts that tests start as a user would, and how long a test waits for them."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import nbclient
import nbformat

PATIENCE_S = 120
# Ctrl-C also interrupts a script where the tests run in the background, whose processes ignore it. A main thread that
# has nothing to do wakes up often: one that waited for input slept on where the system told another thread.
NOTICE_CTRL_C = """
import pathlib, signal, time
def _notice(number, frame):
    pathlib.Path("noticed").touch()
    signal.default_int_handler(number, frame)
signal.signal(signal.SIGINT, _notice)
def wait_for_ctrl_c():
    while True:
        time.sleep(0.1)
"""


def interrupt(process: subprocess.Popen[str], folder: Path) -> None:
    """Send Ctrl-C to a script that begins with `NOTICE_CTRL_C` and works in `folder`; wait until it has noticed."""
    process.send_signal(signal.SIGINT)
    wait_until_noticed(folder)


def wait_until_noticed(folder: Path) -> None:
    until = time.monotonic() + PATIENCE_S
    while not (folder / "noticed").exists():
        assert time.monotonic() < until
        time.sleep(0.02)


def ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What a script has printed to stdout and stderr by its end."""
    out, said = process.communicate(timeout=PATIENCE_S)
    assert "Unclosed" not in said
    return out, said


def run_in_notebook(code: str, folder: Path) -> list[dict[str, Any]]:
    """Run code as the one cell of a notebook, and return the cell's outputs."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    nbclient.NotebookClient(
        notebook,
        timeout=PATIENCE_S,
        kernel_name="python3",
        coalesce_streams=True,  # a slow kernel sends what it prints in several pieces
        resources={"metadata": {"path": str(folder)}},
    ).execute()
    outputs: list[dict[str, Any]] = notebook.cells[0].outputs
    return outputs
