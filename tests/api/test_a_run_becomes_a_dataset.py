"""`Run.to_dataset` with the real `datasets`: images as features, criteria as columns, null where there is no score; and
the way back: its rows, and its Parquet file, are cases again."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image
from support.host_scripts import WORDS, answer_or_refuse, write_pair

import beholder
from beholder.integrations.trackers import collect_run
from beholder.testing.server import JudgeServer

if TYPE_CHECKING:
    import datasets

ROWS = [
    {"id": "good", "input": "before.png", "edited": "after.png", "instruction": "make it red", "model": "v2"},
    {"id": "refused", "input": "before.png", "edited": "after.png", "instruction": "REFUSE this", "model": "v1"},
    {"id": "gone", "input": "before.png", "edited": "gone.png", "instruction": "make it red", "model": "v1"},
]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[beholder.Run]:
    write_pair(tmp_path)
    monkeypatch.chdir(tmp_path)
    with JudgeServer(answer_or_refuse, keyless=True) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        with beholder.Session("openai:m", ledger="b.db") as session:
            assert len(list(session.judge_many("edit-preservation", ROWS))) == 3
            yield session.run


def rows_by_case(dataset: datasets.Dataset) -> dict[str, dict[str, Any]]:
    return {row["case"]: row for row in dataset}


def test_a_row_has_images_texts_groups_and_scores(run: beholder.Run) -> None:
    import datasets  # a second, in every process that collects tests

    dataset = run.to_dataset()
    assert isinstance(dataset.features["edited"], datasets.Image)
    good = rows_by_case(dataset)["good"]
    assert good["edited"].size == (64, 64)
    assert (good["instruction"], good["group.model"], good["outcome"]) == ("make it red", "v2", "scored")
    assert (good["score"], good["unchanged_regions.score"]) == (pytest.approx(5 / 6), 6)


def test_a_row_without_a_score_has_null_and_its_outcome(run: beholder.Run) -> None:
    rows = rows_by_case(run.to_dataset())
    refused, gone = rows["refused"], rows["gone"]
    assert (refused["outcome"], refused["score"], refused["unchanged_regions.score"]) == ("refused", None, None)
    assert (gone["outcome"], gone["score"], gone["edited"]) == ("unreadable", None, None)
    assert gone["input"].size == (64, 64)


def test_an_image_is_the_file_as_it_was_judged_and_else_the_small_copy(run: beholder.Run) -> None:
    import datasets

    before = Path("before.png").read_bytes()
    Image.new("RGB", (9, 9)).save("after.png")  # another picture than was judged
    dataset = run.to_dataset().cast_column("input", datasets.Image(decode=False))
    good = rows_by_case(dataset)["good"]
    assert good["input"]["bytes"] == before
    assert good["edited"].size == (64, 64)
    Path("before.png").unlink()
    again = run.to_dataset().cast_column("input", datasets.Image(decode=False))
    assert Image.open(BytesIO(rows_by_case(again)["good"]["input"]["bytes"])).format == "JPEG"


def test_images_can_be_left_out(run: beholder.Run) -> None:
    assert {"input", "edited"}.isdisjoint(run.to_dataset(images=False).column_names)


def test_a_name_that_results_have_too_hides_none_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_pair(tmp_path)
    monkeypatch.chdir(tmp_path)
    Path("own.yaml").write_text(
        "rubric: own\nimages: [{role: photo, label: P}, {role: grade, label: G}]\n"
        "fields: [{name: model, about: which product}, {name: outcome, about: what was wanted}]\n"
        "criteria: [{key: score, question: Is it good?, scale: [1, 7]}, {key: light, question: Is it?, scale: [1, 7]}]"
    )
    judge = beholder.ScriptedJudge({"criteria": {key: {"reason": WORDS, "score": 4} for key in ("score", "light")}})
    case = {"photo": "before.png", "grade": "after.png", "model": "XJ-9", "outcome": "a red car"}
    with beholder.Session(judge, ledger="own.db") as session:
        session.judge("own.yaml", **case)
        [row] = session.run.to_dataset()
        with collect_run(session.run, 0) as tracked:
            metrics = tracked.metrics
    assert (row["outcome"], row["model"], row["grade"], row["score"]) == ("scored", "scripted", None, 0.5)
    assert (row["text outcome"], row["text model"], row["image grade"].size) == ("a red car", "XJ-9", (64, 64))
    assert (metrics["own/score"], metrics["own/score.score"], metrics["own/light"]) == (0.5, 4, 4)


def test_images_in_memory_have_their_small_copy() -> None:
    pixels = np.random.default_rng(2).integers(0, 255, (40, 60, 3), np.uint8)
    with beholder.Session(ledger="memory.db") as session:
        session.judge("edit-preservation", input=pixels, edited=pixels, instruction="nothing")
        assert session.run.to_dataset()[0]["edited"].size == (60, 40)


def test_the_rows_are_cases_again(run: beholder.Run) -> None:
    dataset = run.to_dataset().filter(lambda score: score is not None, input_columns="score")
    again = beholder.run(rubric="edit-preservation", cases=dataset, ledger="again.db")
    assert [verdict.case for verdict in again.verdicts()] == ["good"]
    [first], [second] = list(run.verdicts(outcome="scored")), list(again.verdicts())
    assert [one.source_digest for one in first.images] == [one.source_digest for one in second.images]


def test_its_parquet_file_is_a_case_file(run: beholder.Run, tmp_path: Path) -> None:
    run.to_dataset().filter(lambda outcome: outcome != "unreadable", input_columns="outcome").to_parquet(
        str(tmp_path / "verdicts.parquet")
    )
    again = beholder.run(rubric="edit-preservation", cases="verdicts.parquet", ledger="again.db")
    assert {verdict.case for verdict in again.verdicts()} == {"good", "refused"}
    assert again.by_group("group.model").keys() == {"v1", "v2"}
