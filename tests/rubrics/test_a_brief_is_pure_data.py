"""The same case gives the same brief, and anything that a judge would see differently gives another."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from beholder.cases.case import Case
from beholder.errors import CaseError
from beholder.images.image import PreparedImage
from beholder.rubrics.brief import Brief, Composer, ImageBlock, TextBlock
from beholder.rubrics.rubric import Rubric

Compose = Callable[..., Brief]
NAMES = ("restyle", "restyle-confidence", "description", "edit-preservation", "edit-quality", "edit-fidelity")


@pytest.mark.parametrize("name", NAMES)
def test_the_same_case_gives_the_same_brief(name: str, compose: Compose) -> None:
    assert compose(name) == compose(name)
    assert len(compose(name).digest) == 64


def test_a_composer_that_has_made_a_brief_can_be_sent_to_another_process() -> None:
    composer, case = Composer(Rubric.load("description")), Case("c1", fields={"input": "a", "output": "b"})
    brief = composer.compose(case, None)
    assert pickle.loads(pickle.dumps(composer)).compose(case, None) == brief


@pytest.mark.parametrize("name", NAMES)
def test_the_id_of_a_case_is_nowhere_in_its_brief(name: str, compose: Compose) -> None:
    secret = "gpt-image-9-sample"
    brief = compose(name, id=secret)
    assert secret not in repr(brief)
    assert brief == compose(name, id="another")


@pytest.mark.parametrize("name", NAMES)
def test_images_come_first_each_after_its_label_then_the_fields_and_the_ask(name: str, compose: Compose) -> None:
    brief = compose(name)
    *pictures, text = brief.content
    assert all(isinstance(part, ImageBlock) for part in pictures)
    assert [part.role for part in brief.images] == list(Rubric.load(name).roles)
    assert isinstance(text, TextBlock)
    assert text.text.endswith("answer with the JSON object only.")


def test_the_label_follows_from_the_digest_and_is_no_part_of_it(
    compose: Compose, user_text: Callable[..., str]
) -> None:
    brief = compose("edit-quality")
    assert brief.label == f"case-{brief.digest[:8]}"
    assert brief.label in user_text(brief)
    assert brief.label not in brief.system + json.dumps(brief.schema)
    assert compose("edit-quality", images={"edited": b"another"}).label != brief.label


BASE = {"input": "a", "output": "b", "expected_output": "c"}
CHANGES: dict[str, Callable[[Compose], Brief]] = {
    "a field": lambda compose: compose("description", fields={"input": "a", "output": "b", "expected_output": "d"}),
    "a field in two parts": lambda compose: compose(
        "description", fields={"input": "a", "output": "b", "expected_output": ("c", "c")}
    ),
    "no optional field": lambda compose: compose("description", fields={"input": "a", "output": "b"}),
    "two fields exchanged": lambda compose: compose(
        "description", fields={"input": "b", "output": "a", "expected_output": "c"}
    ),
    "a space": lambda compose: compose("description", fields={"input": "a ", "output": "b", "expected_output": "c"}),
    "an image": lambda compose: compose("description", fields=BASE, images={"image": b"other"}),
    "the version": lambda compose: compose(structs.replace(Rubric.load("description"), version="9"), fields=BASE),
    "a criterion's words": lambda compose: compose(_reworded(), fields=BASE),
    "an own prompt": lambda compose: compose("description", fields=BASE, prompt="Judge {{input}}."),
    "another own prompt": lambda compose: compose("description", fields=BASE, prompt="Judge {{input}}!"),
    "the form of the answer": lambda compose: compose(
        structs.replace(Rubric.load("description"), findings=Rubric.load("description").findings[:3]), fields=BASE
    ),
    "as it was": lambda compose: compose("description", fields=BASE),
}


def _reworded() -> Rubric:
    rubric = Rubric.load("description")
    first = structs.replace(rubric.criteria[0], examine=("Is it so?",))
    return structs.replace(rubric, criteria=(first, *rubric.criteria[1:]))


def test_any_change_is_another_digest(compose: Compose) -> None:
    digests = {change: make(compose).digest for change, make in CHANGES.items()}
    assert len(set(digests.values())) == len(digests)


def test_setting_style_and_roles_are_in_the_digest(compose: Compose) -> None:
    same = {"edited": b"e", "input": b"x", "target": b"x"}
    briefs = [compose("edit-quality", setting=setting, images=same) for setting in ("online", "offline")]
    assert briefs[0].digest != briefs[1].digest
    styles = {compose("restyle", fields={"style": style}).digest for style in ("Anime", "Doodle", "Fresco", "Mosaic")}
    assert len(styles) == 4
    swapped = [compose("restyle", images=dict(zip(("original", "restyled"), pair, strict=True))).digest
               for pair in ((b"1", b"2"), (b"2", b"1"))]  # fmt: skip
    assert swapped[0] != swapped[1]


def test_how_it_is_scored_is_no_part_of_what_is_asked(compose: Compose) -> None:
    """Another threshold must not pay for the same answer again."""
    strict = Rubric.load("description").with_scoring(threshold=0.9)
    assert compose(strict).digest == compose("description").digest


@settings(max_examples=100, deadline=None)
@given(one=st.text(max_size=30).filter(str.strip), other=st.text(max_size=30).filter(str.strip))
def test_two_texts_are_two_digests(compose: Compose, one: str, other: str) -> None:
    digests = [compose("edit-fidelity", fields={"instruction": text}).digest for text in (one, other)]
    assert (digests[0] == digests[1]) == (one == other)


def test_the_system_text_is_the_same_for_every_case_of_a_style(compose: Compose) -> None:
    assert compose("edit-quality").system == compose("edit-quality", fields={"instruction": "Paint it blue."}).system
    assert compose("restyle", images={"original": b"1"}).system == compose("restyle", images={"original": b"2"}).system


@pytest.mark.parametrize(
    ("rubric", "case", "word"),
    [
        ("description", Case("c", fields={"output": "x"}), "lacks the field 'input'"),
        ("description", Case("c", fields={"input": "a", "output": "b", "outputs": "x"}), "unknown field 'outputs'"),
        ("description", Case("c", images={"photo": "a.png"}, fields=BASE), "unknown image 'photo'"),
        ("description", Case("c", fields={"input": " \n", "output": "b"}), "its field 'input' is empty"),
        ("restyle", Case("c", fields={"style": ""}), "its field 'style' is empty"),
        ("edit-quality", Case("c", fields={"instruction": ("", " ")}), "its field 'instruction' is empty"),
        ("restyle", Case("c", fields={"style": ("a", "b")}), "one name"),
    ],
)
def test_a_case_that_does_not_fit_is_told_so(rubric: str, case: Case, word: str) -> None:
    with pytest.raises(CaseError, match=word):
        Composer(Rubric.load(rubric)).rubric_for(case)


def test_a_missing_image_is_named(picture: Callable[[bytes], PreparedImage]) -> None:
    composer = Composer(Rubric.load("restyle"))
    with pytest.raises(CaseError, match="lacks the image 'restyled'"):
        composer.compose(Case("c", fields={"style": "Anime"}), {"original": picture(b"x")})


@pytest.mark.parametrize(
    ("images", "setting"), [(("input", "edited"), "online"), (("target", "edited"), "offline"), ((), "online")]
)
def test_the_images_decide_the_setting(images: tuple[str, ...], setting: str) -> None:
    case = Case("c", images=dict.fromkeys(images, "x.png"), fields={"instruction": "x"})
    assert Composer(Rubric.load("edit-quality")).rubric_for(case).setting == setting


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(CaseError, match="online, offline"):
        Composer(Rubric.load("edit-quality"), setting="onlin")


def test_an_assistant_may_have_said_nothing(compose: Compose) -> None:
    assert compose("description", fields={"input": "What is it?", "output": ""}).digest
