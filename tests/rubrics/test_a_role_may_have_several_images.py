"""Where a rubric says `many: true`, a role takes several images: in order, each with its number in the prompt."""

from __future__ import annotations

import json
from contextlib import aclosing
from pathlib import Path

import msgspec
import pytest
from support.judges import KEY, PROTOCOLS, judge
from support.several import RUBRIC, plain_png, write_rubric

from beholder.cases.case import Case, CaseRow, CaseSchema
from beholder.cases.files import parse_record, read_rows
from beholder.cases.sources import open_cases
from beholder.errors import CaseError, RubricError
from beholder.images.prepare import prepare_image
from beholder.providers.base import JudgeSettings
from beholder.providers.pydantic_ai import make_pydantic_ai_judge
from beholder.rubrics.brief import Brief, Composer
from beholder.rubrics.rubric import Rubric
from beholder.testing.server import JudgeServer

SCHEMA = CaseSchema((("reference", "portrait"),), (), ("wish",), many=("reference",))


@pytest.fixture
def rubric(tmp_path: Path) -> Rubric:
    return Rubric.load(write_rubric(tmp_path))


def compose(rubric: Rubric, *references: int) -> Brief:
    case = Case("c", {"reference": [plain_png(level) for level in references], "portrait": plain_png(200)})
    prepared = {role: [prepare_image(data) for data in case.sources(role)] for role in case.images}  # type: ignore[arg-type]  # all are bytes
    return Composer(rubric).compose(case, prepared)


def test_each_image_has_its_number_in_its_label(rubric: Rubric) -> None:
    brief = compose(rubric, 1, 2, 3)
    assert [(block.role, block.label) for block in brief.images] == [
        ("reference", "Reference Image 1 of 3"),
        ("reference", "Reference Image 2 of 3"),
        ("reference", "Reference Image 3 of 3"),
        ("portrait", "Portrait"),
    ]
    assert [block.image.data for block in brief.images] == [plain_png(level) for level in (1, 2, 3, 200)]
    assert "- Reference Image (one or several, numbered): a photo of the person" in brief.system


def test_one_image_is_labelled_as_ever_and_order_counts(rubric: Rubric) -> None:
    assert [block.label for block in compose(rubric, 1).images] == ["Reference Image", "Portrait"]
    digests = {compose(rubric, *order).digest for order in ((1,), (1, 2), (2, 1), (1, 2, 2), (1, 1))}
    assert len(digests) == 5
    assert compose(rubric, 1, 2).digest == compose(rubric, 1, 2).digest


@pytest.mark.parametrize("protocol", [*PROTOCOLS, "ollama"])
async def test_they_reach_every_provider_in_order(
    protocol: str, rubric: Rubric, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_API_KEY", KEY)
    brief = compose(rubric, 5, 3, 4)
    with JudgeServer() as server:
        if protocol == "ollama":  # through pydantic-ai
            asked = make_pydantic_ai_judge("ollama", "m", JudgeSettings(base_url=server.openai_url))
        else:
            asked = judge(server, protocol)  # type: ignore[assignment]  # both are judges
        async with aclosing(asked) as one:
            await one.answer(brief)
        (heard,) = server.received
    assert heard.images == tuple(plain_png(level) for level in (5, 3, 4, 200))
    labels = ("Reference Image 1 of 3", "Reference Image 2 of 3", "Reference Image 3 of 3", "Portrait")
    assert tuple(text for text in heard.texts if text in labels) == labels


def test_a_list_where_one_image_is_taken_is_a_sentence(rubric: Rubric) -> None:
    case = Case("c", {"reference": "r.png", "portrait": ["p.png", "q.png"]})
    with pytest.raises(CaseError, match="it has 2 images 'portrait', and the rubric takes one"):
        Composer(rubric).rubric_for(case)
    composer = Composer(Rubric.load("edit-quality"))
    composer.rubric_for(Case("a", {"input": "i.png", "edited": "e.png"}, {"instruction": "x"}))
    with pytest.raises(CaseError, match="it has 3 images 'input', and the rubric takes one"):
        composer.rubric_for(Case("b", {"input": ["1", "2", "3"], "edited": "e.png"}, {"instruction": "x"}))


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (RUBRIC.replace("many: true", "many: often"), "many"),
        (
            RUBRIC.replace("role: portrait", "role: reference_1"),
            "'reference_1' is how a case file names one of several images 'reference'",
        ),
        (RUBRIC.replace("name: wish", "name: reference_22"), "choose another"),
    ],
)
def test_a_rubric_that_says_it_wrong_is_told_where(tmp_path: Path, wrong: str, sentence: str) -> None:
    with pytest.raises(RubricError) as caught:
        Rubric.load(write_rubric(tmp_path, wrong))
    assert sentence in str(caught.value)
    assert "line" in str(caught.value)


def test_a_rubric_without_the_key_is_dumped_as_before() -> None:
    (original, restyled) = Rubric.load("restyle").images
    assert [*msgspec.to_builtins(original)] == ["role", "label", "about"]
    assert not restyled.many


def references(rows: list[CaseRow]) -> tuple[object, ...]:
    (row,) = rows
    assert row.case is not None, row.problems
    return row.case.sources("reference")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("c.jsonl", '{"id": "a", "reference": ["r1.png", "r2.png"], "portrait": "p.png"}'),
        ("c.jsonl", '{"id": "a", "reference_2": "r2.png", "reference_1": "r1.png", "portrait": "p.png"}'),
        ("c.jsonl", '{"id": "a", "images": {"reference": ["r1.png", "r2.png"], "portrait": ["p.png"]}}'),
        ("c.jsonl", '{"id": "a", "images": {"reference_1": "r1.png", "reference_10": "r2.png"}, "portrait": "p.png"}'),
        ("c.csv", 'id,reference,portrait\na,"[""r1.png"", ""r2.png""]",p.png\n'),
        ("c.csv", "id,reference_1,reference_2,reference_3,portrait\na,r1.png,r2.png,,p.png\n"),
        ("c.tsv", "id\treference_2\treference_11\tportrait\na\tr1.png\tr2.png\tp.png\n"),
    ],
)
def test_case_files_name_several_images(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    rows = list(read_rows(tmp_path / name, SCHEMA))
    assert references(rows) == (str(tmp_path / "r1.png"), str(tmp_path / "r2.png"))


def test_parquet_holds_lists_of_images(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {"id": datasets.Value("string"), "reference": datasets.List(datasets.Image()), "portrait": datasets.Image()}
    )
    record = {
        "id": "a",
        "reference": [{"bytes": plain_png(1), "path": None}, {"bytes": plain_png(2), "path": "b.png"}],
        "portrait": {"bytes": plain_png(3), "path": None},
    }
    dataset = datasets.Dataset.from_list([record], features=features)
    dataset.to_parquet(tmp_path / "c.parquet")
    expected = (plain_png(1), plain_png(2))
    assert references(list(read_rows(tmp_path / "c.parquet", SCHEMA))) == expected
    pandas = pytest.importorskip("pandas")
    assert references(list(open_cases(dataset, SCHEMA))) == expected
    assert references(list(open_cases(pandas.read_parquet(tmp_path / "c.parquet"), SCHEMA))) == expected


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (
            '{"id": "a", "reference": "r.png", "portrait": ["p.png", "q.png"]}',
            "the column 'portrait' is a list of 2 images, and the rubric takes one in this role",
        ),
        (
            '{"id": "a", "reference": ["r.png", null], "portrait": "p.png"}',
            "the column 'reference' has an empty entry in its list",
        ),
        ('{"id": "a", "reference": [], "portrait": "p.png"}', "lacks the image 'reference'"),
        (
            '{"id": "a", "reference": "r.png", "reference_2": "s.png", "portrait": "p.png"}',
            "gives the image 'reference' twice: as one column and as numbered ones",
        ),
        (
            '{"id": "a", "reference": "r.png", "portrait": "p.png", "images": {"portrait": "q.png"}}',
            "gives the image 'portrait' twice: in 'images' and beside it",
        ),
        (
            '{"id": "a", "reference": "r.png", "portrait": "p.png", "wish": "x", "fields": {"wish": "x"}}',
            "gives the field 'wish' twice: in 'fields' and beside it",
        ),
        (
            '{"id": "a", "images": {"reference": "r.png", "portrait": "p.png", "portait": "q.png"}}',
            "has the unknown image 'portait' in 'images'; did you mean 'portrait'?",
        ),
        (
            '{"id": "a", "images": {"reference": "r.png", "portrait": "p.png"}, "fields": {"zzz": "q"}}',
            "has the unknown field 'zzz' in 'fields'; there are wish",
        ),
    ],
)
def test_what_contradicts_itself_is_a_problem_of_its_row(content: str, problem: str) -> None:
    assert parse_record(json.loads(content), "line 1", SCHEMA, "").problems == (problem,)


def test_images_fields_and_groups_may_be_nested_as_in_recorded_answers() -> None:
    nested = {
        "case": "a",
        "images": {"reference": "r.png", "portrait": "p.png"},
        "fields": {"wish": "older"},
        "groups": {"model": "v2"},
        "seed": 7,
    }
    flat = {"id": "a", "reference": "r.png", "portrait": "p.png", "wish": "older", "model": "v2", "seed": 7}
    case = parse_record(nested, "line 1", SCHEMA, "").case
    assert case == parse_record(flat, "line 1", SCHEMA, "").case is not None
