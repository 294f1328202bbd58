"""Environments in which a real host of an integration runs, each with the versions that it wants.

A Python host gets a virtual environment with everything it requires; behind that it sees the packages of the
environment of the tests, where those are that Beholder needs. Environments are kept in the environment of the tests and
used again until the requirements change, or what our package needs and registers. They are made by uv, which takes
seconds where pip takes a minute, and which keeps what it has downloaded for the next clone.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import sysconfig
import tomllib
import venv
from collections.abc import Callable
from fcntl import LOCK_EX, flock
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOSTS = Path(sys.prefix) / "hosts"


def python_host(name: str, *requirements: str) -> Path:
    """Return the interpreter of an environment that has these packages, and Beholder with its entry points.

    Skips the test if they cannot be installed; fails it in CI.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    declared = json.dumps([project["dependencies"], project["scripts"], project["entry-points"]])
    folder = _make(name, (str(ROOT), declared, *requirements), lambda to: _install_packages(to, requirements))
    return folder / "bin" / "python"


def node_host(name: str, *packages: str) -> Path:
    """Return the folder of the programs of npm packages, for PATH. Skips or fails as `python_host` does.

    Optional dependencies, which are most of some packages, are left out, and no scripts of packages are run: name those
    that are needed.
    """
    folder = _make(name, packages, lambda to: _install_node_packages(to, packages))
    return folder / "node_modules" / ".bin"


def _make(name: str, parts: tuple[str, ...], install: Callable[[Path], None]) -> Path:
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
    folder, done = HOSTS / f"{name}-{digest}", HOSTS / f"{name}-{digest}.done"
    HOSTS.mkdir(exist_ok=True)
    with (HOSTS / f"{name}-{digest}.lock").open("w") as lock:
        flock(lock, LOCK_EX)  # the processes of pytest-xdist wait for the one that installs
        if not done.exists():
            try:
                install(folder)
            except subprocess.CalledProcessError as error:
                why = f"{name} cannot be installed: {error.stderr.decode(errors='replace')[-2000:]}"
                if os.environ.get("CI"):
                    pytest.fail(why)
                pytest.skip(why)
            done.touch()
    return folder


def _install_packages(folder: Path, requirements: tuple[str, ...]) -> None:
    venv.create(folder, clear=True, symlinks=True)
    paths = {"base": str(folder), "platbase": str(folder)}
    own = Path(sysconfig.get_path("purelib", "venv", paths))
    install = (sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", folder / "bin" / "python")
    _run(*install, "--no-deps", "-e", ROOT)
    # What ends in .pth is read in the order of names, and what it names comes behind the environment's own packages.
    others = [path for path in sys.path if Path(path).name == "site-packages"]  # several where one names another
    (own / "zz-packages-of-the-tests.pth").write_text("\n".join(others) + "\n", "utf-8")
    if requirements:
        _run(*install, *requirements)


def _install_node_packages(folder: Path, packages: tuple[str, ...]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "package.json").write_text("{}", "utf-8")
    quiet = ("--no-audit", "--no-fund", "--loglevel=error")
    lean = ("--omit=optional", "--omit=peer", "--ignore-scripts")
    _run("npm", "install", *quiet, *lean, "--prefix", folder, *packages)


def _run(*command: str | Path) -> None:
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTEST_CURRENT_TEST")}
    subprocess.run([str(part) for part in command], check=True, capture_output=True, env=clean)
