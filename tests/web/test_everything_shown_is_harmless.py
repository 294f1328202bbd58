"""Whatever models, cases and files say is text on a page; only images of cases are served, and no path is followed."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from PIL import Image
from support.ledger import case, entry, hexed, run_record, verdict
from support.reports import Opened, ledger_with, picture, restyle, told
from support.web import RUN, Started, worked_out

from beholder.images.prepare import digest
from beholder.ledger.ledger import Ledger
from beholder.verdicts.verdict import Flag, Outcome, SentImage

if TYPE_CHECKING:
    from playwright.sync_api import Page

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'{{1234567*7}}\u202egnp.\ud800"


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    """A run in which everything that comes from elsewhere tries to be markup."""
    place = tmp_path / "evil.db"
    one = restyle(2, case=EVIL, model=EVIL, grade=EVIL, style=EVIL, assessment=EVIL, findings={EVIL: (EVIL,)})
    result = replace(one.criteria["accuracy"], reason=EVIL)
    one = replace(one, criteria={EVIL: result}, flags=(Flag(EVIL, EVIL, float("nan"), EVIL),), answer=EVIL)
    better = replace(one, score=0.99)
    for run, of in ((RUN, one), ("r2", better)):
        ledger_with(
            place,
            [replace(told(0, of), case=case(of, fields={EVIL: EVIL}, groups={EVIL: EVIL})), told(1, restyle(1))],
            run_record(run, name=EVIL, tags=(EVIL,), suite={"judges": [EVIL]}),
        ).close()
    return place


def addresses(at: httpx.Client) -> Iterator[str]:
    yield from ("/", f"/runs/{RUN}", f"/runs/{RUN}/cases", "/compare", "/agreement", "/calibration")
    for path in (f"/compare?before={RUN}&after=r2&show=better", f"/matrix?run={RUN}&run=r2", "/history"):
        assert "1234567" in worked_out(at, path), path  # what is hostile is shown
        yield path
    for one in at.get(f"/api/runs/{RUN}/verdicts").json()["verdicts"]:
        yield str(httpx.URL(f"/runs/{RUN}/case", params={"id": one["case"], "place": "0"}))
    yield str(httpx.URL(f"/runs/{RUN}/cases", params={"q": EVIL.encode("utf-8", "replace").decode(), "sort": "best"}))
    yield str(httpx.URL("/nowhere/<script>alert(1)</script>"))


def test_markup_from_elsewhere_is_text(evil: Path, started: Started) -> None:
    with httpx.Client(base_url=started(evil), trust_env=False) as client:
        for address in addresses(client):
            text = client.get(address).text
            assert "<script>alert" not in text, address
            assert "<img src=x" not in text, address
            assert "\u202e" not in text, address
            assert "8641969" not in text, address


def test_nothing_of_it_runs_in_a_browser(evil: Path, started: Started, visited: Opened) -> None:
    site = started(evil)
    with httpx.Client(base_url=site, trust_env=False) as client:
        for address in addresses(client):
            if "nowhere" in address:
                continue
            page: Page = visited(address, at=site)
            page.wait_for_load_state("networkidle")
            assert page.locator("script:not([src]):not([type='application/json'])").count() == 0
            assert page.locator("img[src='x']").count() == 0


def test_every_answer_forbids_script_that_is_not_ours(client: httpx.Client) -> None:
    for path in ("/", f"/runs/{RUN}", "/assets/app.js", "/api/runs", "/nowhere", f"/pictures/{hexed('source 0')}.webp"):
        answer = client.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"


def test_no_page_has_inline_script_or_style(client: httpx.Client) -> None:
    for path in ("/", f"/runs/{RUN}", f"/runs/{RUN}/cases", f"/runs/{RUN}/case?id=photo-00001/anime"):
        text = client.get(path).text
        assert " style=" not in text
        assert " onclick=" not in text
        assert "<style" not in text
        assert all('src="' in part or 'type="application/json"' in part for part in text.split("<script")[1:])


@pytest.mark.parametrize(
    "name",
    [
        "../../../../etc/passwd",
        "..%2f..%2fapp.py",
        "%2e%2e/app.py",
        "/etc/passwd",
        "app.py",
        "__init__.py",
        "beholder.css%00.js",
        "\\..\\app.py",
    ],
)
def test_no_path_from_a_request_reaches_the_disk(client: httpx.Client, name: str) -> None:
    for start in ("/assets/", "/pictures/", "/"):
        answer = client.get(start + name)
        assert answer.status_code in (404, 422), start
        assert "root:" not in answer.text
        assert "import" not in answer.text


@pytest.mark.parametrize("wrong", ["0" * 64, "0" * 63, "0" * 65, "G" * 64, "..", "a" * 64 + "/../x", hexed("no case")])
def test_only_pictures_that_the_ledger_keeps_are_served(client: httpx.Client, wrong: str) -> None:
    assert client.get(f"/pictures/{wrong}.webp").status_code in (404, 422)
    large = client.get(f"/pictures/{wrong}/large.webp", params={"run": RUN, "case": "photo-00001/anime"})
    assert large.status_code in (404, 422)


def test_a_picture_is_what_its_digest_says_and_may_be_kept(client: httpx.Client) -> None:
    answer = client.get(f"/pictures/{hexed('made 1')}.webp")
    assert answer.content == picture(1)
    assert answer.headers["content-type"] == "image/webp"
    assert "immutable" in answer.headers["cache-control"]


def a_photo(folder: Path, name: str) -> tuple[Path, bytes]:
    out = io.BytesIO()
    exif = Image.Exif()
    exif[0x010E] = "taken at 48.8584 N"
    Image.effect_mandelbrot((900, 700), (-2, -1.5, 1, 1.5), 50).convert("RGB").save(out, "JPEG", exif=exif)
    path = folder / name
    path.write_bytes(out.getvalue())
    return path, out.getvalue()


def test_a_large_picture_is_made_anew_from_the_file_that_was_judged(tmp_path: Path, started: Started) -> None:
    path, data = a_photo(tmp_path, "photo.jpg")
    found = digest(data)
    image = SentImage("input", found, 900, 700, len(data), False, "image/jpeg", found, 900, 700, "jpeg")
    one = verdict(1, images=(image,))
    with Ledger.open(tmp_path / "ledger.db", create=True) as ledger:
        ledger.start(run_record(RUN))
        ledger.write(
            RUN, [entry(1, one, case=case(one, images={"input": str(path)}), thumbnails=((found, picture(1)),))]
        )
    with httpx.Client(base_url=started(tmp_path / "ledger.db"), trust_env=False) as client:
        asked = {"run": RUN, "case": one.case}
        large = client.get(f"/pictures/{found}/large.webp", params=asked)
        assert large.headers["content-type"] == "image/jpeg"
        shown = Image.open(io.BytesIO(large.content))
        assert (shown.format, shown.size) == ("JPEG", (900, 700))
        assert b"48.8584" in data
        assert b"48.8584" not in large.content
        assert client.get(f"/pictures/{found}/large.webp", params={**asked, "case": "another"}).status_code == 404
    # Another file under that name by now: the small copy of the one that was judged is shown.
    path.write_bytes(data + b"changed")
    with httpx.Client(base_url=started(tmp_path / "ledger.db"), trust_env=False, follow_redirects=True) as client:
        assert client.get(f"/pictures/{found}/large.webp", params=asked).content == picture(1)
        path.unlink()
        path.symlink_to("/etc/passwd")
        assert client.get(f"/pictures/{found}/large.webp", params=asked).content == picture(1)


def test_an_unscored_case_has_a_page(tmp_path: Path, started: Started) -> None:
    one = verdict(1, outcome=Outcome.REFUSED, criteria={}, score=None, detail="it said no", images=())
    ledger_with(tmp_path / "ledger.db", [entry(1, one)]).close()
    with httpx.Client(base_url=started(tmp_path / "ledger.db"), trust_env=False) as client:
        assert "it said no" in client.get(f"/runs/{RUN}/case", params={"id": one.case}).text
