"""What a visitor would wait for is done before, and done once: pages are compiled, runs counted, filters looked up. And
yet what is shown is what is in the ledger now."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import jinja2
import pytest
from fastapi import FastAPI
from sqlalchemy import Engine, event
from support.ledger import entry, run_record
from support.reports import usual_run
from support.reviews import RUN as EDITS
from support.reviews import edits
from support.web import RUN

from beholder.errors import LedgerError
from beholder.ledger.ledger import Ledger
from beholder.reviews import review
from beholder.web import server
from beholder.web.background import BackgroundResults
from beholder.web.responses import template_environment
from beholder.web.server import create_app, serve_in_thread

Asked = list[tuple[str, Any]]


@pytest.fixture
def asked() -> Iterator[Asked]:
    """What the databases were asked since the list was emptied, with the values."""
    found: Asked = []

    def note(_: object, __: object, statement: str, values: object, *___: object) -> None:
        found.append((statement, values))

    event.listen(Engine, "before_cursor_execute", note)
    yield found
    event.remove(Engine, "before_cursor_execute", note)


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is done in the background, so that it is seen what a visit does by itself."""
    monkeypatch.setattr(server, "warm_caches", lambda app: None)


@pytest.fixture
def app(tmp_path: Path) -> Iterator[FastAPI]:
    """For a run that is finished, and a review that is open."""
    with edits(tmp_path / "ledger.db") as ledger:
        review.find_or_start_review(ledger, EDITS, "Ada")
        ledger.update(EDITS, state="finished")
    made = create_app(tmp_path / "ledger.db")
    yield made
    made.state.background.close()
    made.state.ledger.close()


@pytest.fixture
def visit(app: FastAPI) -> Iterator[Callable[[str], str]]:
    with serve_in_thread(app) as site, httpx.Client(base_url=site, trust_env=False) as client:
        yield lambda path: client.get(path).raise_for_status().text


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("path", ["/", "/api/runs", "/review", f"/review/run/{EDITS}", "/agreement"])
def test_no_list_of_runs_goes_through_the_table_of_verdicts(
    app: FastAPI, visit: Callable[[str], str], asked: Asked, path: str
) -> None:
    visit(path)
    steps = []
    with app.state.ledger._reading() as connection:
        for statement, values in [one for one in asked if one[0].startswith("SELECT")]:
            steps += [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)]
    assert steps
    assert [step for step in steps if re.match(r"SCAN verdicts(?! USING COVERING)", step)] == []


@pytest.mark.usefixtures("still")
def test_what_is_finished_is_counted_once(visit: Callable[[str], str], asked: Asked) -> None:
    first = visit("/")
    counted = [values for statement, values in asked if "verdicts" in statement]
    assert any(EDITS in values for values in counted)
    asked.clear()
    assert visit("/") == first
    assert not any(EDITS in values for statement, values in asked if "verdicts" in statement)


@pytest.mark.usefixtures("still")
def test_what_is_written_meanwhile_is_counted(app: FastAPI, visit: Callable[[str], str]) -> None:
    ledger: Ledger = app.state.ledger

    def told(run: str) -> str:
        [found] = re.findall(rf'href="/runs/{run}">.*?data-label="Verdicts">\s*([\d,]+)', visit("/"), re.DOTALL)
        return str(found)

    before = int(told(EDITS))
    ledger.write(EDITS, [entry(1000)])
    assert told(EDITS) == str(before + 1)
    ledger.start(run_record("later", total=3))
    for done in range(3):
        assert told("later") == str(done)
        ledger.write("later", [entry(done)])
    ledger.update("later", state="finished")
    assert told("later") == "3"
    ledger.delete(EDITS)
    assert EDITS not in visit("/api/runs")


def test_who_comes_after_the_warming_waits_for_nothing_that_can_be_done_before(
    tmp_path: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual_run(tmp_path / "ledger.db").close()
    with Ledger.open(tmp_path / "ledger.db", create=True) as ledger:
        ledger.update(RUN, state="finished")
    app = create_app(tmp_path / "ledger.db")
    template_environment().cache.clear()  # type: ignore[union-attr]
    server.warm_caches(app)
    monkeypatch.setattr(server, "warm_caches", lambda app: None)
    monkeypatch.setattr(jinja2.Environment, "compile", lambda *_: pytest.fail("a page is compiled"))
    with serve_in_thread(app) as site, httpx.Client(base_url=site, trust_env=False) as client:
        for path in ("/", f"/runs/{RUN}/cases", "/compare", "/review"):
            asked.clear()
            assert client.get(path).status_code == 200
            assert not [one for one, _ in asked if re.search(r"DISTINCT|GROUP BY", one)], path
        assert client.get(f"/runs/{RUN}/case", params={"id": "photo-00001/anime"}).status_code == 200
    app.state.background.close()
    app.state.ledger.close()


def test_the_server_warms_up_once_it_is_there(app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    warmed = threading.Event()
    monkeypatch.setattr(server, "warm_caches", lambda of: warmed.set() if of is app else None)
    with serve_in_thread(app):
        assert warmed.wait(30)


def test_a_ledger_that_cannot_be_read_is_told_to_who_asks_and_not_in_the_background(
    app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(*_: object, **__: object) -> None:
        raise LedgerError("The ledger is locked.")

    monkeypatch.setattr(Ledger, "runs", locked)
    server.warm_caches(app)


def test_who_asks_for_what_is_being_made_gets_that() -> None:
    shop, begun, go_on = BackgroundResults(), threading.Event(), threading.Event()
    found: list[int] = []

    def slow() -> int:
        begun.set()
        assert go_on.wait(30)
        return 7

    first = threading.Thread(target=lambda: found.append(shop.get_or_compute("key", 1, slow)))
    second = threading.Thread(target=lambda: found.append(shop.get_or_compute("key", 1, lambda: 8)))
    first.start()
    assert begun.wait(30)
    second.start()
    second.join(0.2)  # it would be done by then, did it not wait
    go_on.set()
    first.join(30)
    second.join(30)
    assert found == [7, 7]
    shop.close()
