"""The matrix: models or runs as columns, rows that differ most first, and every cell leads to its case."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from support.changes import AFTER, BEFORE, BETTER, CASES, LOST, WORSE, changed_runs
from support.ledger import case, entry, hexed, run_record, verdict
from support.votes import pairs
from support.web import Started, worked_out

from beholder.ledger.ledger import Ledger
from beholder.ledger.types import Entry
from beholder.reports.matrix import compute_group_matrix, compute_pair_matrix, compute_run_matrix
from beholder.verdicts.verdict import CasePicture

MODELS = ("aurora", "basalt", "cobalt")


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """Five photographs with one instruction each, edited by three models; of the last a model has no score."""
    place = tmp_path / "models.db"
    entries: list[Entry] = []
    for photo in range(5):
        for number, model in enumerate(MODELS):
            score = 0.5 if photo == 0 else (photo + 2 * number) / 10
            one = replace(verdict(photo), case=f"p{photo}/{model}", score=None if (photo, number) == (4, 2) else score)
            given = {"input": f"/data/p{photo}.jpg", "edited": f"/data/{model}/p{photo}.png"}
            entries.append(
                entry(
                    len(entries),
                    one,
                    case=case(one, images=given, fields={"instruction": "red"}, groups={"model": model}),
                )
            )
    with Ledger.open(place, create=True) as ledger:
        ledger.start(run_record("m1", name="models", total=len(entries)))
        ledger.write("m1", entries)
    return place


def test_what_models_made_for_one_photograph_is_one_row(models: Path) -> None:
    found = compute_group_matrix(str(models), "m1", "model")
    assert [column.name for column in found.columns] == list(MODELS)
    assert [(column.scored, column.cases) for column in found.columns] == [(5, 5), (5, 5), (4, 5)]
    assert len(found) == 5
    assert found.cases[1] == ("p1/aurora", "p1/basalt", "p1/cobalt")
    assert found.spread.round(3).tolist() == [0.0, 0.4, 0.4, 0.4, 0.2]
    assert found.select("differ").tolist() == [1, 2, 3, 4]
    assert found.select("lacking").tolist() == [4]
    assert found.select(sort="worst").tolist()[0] == 1


def test_runs_are_columns_over_the_cases_that_they_share(tmp_path: Path) -> None:
    place = changed_runs(tmp_path / "ledger.db")
    found = compute_run_matrix(str(place), (BEFORE, AFTER))
    assert len(found) == CASES
    assert len(found.select("differ")) == len(WORSE) + len(BETTER)
    assert found.columns[1].scored == CASES - len(LOST)
    assert compute_run_matrix(str(place), (AFTER, "r3")).select("differ").tolist() == []
    assert compute_run_matrix(str(place), (BEFORE, AFTER), "accuracy").scores[0].tolist() == [5.0, 5.0]


def test_of_pairs_a_cell_is_the_share_that_its_model_won(tmp_path: Path) -> None:
    with pairs(tmp_path / "pairs.db") as ledger:
        run = ledger.runs()[0]
        entries = []
        for stored in ledger.stored_verdicts(run.id):  # every pair of a photograph is made from the same file
            photo = stored.groups["source"]
            first, *others = stored.verdict.images
            images = (replace(first, source_digest=hexed(photo)), *others)
            one = replace(stored.verdict, images=images)
            entries.append(entry(stored.position, one, case=ledger.case(run.id, one.case), answers=()))
    with Ledger.open(tmp_path / "ledger.db", create=True) as ledger:
        ledger.start(run)
        ledger.write(run.id, entries)
    found = compute_pair_matrix(str(tmp_path / "ledger.db"), run.id)
    assert [column.name for column in found.columns] == list(MODELS)
    assert found.labels == tuple(f"photo-{photo:05d}" for photo in range(6))
    # The judge prefers red; the last four pairs are a flip, two bad ones, a tie, and a call that failed.
    assert found.scores[:4].tolist() == [[1.0, 0.5, 0.0]] * 4
    assert found.scores[5].tolist() == [0.25, 0.0, 0.5]


def test_the_page_shows_a_row_for_each_photograph_and_links_its_cells(models: Path, started: Started) -> None:
    with httpx.Client(base_url=started(models), trust_env=False) as client:
        page = worked_out(client, "/matrix", run="m1")
        assert re.findall(r'class="strong" href="[^"]*"><bdi>([^<]*)', page) == list(MODELS)
        assert page.count('<a class="cell" href="/runs/m1/case?id=') == 15
        assert "4 of 5 scored" in page
        assert re.search(r'role="status">5 rows<', page)
        differ = client.get("/matrix", params={"run": "m1", "only": "differ"}).text
        assert re.search(r'role="status">4 rows<', differ)
        assert client.get("/matrix", params={"run": "m1", "sort": "size"}).status_code == 400
        assert client.get("/matrix", params={"run": ["m1"] * 3, "by": "gone"}).status_code == 200
        assert 'href="/matrix?run=m1"' in client.get("/runs/m1").text


def test_a_criterion_has_its_own_means_and_the_colors_of_its_scale(tmp_path: Path, started: Started) -> None:
    place = changed_runs(tmp_path / "ledger.db")
    of = f"/matrix?run={BEFORE}&run={AFTER}"
    with httpx.Client(base_url=started(place), trust_env=False) as client:
        overall = worked_out(client, of)
        page = worked_out(client, f"{of}&on=exceptional&sort=order")
    columns = compute_run_matrix(str(place), (BEFORE, AFTER), "exceptional").columns
    assert min(column.mean or 0 for column in columns) > 1
    for column in columns:
        head = f'{column.mean:.3f}</span> <span class="muted small">{column.scored} of {column.cases} scored'
        assert head in page
        assert head not in overall
    assert page.count("14 Mar 2026, 15:09</span>") >= 2  # runs of one name are still told apart
    shown = set(re.findall(r'class="grade (\w+) number">(\d)<', page))
    assert shown == {("good", "5"), ("good", "4"), ("fair", "3"), ("bad", "2")}


def test_photographs_without_a_name_are_told_apart_by_what_was_judged(tmp_path: Path) -> None:
    """Their files are not known, and no image was sent: only the digests of the pictures say which is which."""
    entries: list[Entry] = []
    for photo in range(3):
        for model in MODELS[:2]:
            pictures = (CasePicture("input", hexed(f"photo {photo}")), CasePicture("edited", hexed(f"{photo} {model}")))
            one = replace(verdict(photo), case=f"p{photo}/{model}", images=(), pictures=pictures)
            given = {"input": b"of a notebook", "edited": b"too"}
            of = case(one, images=given, fields={"instruction": "red"}, groups={"model": model})
            entries.append(entry(len(entries), one, case=of))
    with Ledger.open(tmp_path / "ledger.db", create=True) as ledger:
        ledger.start(run_record("m1", total=len(entries)))
        ledger.write("m1", entries)
    found = compute_group_matrix(str(tmp_path / "ledger.db"), "m1", "model")
    assert found.cases == tuple((f"p{photo}/aurora", f"p{photo}/basalt") for photo in range(3))


def test_where_nothing_names_a_model_the_page_says_so(tmp_path: Path, started: Started) -> None:
    one = replace(verdict(0), case="a")
    with Ledger.open(tmp_path / "ledger.db", create=True) as ledger:
        ledger.start(run_record("m1", total=1))
        ledger.write("m1", [entry(0, one, case=case(one, groups={"source": hexed("a")}))])
    with httpx.Client(base_url=started(tmp_path / "ledger.db"), trust_env=False) as client:
        assert "name no models" in client.get("/matrix").text
        assert client.get("/matrix", params={"run": "none"}).status_code == 404
