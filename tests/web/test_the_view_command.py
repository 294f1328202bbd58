"""`beholder view`: a port, an address to open, an end with Ctrl+C; what cannot be is told in a sentence."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import httpx
import pytest
from support.web import RUN, Started

from beholder.cli.show import view
from beholder.errors import LedgerError
from beholder.web.background import BackgroundResults, compute_overview, run_in_process
from beholder.web.server import allowed_hosts, open_socket, socket_url

COMMAND = [sys.executable, "-m", "beholder", "view", "--no-browser"]


def test_it_serves_until_it_is_interrupted(place: Path) -> None:
    command = [*COMMAND, "--ledger", str(place)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stderr is not None
        said = server.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+/", said)
        assert found is not None, said
        assert RUN in httpx.get(found[0], trust_env=False).text
        server.send_signal(signal.SIGINT)
        assert server.wait(30) in (0, 130)
        assert "Traceback" not in server.stderr.read()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--host", "0.0.0.0"], "--token"),
        (["--host", "0.0.0.0", "--token", "short"], "at least 16"),
        (["--host", "999.1.1.1", "--token", "a token of decent length"], "no listening on '999.1.1.1'"),
        (["--ledger", "nowhere.db"], "no ledger at 'nowhere.db'"),
    ],
)
def test_what_cannot_be_is_one_sentence(place: Path, tmp_path: Path, more: list[str], said: str) -> None:
    command = [*COMMAND, "--ledger", str(place), *more]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_ledger_that_may_only_be_read_can_be_looked_at(place: Path, started: Started) -> None:
    place.chmod(0o444)
    with httpx.Client(base_url=started(place), trust_env=False) as client:
        assert client.get(f"/runs/{RUN}/cases").status_code == 200


def test_what_takes_long_is_worked_out_aside_and_the_last_result_shown_meanwhile() -> None:
    shop, go = BackgroundResults(wait_s=0), threading.Event()
    assert shop.poll("a", 1, lambda: go.wait(30) and "first").value is None
    go.set()
    while not (found := shop.poll("a", 1, lambda: "never made")).fresh:
        pass
    assert found.value == "first"
    go.clear()
    again = shop.poll("a", 2, lambda: go.wait(30) and "second")
    assert (again.value, again.fresh) == ("first", False)
    go.set()
    while not (found := shop.poll("a", 2, lambda: "never made")).fresh:
        pass
    assert found.value == "second"
    shop.close()


def test_a_process_of_its_own_gives_the_same_and_raises_the_same(place: Path) -> None:
    work = partial(compute_overview, str(place), RUN)
    assert run_in_process(work).figures == work().figures
    with pytest.raises(LedgerError, match="no run 'none'"):
        run_in_process(partial(compute_overview, str(place), "none"))


def test_what_goes_wrong_aside_is_told_to_who_asked() -> None:
    shop = BackgroundResults(wait_s=30)
    with pytest.raises(ZeroDivisionError):
        shop.poll("a", 1, lambda: 1 // 0)
    assert shop.poll("a", 1, lambda: "better").value == "better"  # who asks again is not told of the last time
    shop.close()


def test_a_token_is_written_as_addresses_have_it(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    token = "a&b=c#d+e f/100% of it"
    monkeypatch.setattr("beholder.web.server.serve", lambda app, listening, ready: ready())
    view(token=token, browser=False, address=str(place))
    address = capsys.readouterr().out.split("Beholder is at ")[1].split(" (stop")[0]
    assert httpx.URL(address).params["token"] == token


def test_an_address_for_all_names_this_machine_for_a_colleague_to_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "Localhost")
    with open_socket("0.0.0.0", 0) as listening:
        port = listening.getsockname()[1]
        assert socket_url(listening, "0.0.0.0") == f"http://localhost:{port}/"
        assert "localhost" in allowed_hosts("0.0.0.0", "a token of decent length")
        monkeypatch.setattr("socket.getaddrinfo", Mock(side_effect=OSError("nobody knows that name")))
        assert socket_url(listening, "0.0.0.0") == f"http://127.0.0.1:{port}/"
