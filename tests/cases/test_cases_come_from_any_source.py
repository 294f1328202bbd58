"""A case file, a dataset, a frame or a generator becomes rows that can be read twice, and memory stays flat."""

from __future__ import annotations

import gc
import hashlib
import io
import os
import tracemalloc
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from beholder.cases import sources
from beholder.cases.case import Case, CaseRow, CaseSchema
from beholder.cases.sources import iter_cases, open_cases
from beholder.cases.validation import check_cases, select_rows
from beholder.errors import CaseError

SCHEMA = CaseSchema((("input", "edited"),), ("instruction",))


def picture(seed: int, side: int = 48) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (side, side, 3), np.uint8))


def jpeg(seed: int) -> bytes:
    buffer = io.BytesIO()
    picture(seed).save(buffer, "JPEG")
    return buffer.getvalue()


def records(count: int = 3) -> list[dict[str, object]]:
    return [
        {
            "id": f"c{n}",
            "input": {"bytes": jpeg(n), "path": f"{n}.jpg"},
            "edited": {"bytes": jpeg(n + 100), "path": None},
            "instruction": "warmer",
            "model": "v1",
        }
        for n in range(count)
    ]


def cases_of(rows: Iterable[CaseRow]) -> list[Case]:
    cases = []
    for row in rows:
        assert row.case is not None, row.problems
        cases.append(row.case)
    return cases


EXPECTED = [
    Case(f"c{n}", {"input": jpeg(n), "edited": jpeg(n + 100)}, {"instruction": "warmer"}, {"model": "v1"})
    for n in range(3)
]


def hugging_face() -> Any:
    datasets = pytest.importorskip("datasets")
    text = datasets.Value("string")
    features = {"id": text, "input": datasets.Image(), "edited": datasets.Image(), "instruction": text, "model": text}
    return datasets.Dataset.from_list(records(), features=datasets.Features(features))


def write_parquet(tmp_path: Path) -> Path:
    path = tmp_path / "cases.parquet"
    hugging_face().to_parquet(path)
    return path


def test_a_dataset_of_hugging_face(tmp_path: Path) -> None:
    rows = open_cases(hugging_face(), SCHEMA)
    assert cases_of(rows) == cases_of(rows) == EXPECTED


def test_a_dataset_in_another_format_gives_the_same_cases() -> None:
    assert cases_of(open_cases(hugging_face().with_format("numpy"), SCHEMA)) == EXPECTED


def test_a_mode_that_a_dataset_asks_for_is_honored() -> None:
    datasets = pytest.importorskip("datasets")
    (case, *_) = cases_of(open_cases(hugging_face().cast_column("input", datasets.Image(mode="L")), SCHEMA))
    data = case.images["input"]
    assert isinstance(data, bytes)
    assert Image.open(io.BytesIO(data)).mode == "L"


def test_a_streamed_dataset_is_streamed_once() -> None:
    datasets = pytest.importorskip("datasets")
    pulled: list[object] = []

    def generate() -> Iterator[dict[str, object]]:
        for record in records():
            pulled.append(record["id"])
            yield record

    rows = open_cases(datasets.IterableDataset.from_generator(generate, features=hugging_face().features), SCHEMA)
    assert cases_of(rows) == cases_of(rows) == EXPECTED
    assert pulled == ["c0", "c1", "c2"]


def test_a_parquet_file_that_datasets_wrote(tmp_path: Path) -> None:
    path = write_parquet(tmp_path)
    assert cases_of(open_cases(path, SCHEMA)) == cases_of(open_cases(str(path), SCHEMA)) == EXPECTED


def test_a_pandas_frame(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_parquet(write_parquet(tmp_path))
    assert cases_of(open_cases(frame, SCHEMA)) == EXPECTED


def test_empty_cells_of_a_pandas_frame_are_no_groups() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "id": ["a", "b"],
            "input": ["i.png", None],
            "edited": ["e.png", "f.png"],
            "instruction": "x",
            "steps": pandas.array([4, None], "Int64"),
            "share": [0.5, float("nan")],
            "day": pandas.to_datetime(["2026-01-01", None]),
        }
    )
    first, second = open_cases(frame, SCHEMA)
    assert first.case is not None
    assert first.case.groups == {"steps": "4", "share": "0.5", "day": "2026-01-01 00:00:00"}
    assert second.problems == ("lacks the image 'input'",)


@pytest.mark.parametrize("lazy", [False, True])
def test_a_polars_frame(tmp_path: Path, lazy: bool) -> None:
    polars = pytest.importorskip("polars")
    path = write_parquet(tmp_path)
    frame = polars.scan_parquet(path) if lazy else polars.read_parquet(path)
    assert cases_of(open_cases(frame, SCHEMA)) == EXPECTED


def test_a_list_of_cases_is_not_copied() -> None:
    rows = open_cases(EXPECTED, SCHEMA)
    assert all(case is given for case, given in zip(cases_of(rows), EXPECTED, strict=True))


def test_a_generator_can_be_read_twice_and_is_read_no_further_than_asked() -> None:
    pulled = []

    def endless() -> Iterator[dict[str, object]]:
        n = 0
        while True:
            pulled.append(n)
            yield {"id": n, "input": picture(n), "edited": "e.png", "instruction": "x"}
            n += 1

    rows = open_cases(endless(), SCHEMA)
    first = cases_of(select_rows(rows, limit=2))
    assert cases_of(select_rows(rows, limit=2)) == first
    assert pulled == [0, 1]
    assert len(cases_of(select_rows(rows, limit=4))) == 4
    assert pulled == [0, 1, 2, 3]


def test_two_readers_at_once_see_all_rows() -> None:
    rows = open_cases(iter(EXPECTED), SCHEMA)
    assert [(a.id, b.id) for a, b in zip(rows, rows, strict=True)] == [("c0", "c0"), ("c1", "c1"), ("c2", "c2")]


def test_spooled_images_are_kept_once_by_their_digest_and_deleted_with_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    shared = picture(1)
    rows = open_cases(({"id": n, "input": shared, "edited": shared, "instruction": "x"} for n in range(5)), SCHEMA)
    data = cases_of(rows)[0].images["input"]
    assert isinstance(data, bytes)
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path.name for path in kept] == [hashlib.sha256(data).hexdigest()]
    del rows
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_memory_stays_flat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "KEPT_BYTES", 0)
    image = os.urandom(500_000)
    rows = open_cases(
        ({"id": n, "input": image[:-8] + n.to_bytes(8), "edited": "e.png", "instruction": "x"} for n in range(60)),
        SCHEMA,
    )
    tracemalloc.start()
    try:
        assert sum(1 for _ in rows) == sum(1 for _ in rows) == 60
        assert tracemalloc.get_traced_memory()[1] < 8_000_000  # of 30 MB
    finally:
        tracemalloc.stop()


def test_the_same_call_has_the_same_fingerprint() -> None:
    def rows() -> Iterable[CaseRow]:
        return open_cases(
            ({"id": n, "input": picture(n), "edited": picture(n + 9), "instruction": "x"} for n in range(3)), SCHEMA
        )

    first, second = check_cases(rows()), check_cases(rows())
    assert (first.count, first.problem_count) == (3, 0)
    assert first.fingerprint == second.fingerprint
    # The same images from files with other names are the same content, but not the same files.
    assert check_cases(open_cases(EXPECTED, SCHEMA)).fingerprint != first.fingerprint


def test_images_in_memory_can_be_shuffled() -> None:
    ids = [row.id for row in select_rows(open_cases(EXPECTED, SCHEMA), shuffle=7)]
    assert sorted(ids) == ["c0", "c1", "c2"]
    shuffled = {case.id: case for case in cases_of(select_rows(open_cases(EXPECTED, SCHEMA), shuffle=7))}
    assert [shuffled[case.id] for case in EXPECTED] == EXPECTED


def test_a_mapping_without_an_id_gets_one_by_its_content() -> None:
    record = {"input": "photos/a.jpg", "edited": "out/b.warm.png", "instruction": "x"}
    first, second, other = cases_of(open_cases([record, dict(record), {**record, "instruction": "y"}], SCHEMA))
    assert first.id == second.id != other.id
    assert first.id.startswith("b.warm-")
    assert len(first.id) == len("b.warm-") + 8


def test_paths_are_relative_to_the_base() -> None:
    record = {"id": "a", "input": "a.jpg", "edited": {"path": "b.png", "bytes": None}, "instruction": "x"}
    (case,) = cases_of(open_cases([record], SCHEMA, base="photos"))
    assert case.images == {"input": os.path.join("photos", "a.jpg"), "edited": os.path.join("photos", "b.png")}


def test_what_is_wrong_with_one_case_is_a_problem_of_its_row() -> None:
    mixed = [
        {"id": "a", "input": np.zeros((0, 5, 3), np.uint8), "edited": "e.png", "instruction": "x"},
        Case("b", {"input": "i.png"}, {"instruction": "x"}),
        "c.png",
        Case("d\n", {"input": "i.png", "edited": "e.png"}),
        {"id": "e", "input": "i.png", "edited": "e.png", "instruction": "x", "mask": picture(1)},
    ]
    assert [row.problems for row in open_cases(mixed, SCHEMA)] == [
        ("the column 'input' is an array of shape (0, 5, 3) without pixels (5×0)",),
        ("lacks the image 'edited'",),
        ("is of type str; give a Case or a mapping",),
        ("its id 'd\\n' holds characters that cannot be printed",),
        (
            "the column 'mask' holds a nested value or raw bytes; a column that the rubric does not know is a group, "
            "one plain value",
        ),
    ]


def test_a_generator_that_raises_is_a_sentence_each_time() -> None:
    def failing() -> Iterator[Case]:
        yield EXPECTED[0]
        raise OSError("the server is gone")

    rows = open_cases(failing(), SCHEMA)
    for _ in range(2):
        seen: list[str] = []
        with pytest.raises(CaseError, match="Reading case 2 raised OSError: the server is gone") as caught:
            seen.extend(row.id for row in rows)
        assert isinstance(caught.value.__cause__, OSError)
    with pytest.raises(CaseError, match="Reading case 2"):
        list(iter_cases(failing(), SCHEMA))


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ({"id": "a"}, "A mapping is one case; give a list"),
        (EXPECTED[0], "This is one case; give a list"),
        (b"cases.jsonl", "this is of type bytes"),
        (7, "this is of type int"),
    ],
)
def test_what_is_no_source_is_said(source: Any, sentence: str) -> None:
    with pytest.raises(CaseError, match=sentence):
        open_cases(source, SCHEMA)


def test_a_dataset_with_splits_names_them() -> None:
    datasets = pytest.importorskip("datasets")
    with pytest.raises(CaseError, match="give one of them: train, test"):
        open_cases(datasets.DatasetDict({"train": hugging_face(), "test": hugging_face()}), SCHEMA)


def test_a_full_disk_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(CaseError, match=r"temporary file \(No space left on device\); set TMPDIR"):
        list(open_cases(iter([Case("a", {"input": bytes(9999), "edited": "e.png"})]), SCHEMA))
