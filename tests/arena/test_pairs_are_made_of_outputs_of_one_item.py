"""Cases of several models become pairs: which belong together, who is first, and sentences on what is no pair."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beholder.arena.pairs import CollectedItems, OutputNames, PairPool, collect_items, derive_output_schema
from beholder.cases.case import Case, CaseRow, CaseSchema, id_problem
from beholder.cases.patterns import pair_rows
from beholder.errors import CaseError, UsageError

EDITED = OutputNames(("output", "edited"))
EDIT_PAIRS = CaseSchema((("input", "first", "second"),), ("instruction",))


def row(
    model: str, photo: str, *, instruction: str = "make it red", image: str | bytes = "", source: str = ""
) -> CaseRow:
    id_ = f"{model}/{photo}/{instruction}"
    groups = {"model": model, **({"source": source} if source else {})}
    images = {"input": f"photos/{photo}.png", "edited": image or f"out/{model}/{photo}-{instruction}.png"}
    return CaseRow(f"cases.jsonl, {id_}", Case(id_, images, {"instruction": instruction}, groups), (), id_)


def collect(*rows: CaseRow) -> CollectedItems:
    return collect_items(rows, EDITED)


def pool_of(*rows: CaseRow) -> PairPool:
    found = collect(*rows)
    assert found.problems == ()
    return PairPool(found.items, EDITED)


def test_each_two_outputs_of_a_photograph_and_instruction_are_one_pair() -> None:
    pool = pool_of(
        *(row(model, "p1", source="s1") for model in ("a", "b", "c")),
        *(row(model, "p2", source="s2") for model in ("b", "c")),
        *(row(model, "p1", source="s1", instruction="add a dog") for model in ("a", "c")),
    )
    cases = [pool.case(at) for at in range(len(pool))]
    assert len(cases) == 3 + 1 + 1
    for case in cases:
        first, second = case.groups["model_first"], case.groups["model_second"]
        assert set(case.images) == {"input", "first", "second"}
        assert str(case.images["first"]).startswith(
            f"out/{first}/p{case.groups['source'][1:]}-{case.fields['instruction']}"
        )
        assert str(case.images["second"]).startswith(
            f"out/{second}/p{case.groups['source'][1:]}-{case.fields['instruction']}"
        )
        assert "model" not in case.groups
        assert id_problem(case.id) == ""
    assert len({case.id for case in cases}) == len(cases)
    assert pool.places == {case.id: at for at, case in enumerate(cases)}


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 6), st.integers(1, 25), st.randoms(use_true_random=False))
def test_each_model_is_first_in_half_of_its_pairs_with_another_whatever_the_order_of_cases(
    models: int, photos: int, chance: object
) -> None:
    rows = [row(f"m{model}", f"p{photo}") for photo in range(photos) for model in range(models)]
    pool = pool_of(*rows)
    assert len(pool) == photos * models * (models - 1) // 2
    for matchup in range(len(pool.matchups)):
        at = pool.matchup == matchup
        first = Counter(pool.first[at].tolist())
        assert max(first.values()) - (min(first.values()) if len(first) > 1 else 0) <= 1
    shuffled = list(rows)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]  # a random.Random
    assert set(pool_of(*shuffled).places) == set(pool.places)


def test_a_pattern_with_the_model_in_it_makes_pairs(tmp_path: Path) -> None:
    for model in ("aurora", "basalt"):
        (tmp_path / "out" / model).mkdir(parents=True)
        for name in ("one", "two"):
            (tmp_path / "out" / model / f"{name}.png").write_bytes(f"{model}{name}".encode())
    (tmp_path / "photos").mkdir()
    for name in ("one", "two"):
        (tmp_path / "photos" / f"{name}.png").write_bytes(name.encode())
    schema, names = derive_output_schema(CaseSchema((("input", "first", "second"),)))
    rows = pair_rows({"input": "photos/{name}.png", "output": "out/{model}/{name}.png"}, schema, tmp_path)
    pool = PairPool(collect_items(rows, names).items, names)
    assert pool.models == ("aurora", "basalt")
    assert pool.sources == ("one", "two")
    assert sorted(Path(str(pool.case(0).images[role])).parent.name for role in ("first", "second")) == [
        "aurora",
        "basalt",
    ]
    assert pool.case(0).groups["name"] == "one"


def test_texts_are_compared_where_the_rubric_has_them_as_fields() -> None:
    schema, names = derive_output_schema(CaseSchema((("image",),), ("first", "second")))
    assert schema.required == ("output",)
    rows = [
        CaseRow("", Case(model, {"image": "p.png"}, {"output": f"a cat, says {model}"}, {"model": model}), (), model)
        for model in ("a", "b")
    ]
    found = collect_items(rows, names)
    case = PairPool(found.items, names).case(0)
    assert set(case.images) == {"image"}
    assert {case.fields["first"], case.fields["second"]} == {"a cat, says a", "a cat, says b"}
    assert case.fields["first"] == f"a cat, says {case.groups['model_first']}"


def test_prompts_without_an_image_are_their_own_source() -> None:
    schema, names = derive_output_schema(CaseSchema((("first", "second"),), ("prompt",)))
    rows = [
        CaseRow("", Case(f"{at}", {"image": f"{at}.png"}, {"prompt": prompt}, {"model": model}), (), f"{at}")
        for at, (model, prompt) in enumerate((m, p) for p in ("a red fox", "a blue fox") for m in ("x", "y"))
    ]
    pool = PairPool(collect_items(rows, names).items, names)
    assert schema.choose_roles(["image"]) == (("image",), ())
    assert pool.sources == ("a red fox", "a blue fox")
    assert set(pool.case(0).images) == {"first", "second"}


def test_items_of_one_photograph_share_its_source_and_have_names_of_their_own() -> None:
    pool = pool_of(*(row(m, "p1", instruction=text) for text in ("x", "y") for m in ("a", "b")))
    assert pool.sources == ("p1",)
    assert [item.name for item in pool.items] == ["p1", "p1-2"]


def test_a_prompt_with_one_output_is_said() -> None:
    found = collect(row("a", "p1"), row("b", "p1"), row("a", "p2"), row("b", "p2"), row("a", "p3"))
    assert found.problems == ("p3: there is one output only, 'a/p3/make it red' of a; a comparison takes two.",)
    assert [item.name for item in found.items] == ["p1", "p2"]
    with pytest.raises(CaseError, match=r"1 thing is wrong with the cases \(--skip-bad or skip_bad=True"):
        found.check()
    found.check(skip_bad=True)


def test_a_model_with_one_output_is_said() -> None:
    found = collect(*(row(m, p) for m in ("a", "b") for p in ("p1", "p2")), row("c", "p1"))
    (problem,) = found.problems
    assert problem.startswith("The model 'c' has one output only ('c/p1/make it red'), which cannot rank it")
    assert all("c" not in item.outputs for item in found.items)


def test_the_same_model_twice_on_one_photograph_is_said() -> None:
    twice = CaseRow(
        "line 9",
        Case("again", {"input": "photos/p1.png", "edited": "z.png"}, {"instruction": "make it red"}, {"model": "a"}),
        (),
        "again",
    )
    found = collect(*(row(m, p) for m in ("a", "b", "c") for p in ("p1", "p2")), twice)
    assert found.problems == (
        "p1: the model 'a' is there twice ('a/p1/make it red' and 'again'); it has one output for a photograph.",
    )
    assert set(found.items[0].outputs) == {"b", "c"}


def test_the_same_image_twice_is_said_and_only_that_pair_left_out(tmp_path: Path) -> None:
    same = [tmp_path / "x.png", tmp_path / "y.png"]
    for path in same:
        path.write_bytes(b"the same")
    other = tmp_path / "z.png"
    other.write_bytes(b"as long!")
    images = dict(zip("abc", [*same, other], strict=True))
    found = collect(*(row(m, p, image=str(images[m]) if p == "p1" else "") for m in "abc" for p in ("p1", "p2")))
    pool = PairPool(found.items, EDITED)
    assert pool.problems == ("p1: the outputs of a and b are the same image: none is better.",)
    assert len(pool) == 2 + 3
    assert PairPool(collect(row("a", "p1", image=b"same"), row("b", "p1", image=b"same")).items, EDITED).problems


def test_a_case_without_a_model_and_a_wrong_one_are_said() -> None:
    nameless = CaseRow("cases.csv, line 3", Case("n", {"input": "i", "edited": "e"}, {}, {}), (), "n")
    wrong = CaseRow("cases.csv, line 4", None, ("lacks the image 'output'",))
    found = collect(nameless, wrong)
    assert found.problems[0].startswith("cases.csv, line 3: the case 'n' names no model; give a column 'model'")
    assert found.problems[1] == "cases.csv, line 4: lacks the image 'output'"
    with pytest.raises(CaseError, match="no photograph or prompt has outputs of two models; the first problem: "):
        found.check(skip_bad=True)


def test_cases_of_which_none_names_a_model_are_one_problem() -> None:
    rows = [
        CaseRow(f"line {at}", Case(f"c{at}", {"input": "i", "edited": f"e{at}"}, {}, {}), (), "") for at in range(30)
    ]
    found = collect(*rows)
    (problem,) = found.problems
    assert problem.startswith("None of 30 cases names a model, such as '' (line 0); give a column 'model'")
    assert found.unplaced == 30
    assert len(collect(*rows, row("a", "p1")).problems) == 31


def test_a_model_without_an_output_of_an_item_is_missing_there_even_if_the_others_cannot_be_used() -> None:
    rows = [row(model, photo) for model in "abc" for photo in ("p1", "p2", "p3", "p4")]
    del rows[10], rows[0]  # of c on p3 and of a on p1
    found = collect_items(rows, EDITED, lambda case: ["is broken"] if "p3" in str(case.images["input"]) else [])
    assert found.outputs == 12
    assert found.missing == {"a": ("p1",), "c": ("p3",)}
    assert found.possible == 1 + 3 + 1 + 3


def test_a_rubric_of_scores_is_no_arena() -> None:
    with pytest.raises(UsageError, match="name one of kind preference, such as edit-preference"):
        derive_output_schema(CaseSchema((("input", "edited"),), ("instruction",)))
    schema, names = derive_output_schema(EDIT_PAIRS)
    assert schema.choose_roles(["input", "edited"]) == (("input", "edited"), ())
    assert schema.choose_roles(["input"])[1] == ("output",)
    assert names.roles[0] == "output"


def test_long_and_odd_names_still_make_ids_that_can_be_stored() -> None:
    pool = pool_of(*(row(model, "p1", source="s\n" * 150) for model in ("a" * 90, "b\t")))
    assert id_problem(pool.case(0).id) == ""
    assert np.array_equal(pool.rank, [0])
