"""No test reaches beyond this machine: a connection or a look-up elsewhere fails, and so does the test that tried.
And a real browser and a real PostgreSQL for the tests that need them."""

from __future__ import annotations

import importlib.util
import ipaddress
import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NoReturn

import pytest
from hypothesis import HealthCheck, settings
from support import postgres as postgres_support

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# A deadline is a wall-clock assertion, and "too slow" says something of the machine only.
settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")

# What takes minutes, or shares something that takes long to start. Begun first it is done before the rest is, and all
# of it in one process: of what is left to do, the others take the end.
_FIRST = ("test_a_run_on_ray_is_a_run.py", "test_nothing_is_lost_or_paid_for_twice.py")

# What `make test-fast` leaves out: tests with a browser, a database server or a Ray cluster, ...
_SLOW_FIXTURES = {"browser", "postgres"}
# ... and files that start many processes or draw many random samples.
_SLOW_FILES: set[str] = set()

_tried: list[str] = []


@pytest.fixture
def carried_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[[Sequence[str]], tuple[int, str, str]]:
    """Carries out the words after `beholder` in this process: the exit code, and what was said on both ways out."""
    from beholder.cli import main

    def carry_out(words: Sequence[str]) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["beholder", *words])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        return code, *capsys.readouterr()

    return carry_out


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _FIRST.index(item.path.name) if item.path.name in _FIRST else len(_FIRST))
    for item in items:
        if item.path.name in _SLOW_FILES or _SLOW_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)


def _here(host: object) -> bool:
    name = host.decode("ascii", "replace") if isinstance(host, bytes) else host
    if name in (None, "", "localhost"):
        return True
    try:
        return ipaddress.ip_address(str(name).split("%")[0]).is_loopback
    except ValueError:
        return False


def _guard(event: str, args: tuple[object, ...]) -> None:
    if event == "socket.getaddrinfo":
        host = args[0]
    elif event in ("socket.connect", "socket.sendto") and isinstance(args[1], tuple):
        host = args[1][0]
    else:
        return
    if _here(host) or host == "0.0.0.0":
        return
    # RFC 6761 reserves .invalid for names that never resolve: asking for one is a test of just that.
    if not str(host).endswith(".invalid"):
        _tried.append(str(host))
    raise socket.gaierror(socket.EAI_NONAME, f"the test session refuses the network: {host}")


sys.addaudithook(_guard)


@pytest.fixture(autouse=True)
def _stays_on_loopback() -> Iterator[None]:
    _tried.clear()
    yield
    assert not _tried, f"this test tried to reach {', '.join(_tried)}"


@pytest.fixture
def tried_hosts() -> list[str]:
    """The hosts that were refused; a test that means to try one clears it."""
    return _tried


@pytest.fixture(scope="module")  # no wider: while it is open an event loop runs in this thread, and no other may
def browser() -> Iterator[Browser]:
    """Chromium. On a build server it must be there; elsewhere its tests are left out, with the reason."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _lacking("the Python package playwright is not installed")
    place = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if place is None:
        _lacking("there is no Chromium on the path")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=place, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def violations() -> Callable[[Page], list[tuple[str, list[str]]]]:
    """What axe-core finds wrong with a page: the rule, and some of the elements that break it."""
    try:
        from axe_playwright_python.sync_playwright import Axe
    except ImportError:
        _lacking("the Python package axe-playwright-python is not installed")
    axe = Axe()

    def violations(page: Page) -> list[tuple[str, list[str]]]:
        found = axe.run(page).response["violations"]
        return [(one["id"], [node["html"][:200] for node in one["nodes"]][:3]) for one in found]

    return violations


@pytest.fixture(scope="session")
def postgres() -> Iterator[postgres_support.Server]:
    """A PostgreSQL server of our own. On a build server there must be one; elsewhere its tests are left out, with the
    reason."""
    if importlib.util.find_spec("psycopg") is None:
        _lacking("the Python package psycopg is not installed", what="PostgreSQL to test with")
    programs = postgres_support.programs()
    if programs is None:
        _lacking("there is no initdb on the path or in /usr/lib/postgresql", what="PostgreSQL to test with")
    server = postgres_support.Server(programs)
    yield server
    server.end()


def _lacking(why: str, what: str = "browser to test in") -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(f"no {what}: {why}")
    pytest.skip(f"no {what}: {why}")
