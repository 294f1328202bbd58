"""The history page: score, share without a score, cost and latency of each run, each leading to what it counts; and a
mean never stands alone where few verdicts have a score."""

from __future__ import annotations

import html
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import httpx
import pytest
from support.ledger import NOW, entry, run_record, unscored, verdict
from support.web import Started, running, worked_out

from beholder import history
from beholder.ledger.ledger import Ledger
from beholder.verdicts.verdict import Outcome

NIGHTS, CASES = 4, 12
REFUSED = 9  # verdicts of the last night without a score


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four runs: each is slower and cheaper than the one before; half of the second is from the cache; the last has
    three scores."""
    place = tmp_path_factory.mktemp("nights") / "ledger.db"
    with Ledger.open(place, create=True) as ledger:
        for night in range(NIGHTS):
            run = run_record(f"n{night}", created=NOW + timedelta(days=night), total=CASES, tags=("ci", f"v{night}"))
            ledger.start(run)
            entries = []
            for number in range(CASES):
                lacks = night == NIGHTS - 1 and number < REFUSED
                one = unscored(number, Outcome.REFUSED) if lacks else verdict(number)
                one = replace(one, latency_s=1.0 + night, cost_usd=Decimal("0.008") / 2**night)
                reused = night == 1 and number % 2 == 0
                one = replace(one, latency_s=100.0) if reused else one
                entries.append(replace(entry(number, one), reused=reused, answers=()))
            ledger.write(run.id, entries)
            ledger.update(run.id, state="finished")
    return place


@pytest.fixture(scope="module")
def client(nights: Path) -> Iterator[httpx.Client]:
    with running(nights) as site, httpx.Client(base_url=site, trust_env=False) as found:
        yield found


def test_what_a_run_took_is_of_what_it_asked_for(nights: Path) -> None:
    usage = history("nightly", ledger=nights, draws=200).usage
    assert [one.latency_s.value for one in usage] == [1.0, 2.0, 3.0, 4.0]
    assert [one.slow_s for one in usage] == [1.0, 2.0, 3.0, 4.0]
    assert [one.cost_usd.value for one in usage] == pytest.approx([0.008, 0.004, 0.002, 0.001])
    assert [(one.scored, one.verdicts) for one in usage] == [(12, 12), (12, 12), (12, 12), (3, 12)]
    assert usage[3].unscored.value == 0.75
    assert usage[3].outcomes == {"refused": REFUSED}


def test_points_and_bars_lead_to_runs_and_cases(client: httpx.Client) -> None:
    page = worked_out(client, "/history", name="nightly")
    charts = re.findall(r'<svg class="chart trend".*?</svg>', page, re.DOTALL)
    assert len(charts) == 4  # score, without a score, cost, latency
    for chart in (charts[0], charts[2], charts[3]):
        assert re.findall(r'<a href="/runs/(n\d)"', chart) == ["n0", "n1", "n2", "n3"]
    [(link, said)] = re.findall(r'<a href="([^"]*)" aria-label="([^"]*)"', charts[1])
    assert said.startswith("9 of 12 refused, nightly, 17 Mar")
    assert client.get(html.unescape(link)).text.count('class="card"') == REFUSED
    assert "Latency of a verdict, nightly, 15 Mar (n1): 2.0 (2.0 to 2.0)" in charts[3]


def test_reviews_are_not_followed(nights: Path, tmp_path: Path, started: Started) -> None:
    place = Path(shutil.copy(nights, tmp_path / "ledger.db"))
    of = {"review_of": "n3", "rater": "Ada"}
    with Ledger.open(place) as ledger:
        for name in ("nightly", "nightly, rated by Ada"):
            review = run_record(name, name=name, fingerprint=f"review:{name}", suite=of)
            ledger.start(replace(review, created=NOW + timedelta(days=9)))
            ledger.write(name, [entry(number, replace(verdict(number), judge="person:Ada")) for number in range(3)])
    for followed, tag in ((None, None), ("nightly", None), (None, "ci")):
        found = history(followed, tag=tag, last=3, ledger=place, draws=100)
        assert [run.id for run in found.runs] == ["n1", "n2", "n3"]
    with httpx.Client(base_url=started(place), trust_env=False) as client:
        assert "3 runs<" in worked_out(client, "/history", tag="ci", last="3")


def test_a_tag_or_a_number_of_runs_is_followed(client: httpx.Client) -> None:
    assert "1 run<" in worked_out(client, "/history", tag="v2")
    assert "2 runs<" in worked_out(client, "/history", name="nightly", last="2")
    assert "No run has" in client.get("/history", params={"name": "nobody"}).text
    assert client.get("/history", params={"last": 0}).status_code == 422


def test_every_list_says_of_how_many_verdicts_a_mean_is(client: httpx.Client) -> None:
    share = "3 of 12 scored"
    for path in ("/", "/compare", "/matrix?run=n3&run=n2"):
        page = worked_out(client, path)
        assert share in page, path
        assert "12 of 12 scored" not in page, path
    assert "3 of 12" in worked_out(client, "/history", name="nightly")
    assert "12 verdicts, 3 scored" in client.get("/review").text


def test_without_a_score_the_page_says_that_there_is_nothing_to_follow(tmp_path: Path, started: Started) -> None:
    with Ledger.open(tmp_path / "ledger.db", create=True) as ledger:
        ledger.start(run_record(total=1))
        ledger.write("r1", [entry(0, unscored(0, Outcome.REFUSED))])
    with httpx.Client(base_url=started(tmp_path / "ledger.db"), trust_env=False) as client:
        assert "nothing in them has a score" in worked_out(client, "/history")
