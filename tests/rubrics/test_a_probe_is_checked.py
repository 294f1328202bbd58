"""The key `probe` of a rubric: its questions are checked at line and key, and it is no part of a rubric without it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from beholder import Rubric, RubricError, UsageError
from beholder.rubrics.load import list_rubrics, load_rubrics, select_probes

FILE = """rubric: mine
images: [{role: input, label: Before}, {role: edited, label: After}]
criteria: [{key: good}]
"""


def load(folder: Path, probe: str, file: str = FILE) -> Rubric:
    (folder / "rubric.yaml").write_text(f"{file}probe: {probe}\n")
    return Rubric.load(folder)


def test_questions_make_a_rubric_of_their_own(tmp_path: Path) -> None:
    rubric = load(tmp_path, "[{key: there, question: Is it there?, scale: [1, 7], high: all of it}]")
    probe = rubric.make_probe_rubric()
    assert probe is not None
    [criterion] = probe.criteria
    assert (criterion.key, criterion.scale, criterion.anchors) == ("there", (1, 7), {"7": "all of it"})
    assert [image.label for image in probe.images] == ["Before, cropped", "After, cropped"]


@pytest.mark.parametrize(
    ("probe", "key", "says"),
    [
        ("[]", "probe", "1 to 8 questions"),
        ("[{key: a, question: b}, {key: a, question: c}]", "probe[1].key", "twice"),
        ("[{key: A, question: b}]", "probe[0].key", "lower-case"),
        ("[{key: region, question: b}]", "probe[0].key", "choose another"),
        ("[{key: a, question: ' '}]", "probe[0].question", "empty"),
        ("[{key: a, question: b, scale: [3, 3]}]", "probe[0].scale", "lowest and the highest"),
        ("[{key: a, question: b, weight: 2}]", "probe[0].weight", "known"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, probe: str, key: str, says: str) -> None:
    with pytest.raises(RubricError) as caught:
        load(tmp_path, probe)
    assert [(problem.key, says in problem.message) for problem in caught.value.problems] == [(key, True)]


def test_it_needs_an_image_before_and_one_after(tmp_path: Path) -> None:
    with pytest.raises(RubricError, match="needs the images `input` and `edited`"):
        load(tmp_path, "[{key: a, question: b}]", FILE.replace("input", "original"))


def test_a_preference_has_none(tmp_path: Path) -> None:
    file = (
        "rubric: mine\nkind: preference\ncriteria: [{key: good}]\n"
        "images: [{role: first, label: Candidate A}, {role: second, label: Candidate B}]\n"
    )
    with pytest.raises(RubricError, match="a preference has none"):
        load(tmp_path, "[{key: a, question: b}]", file)


def test_without_a_probe_a_rubric_is_what_it_was(tmp_path: Path) -> None:
    own = load(tmp_path, "[{key: a, question: b}]")
    (tmp_path / "rubric.yaml").write_text(FILE)
    plain = Rubric.load(tmp_path)
    assert select_probes([own], False) == (plain,)
    assert "probe" not in msgspec.to_builtins(plain)
    for name in list_rubrics():
        for rubric in load_rubrics(name):
            assert "probe" not in msgspec.to_builtins(rubric)
            assert select_probes([rubric], False) == (rubric,)


def test_with_a_probe_built_in_rubrics_have_their_questions() -> None:
    found = {
        rubric.name: [one.key for one in rubric.probe or ()] for rubric in select_probes(load_rubrics("edit"), True)
    }
    assert found == {
        "edit-preservation": [],
        "edit-quality": ["clean", "seamless"],
        "edit-fidelity": ["present", "complete", "intact"],
    }
    with pytest.raises(UsageError, match="no probe for description"):
        select_probes(load_rubrics("description"), True)
