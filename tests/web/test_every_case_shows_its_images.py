"""Every case shows its images, also where no judge was sent any; a card says by which gate a case failed."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from support.ledger import case, run_record
from support.reports import ledger_with, picture, restyle, told
from support.web import RUN, Started, worked_out

from beholder.cases.case import Case
from beholder.images.prepare import digest
from beholder.verdicts.verdict import CasePicture, Flag, Verdict


def described(number: int, **changes: object) -> Verdict:
    """A verdict on a text alone, as the instruments give it: no image was sent."""
    return restyle(number, rubric="description", judge="instruments", images=(), **changes)


@pytest.fixture
def site(tmp_path: Path, started: Started) -> str:
    """One case whose picture the ledger knows, one of an older ledger whose file is there, one whose file is gone."""
    data = picture(1)
    (tmp_path / "photo.webp").write_bytes(data)
    known = described(1, pictures=(CasePicture("image", digest(data)),))
    older = described(2, flags=(Flag("gate", "improvements", why="it has entries"),), passed=False)
    gone = described(3)
    entries = [told(number, restyle(number)) for number in (1, 2, 3)]
    files = ({"image": "/nowhere/photo.webp"}, {"image": str(tmp_path / "photo.webp")}, {"image": "/nowhere/p.webp"})
    entries = [
        replace(entry, verdict=one, case=case(one, images=images), thumbnails=())
        for entry, one, images in zip(entries, (known, older, gone), files, strict=True)
    ]
    entries[0] = replace(entries[0], thumbnails=((digest(data), data),))
    ledger_with(tmp_path / "ledger.db", entries, run_record(RUN)).close()
    return started(tmp_path / "ledger.db")


def test_images_of_the_case_are_shown_where_no_judge_was_sent_any(site: str) -> None:
    with httpx.Client(base_url=site, trust_env=False) as client:
        cards = client.get(f"/runs/{RUN}/cases", params={"sort": "order"}).text.split('<li class="card">')[1:]
        assert [one.count("<img") for one in cards] == [1, 1, 0]
        assert ["✗ failed by improvements" in one for one in cards] == [False, True, False]
        for number, card in ((1, cards[0]), (2, cards[1])):
            src = card.split('<img src="')[1].split('"')[0].replace("&amp;", "&")
            assert client.get(src).headers["content-type"].startswith("image/")
            page = client.get(f"/runs/{RUN}/case", params={"id": described(number).case}).text
            large = page.split('class="shots of-1 tall"><img src="')[1].split('"')[0].replace("&amp;", "&")
            assert client.get(large, follow_redirects=True).status_code == 200
        assert "data-stage" not in client.get(f"/runs/{RUN}/case", params={"id": described(3).case}).text


def test_runs_are_compared_by_them_too(tmp_path: Path, started: Started) -> None:
    shots: set[str] = set()
    for run, score in (("r1", 0.25), ("r2", 0.75)):
        entries = []
        for number in (1, 2):
            data = picture(number + int(4 * score))
            one = described(number, pictures=(CasePicture("image", digest(data)),), score=score)
            shots.add(f"/pictures/{digest(data)}.webp")
            of = case(one, images={"image": "/nowhere/photo.webp"})
            entries.append(
                replace(told(number, restyle(number)), verdict=one, case=of, thumbnails=((digest(data), data),))
            )
        ledger_with(tmp_path / "ledger.db", entries, run_record(run)).close()
    with httpx.Client(base_url=started(tmp_path / "ledger.db"), trust_env=False) as client:
        for path in ("/compare?before=r1&after=r2", "/matrix?run=r1&run=r2"):
            assert set(re.findall(r'<img src="([^"]*)"', worked_out(client, path))) == shots, path


def test_only_images_of_the_case_are_read(site: str) -> None:
    asked = {"run": RUN, "case": described(2).case}
    with httpx.Client(base_url=site, trust_env=False) as client:
        for wrong in ({"at": 1}, {"case": "nobody"}, {"case": described(3).case}):
            assert client.get("/case-pictures/small.webp", params={**asked, **wrong}).status_code == 404
        assert client.get("/case-pictures/small.webp", params=asked).status_code == 200


def test_a_run_without_thumbnails_shows_its_files(tmp_path: Path, started: Started) -> None:
    data = picture(1)
    (tmp_path / "photo.webp").write_bytes(data)
    one = restyle(1)
    images = tuple(replace(image, source_digest=digest(data)) for image in one.images)
    one = replace(one, images=images)
    files = {"input": str(tmp_path / "photo.webp"), "edited": "/nowhere/photo.webp"}
    entry = replace(told(1, restyle(1)), verdict=one, case=case(one, images=files), thumbnails=())
    ledger_with(tmp_path / "ledger.db", [entry], run_record(RUN)).close()
    with httpx.Client(base_url=started(tmp_path / "ledger.db"), trust_env=False) as client:
        card = client.get(f"/runs/{RUN}/cases").text.split('<li class="card">')[1]
        assert card.count("<img") == 1
        src = card.split('<img src="')[1].split('"')[0].replace("&amp;", "&")
        assert client.get(src).headers["content-type"] == "image/jpeg"


def test_a_case_without_images_says_nothing_of_them(tmp_path: Path, started: Started) -> None:
    one = described(1)
    entry = replace(told(1, restyle(1)), verdict=one, case=Case(one.case, {}, {"output": "a cup"}), thumbnails=())
    ledger_with(tmp_path / "ledger.db", [entry], run_record(RUN)).close()
    with httpx.Client(base_url=started(tmp_path / "ledger.db"), trust_env=False) as client:
        assert "no picture" in client.get(f"/runs/{RUN}/cases").text
