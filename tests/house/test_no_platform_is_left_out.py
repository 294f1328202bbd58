"""Linux, macOS and Windows: what only some systems have is looked for before it is used."""

from __future__ import annotations

import ast
import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import cv2
import numpy as np
import pytest

import beholder
from beholder import Ledger, UsageError
from beholder.runs.ledger_access import lock_run

SOURCE = Path(beholder.__file__).parent
POSIX_MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"}
POSIX_NAMES = {
    "os": "O_CLOEXEC O_DIRECTORY O_DSYNC O_NOFOLLOW O_NONBLOCK O_SYNC WNOHANG chown fchmod fchown fork forkpty getegid "
    "geteuid getgid getloadavg getpgid getuid killpg mkfifo nice pidfd_open posix_fadvise posix_spawn pread pwrite "
    "register_at_fork sched_getaffinity sendfile setpgid setsid statvfs symlink sync sysconf uname",
    "signal": "SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGTSTP SIGUSR1 SIGUSR2 alarm pause "
    "pthread_kill pthread_sigmask setitimer siginterrupt sigwait",
    "socket": "AF_UNIX MSG_DONTWAIT SO_REUSEPORT",
    "time": "CLOCK_BOOTTIME CLOCK_MONOTONIC CLOCK_REALTIME clock_gettime clock_gettime_ns tzset",
    "loop": "add_reader add_signal_handler add_writer remove_signal_handler",
}


def unguarded(tree: ast.AST) -> Iterator[str]:
    """Uses of what Windows lacks. `hasattr` or `getattr` with the name, anywhere in the file, is a guard."""
    guards = {
        node.args[1].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("hasattr", "getattr")
        and isinstance(node.args[1], ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr not in guards:
            owner = node.value.id if isinstance(node.value, ast.Name) else "loop"
            if node.attr in POSIX_NAMES.get(owner, POSIX_NAMES["loop"]).split():
                yield f"line {node.lineno}: {owner}.{node.attr}"
        elif isinstance(node, ast.Import):
            yield from (f"line {node.lineno}: {alias.name}" for alias in node.names if alias.name in POSIX_MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = POSIX_NAMES.get(node.module, "").split()
            if node.module in POSIX_MODULES or any(alias.name in names for alias in node.names):
                yield f"line {node.lineno}: from {node.module}"


def test_the_scan_finds_what_it_should() -> None:
    code = (
        "import os, fcntl\nfrom signal import SIGKILL\nos.fork()\nasyncio.get_running_loop().add_signal_handler(1, f)"
    )
    assert len(list(unguarded(ast.parse(code)))) == 4
    assert not list(unguarded(ast.parse("if hasattr(os, 'fork'):\n    os.fork()")))


def test_nothing_is_used_that_windows_lacks() -> None:
    found = {str(path): list(unguarded(ast.parse(path.read_text("utf-8")))) for path in SOURCE.rglob("*.py")}
    assert {path: uses for path, uses in found.items() if uses} == {}


WITHOUT_POSIX = """
import asyncio, importlib, os, pkgutil, signal, sys, time
import aiohttp, cv2, numpy, polars, ray, rich, sklearn, sqlalchemy, typer, uvicorn  # others know what they do
import beholder

def refuse(*_):
    raise NotImplementedError

asyncio.SelectorEventLoop.add_signal_handler = refuse
for module, names in {names!r}.items():
    for name in names.split():
        if name in ("WNOHANG", "statvfs"):
            continue  # which `subprocess` and `shutil` themselves use on this platform
        if module != "loop" and hasattr(sys.modules[module], name):
            delattr(sys.modules[module], name)
for name in {modules!r}:
    sys.modules[name] = None
sys.modules["msvcrt"] = type(sys)("msvcrt")
sys.modules["msvcrt"].LK_UNLCK, sys.modules["msvcrt"].LK_NBLCK, sys.modules["msvcrt"].locking = 0, 2, lambda *_: None
for module in pkgutil.walk_packages(beholder.__path__, "beholder."):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            if error.name not in ("inspect_ai", "mcp"):  # hosts that load their adapter, and are not installed here
                raise
sys.argv[1:] = "run suite.yaml --ledger ledger.db --json".split()
from beholder.cli import main
main()
"""
SUITE = """
rubric: edit-preservation
judges: [instruments]
cases: cases.csv
"""


def test_a_suite_runs_without_what_windows_lacks(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "a.png"), np.random.default_rng(1).integers(0, 255, (48, 64, 3), np.uint8))
    (tmp_path / "suite.yaml").write_text(SUITE, "utf-8")
    (tmp_path / "cases.csv").write_text("id,input,edited,instruction\nc,a.png,a.png,nothing\n", "utf-8")
    names = {module: text for module, text in POSIX_NAMES.items() if module != "socket"}
    script = WITHOUT_POSIX.replace("{names!r}", repr(names)).replace("{modules!r}", repr(POSIX_MODULES))
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        assert [verdict.outcome for verdict in ledger.verdicts("latest")] == ["scored"]


def lock_as_windows(handle: int, mode: int, count: int) -> None:
    assert mode in (0, 2)
    assert count == 1
    assert 0 < os.lseek(handle, 0, os.SEEK_CUR) < 2**31
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB if mode else fcntl.LOCK_UN)
    except BlockingIOError:
        raise PermissionError(errno.EACCES, "Permission denied") from None


def test_windows_keeps_two_processes_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    msvcrt = ModuleType("msvcrt")
    vars(msvcrt).update(LK_UNLCK=0, LK_NBLCK=2, locking=lock_as_windows)
    monkeypatch.setitem(sys.modules, "msvcrt", msvcrt)
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with Ledger.open(tmp_path / "ledger.db", create=True) as ledger:
        with (
            lock_run(ledger, "r"),
            pytest.raises(UsageError, match="under way in another process"),
            lock_run(ledger, "r"),
        ):
            pass
        with (tmp_path / "ledger.db.lock").open("a") as other:  # another process
            fcntl.flock(other.fileno(), fcntl.LOCK_EX)
            with pytest.raises(UsageError, match="under way in another process"), lock_run(ledger, "r"):
                pass
        with lock_run(ledger, "r"):
            pass
