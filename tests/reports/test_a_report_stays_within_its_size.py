"""A report keeps to its size: pictures lose detail, then texts are cut, then only the worst have details; all are
listed."""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.ledger import hexed, run_record
from support.reports import RUN, ledger_with, picture, refused, restyle, told, written

from beholder.ledger.ledger import Ledger
from beholder.reports.html_report import WrittenReport, write_report
from beholder.verdicts.verdict import CasePicture

CASES = 1000


def blocks(text: str, kind: str) -> list[Any]:
    found = re.findall(rf'<script type="application/json" id="{kind}(?:-\d+)?">(.*?)</script>', text, re.DOTALL)
    return [json.loads(one) for one in found]


def made(ledger: Ledger, **options: Any) -> tuple[WrittenReport, str]:
    out = io.BytesIO()
    done = write_report(ledger, ledger.run(RUN), out, **options)
    assert done.size == len(out.getvalue())
    return done, out.getvalue().decode()


@pytest.fixture(scope="module")
def thousand(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A thousand cases, a picture each of their own and one that four share; small ones, so that it is soon done."""
    some = [picture(number, 160) for number in range(16)]
    entries = []
    for number in range(CASES):
        long = {"improvements": (f"{number}: " + "mend the hand " * 40,)}
        one = told(number, refused(number) if number % 100 == 0 else restyle(number, findings=long), pictures=False)
        of = one.verdict
        shots = tuple((image.source_digest, some[number % 16]) for image in of.images)
        entries.append(type(one)(number, one.case, of, one.answers, shots))
    path = tmp_path_factory.mktemp("thousand") / "ledger.db"
    ledger_with(path, entries).close()
    return path


def test_a_thousand_cases_fit_with_less_detail(thousand: Path) -> None:
    with Ledger.open(thousand, read_only=True) as ledger:
        whole, text = made(ledger)
        assert whole.size < 25_000_000
        assert whole.pictures == "at most 512 pixels wide and high"
        less, small = made(ledger, max_mb=5)
    assert less.size <= 5_000_000
    assert whole.size > 6_000_000
    assert "WebP quality" in less.pictures
    assert less.pictures in small
    assert less.notes == ()
    for page in (text, small):
        [index] = blocks(page, "index")
        assert len(index["case"]) == CASES
        assert sum(len(block) for block in blocks(page, "details")) == CASES
        shots = [shot for block in blocks(page, "pictures") for shot in block]
        assert len(shots) == CASES + CASES // 4  # what four cases share is there once
        assert all(shots)
        assert index["starts"] == [sum(map(len, blocks(page, "pictures")[:at])) for at in range(len(index["starts"]))]


def test_pictures_are_no_larger_than_the_page_says(thousand: Path) -> None:
    with Ledger.open(thousand, read_only=True) as ledger:
        less, text = made(ledger, max_mb=5)
    side = int(re.findall(r"at most (\d+) pixels", less.pictures)[0])
    assert side < 160
    for shot in blocks(text, "pictures")[0][:20]:
        with Image.open(io.BytesIO(base64.b64decode(shot))) as opened:
            assert opened.format == "WEBP"
            assert max(opened.size) == side


def test_texts_are_cut_when_pictures_alone_are_not_enough_and_it_is_said(thousand: Path) -> None:
    with Ledger.open(thousand, read_only=True) as ledger:
        cut, text = made(ledger, max_mb=4.5)
    assert cut.size <= 4_500_000
    assert cut.pictures.startswith("at most 64 pixels")
    assert [note for note in cut.notes if note.startswith("Texts are cut to ")]
    assert all(note in text for note in cut.notes)
    assert len(blocks(text, "index")[0]["case"]) == CASES
    details = [one for block in blocks(text, "details") for one in block]
    assert [one["case"] for one in details][:2] == ["photo-00000/model-a", "photo-00001/anime"]
    assert len(details) == CASES


@pytest.mark.parametrize("room", [0.5, 2.0])
def test_a_page_that_would_be_too_large_keeps_the_worst_and_lists_all(thousand: Path, room: float) -> None:
    with Ledger.open(thousand, read_only=True) as ledger:
        done, text = made(ledger, max_mb=room)
    assert 0.8e6 * room < done.size <= 1e6 * room
    [index] = blocks(text, "index")
    assert len(index["case"]) == len(index["score"]) == CASES
    kept = index["kept"]
    assert any(f"for {len(kept)} of 1,000 verdicts" in note and note in text for note in done.notes)
    details = [one for block in blocks(text, "details") for one in block]
    assert [one["case"] for one in details] == [index["case"][at] for at in kept]
    scores = [-1.0 if score is None else score for score in index["score"]]
    assert max(scores[at] for at in kept) <= min(scores[at] for at in range(CASES) if at not in set(kept))
    shots = [shot for block in blocks(text, "pictures") for shot in block]
    for at, detail in zip(kept, details, strict=True):
        assert index["pictured"][at] == [image["picture"] for image in detail["images"]]
        assert all(shots[number] for number in index["pictured"][at])
    assert not any(index["pictured"][at] for at in range(CASES) if at not in set(kept))


def test_a_page_whose_list_would_be_too_large_lists_the_worst_and_says_which(thousand: Path) -> None:
    with Ledger.open(thousand, read_only=True) as ledger:
        done, text = made(ledger, max_mb=0.25)
    assert done.size <= 250_000
    [index] = blocks(text, "index")
    listed = len(index["case"])
    assert 100 < listed < 700
    assert f"{listed} of 1,000 verdicts" in done.notes[0]
    assert "10 without a score, " in done.notes[0]
    assert " with a flag, scores from 0.25 to " in done.notes[0]
    assert done.notes[0] in text
    assert len(blocks(text, "details")[0]) == len(index["kept"]) > 2
    assert '<span class="number">990</span> scored' in text  # the numbers are of all


@pytest.mark.parametrize("worst", [1, 20, 300])
def test_only_the_worst_are_in_the_page_where_that_is_asked_for(thousand: Path, worst: int) -> None:
    with Ledger.open(thousand, read_only=True) as ledger:
        done, text = made(ledger, worst=worst)
        whole = made(ledger)[1]
    [index], [all_] = blocks(text, "index"), blocks(whole, "index")
    scores = [-1.0 if score is None else score for score in all_["score"]]
    worst_first = sorted(range(CASES), key=lambda at: (scores[at], not all_["flagged"][at]))
    chosen = sorted(worst_first[:worst])
    assert index["case"] == [all_["case"][at] for at in chosen]
    assert [one["case"] for block in blocks(text, "details") for one in block] == index["case"]
    shots = [shot for block in blocks(text, "pictures") for shot in block]
    assert {number for numbers in index["pictured"] for number in numbers} == set(range(len(shots)))
    assert f"{worst} of 1,000 verdicts" in done.notes[0]
    linked = {int(number) for number in re.findall(r'href="#case=(\d+)"', text)}
    assert linked <= set(range(worst))


def test_pictures_that_no_judge_was_sent_stay_with_their_cases(tmp_path: Path) -> None:
    entries, shots = [], {}
    for number in range(24):
        one = told(number, restyle(number), pictures=False)
        name, data = hexed(f"unsent {number}"), picture(number, 64)
        of = replace(one.verdict, images=(), pictures=(CasePicture("image", name),))
        entries.append(replace(one, verdict=of, thumbnails=((name, data),)))
        shots[of.case] = base64.b64encode(data).decode()
    with ledger_with(tmp_path / "ledger.db", entries) as ledger:
        _, text = made(ledger, worst=7)
    [index], found = blocks(text, "index"), [shot for block in blocks(text, "pictures") for shot in block]
    details = [one for block in blocks(text, "details") for one in block]
    assert len(details) == len(found) == 7
    for at, detail in enumerate(details):
        assert [one["picture"] for one in detail["pictures"]] == index["pictured"][at]
        assert [found[one["picture"]] for one in detail["pictures"]] == [shots[detail["case"]]]


def test_what_changed_most_is_kept_and_said_unless_the_worst_are_asked_for(tmp_path: Path, thousand: Path) -> None:
    place = Path(shutil.copy(thousand, tmp_path / "ledger.db"))
    with Ledger.open(place, read_only=True) as ledger:
        before = [replace(one.verdict, flags=()) for one in ledger.stored_verdicts(RUN) if one.verdict.score == 1.0]
    older = [told(number, replace(one, score=0.0), pictures=False) for number, one in enumerate(before[:10])]
    ledger_with(place, older, run_record("r0", total=10)).close()  # ten cases were much worse, and are perfect now
    risen = {one.case for one in before[:10]}
    with Ledger.open(place, read_only=True) as ledger:
        for options, said, expected in (
            ({"worst": 20}, "20 of 1,000 verdicts, those that failed", set()),
            ({"max_mb": 0.25}, "those that changed most, those that failed", risen),
        ):
            done, text = made(ledger, other=ledger.run("r0"), **options)
            assert said in done.notes[0]
            assert risen & set(blocks(text, "index")[0]["case"]) == expected


def test_a_page_whose_numbers_alone_are_too_large_says_so(thousand: Path) -> None:
    with Ledger.open(thousand, read_only=True) as ledger:
        over, text = made(ledger, max_mb=0.1)
    assert over.size > 100_000
    assert any("larger than 0.1 MB" in note for note in over.notes)
    assert len(blocks(text, "index")[0]["case"]) == 1
    assert blocks(text, "details") == []


def test_a_run_without_thumbnails_has_a_report_that_says_so(tmp_path: Path) -> None:
    entries = [told(number, restyle(number), pictures=False) for number in range(4)]
    with ledger_with(tmp_path / "ledger.db", entries) as ledger:
        done, text = made(ledger)
        page = written(ledger, tmp_path / "report.html")
    assert page.stat().st_size == done.size
    assert done.pictures == ""
    assert len(done.notes) == 1
    assert "without thumbnails" in done.notes[0]
    assert done.notes[0] in text


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cases with many images each, of which the ledger keeps none."""
    entries = []
    for number in range(200):
        long = {"improvements": (f"{number}: " + "mend the hand " * 40,)}
        one = told(number, restyle(number, findings=long), pictures=False)
        images = [
            replace(one.verdict.images[0], source_digest=hexed(f"{number} {at}"), digest=hexed(f"{number} {at}"))
            for at in range(40)
        ]
        entries.append(replace(one, verdict=replace(one.verdict, images=tuple(images))))
    path = tmp_path_factory.mktemp("bare") / "ledger.db"
    ledger_with(path, entries).close()
    return path


def test_pictures_that_are_missing_take_room_too(bare: Path) -> None:
    with Ledger.open(bare, read_only=True) as ledger:
        whole, _ = made(ledger, max_mb=1000)
        room = whole.size - 20_000
        done, text = made(ledger, max_mb=room / 1e6)
    assert len(blocks(text, "index")[0]["missing"]) == 8_000
    assert done.size <= room
    assert not [note for note in done.notes if "larger" in note]
    assert [note for note in done.notes if note.startswith("Texts are cut to ")]


def test_it_is_larger_only_where_it_says_so(tmp_path: Path) -> None:
    """From a page that has room enough to one that cannot be small enough: what is said of its size is true."""
    entries = [told(number, restyle(number)) for number in range(6)]
    with ledger_with(tmp_path / "ledger.db", entries) as ledger:
        least, _ = made(ledger, max_mb=0.01)
        for room in (least.size - 1, least.size + 1_000, least.size + 30_000):
            done, _ = made(ledger, max_mb=room / 1e6)
            larger = any("larger than" in note for note in done.notes)
            assert larger == (done.size > room), room
