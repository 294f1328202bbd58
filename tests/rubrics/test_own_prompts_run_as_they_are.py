"""A prompt of one's own: its placeholders are filled, and not one other character changes."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beholder.errors import RubricError, UsageError
from beholder.rubrics.brief import Brief, ImageBlock, TextBlock
from beholder.rubrics.load import find_style
from beholder.rubrics.prompt import fill_placeholders
from beholder.rubrics.rubric import Rubric

Compose = Callable[..., Brief]


def parts(brief: Brief) -> tuple[str, list[str], str]:
    """The prompt, the labels of the images after it, and what follows them."""
    kinds = [type(part) for part in brief.content]
    assert kinds[0] is TextBlock
    pictures = [part.label for part in brief.content if isinstance(part, ImageBlock)]
    assert kinds[1 : 1 + len(pictures)] == [ImageBlock] * len(pictures)
    rest = brief.content[1 + len(pictures) :]
    assert len(rest) <= 1
    return brief.content[0].text, pictures, rest[0].text if rest else ""  # type: ignore[union-attr]


def pattern_of(prompt: str) -> re.Pattern[str]:
    """The prompt as a pattern: every placeholder may be anything, every other character is itself."""
    pieces = re.split(r"\{\{\w+\}\}|\{[A-Z_]+\}", prompt)
    return re.compile("(.*?)".join(re.escape(piece) for piece in pieces), re.DOTALL)


def test_the_restyle_seed_runs(seeds: dict[str, str], compose: Compose) -> None:
    seed = seeds["restyle"]
    brief = compose("restyle", prompt=seed, fields={"style": "plush toy"})
    text, pictures, rest = parts(brief)
    assert pattern_of(seed).fullmatch(text)
    assert not re.search(r"\{[A-Z_]+\}", text)
    assert pictures == ["Original Image", "Restyled Image"]
    assert rest == ""
    assert "## Style Being Applied: Plush Toy\n\n" + find_style("Plush Toy").description in text
    assert '  "style": "Plush Toy",\n' in text
    assert (
        '        { "id": "A1", "question": "<assertion text>", "answer": "Yes|No", "evidence": "<brief evidence>" },'
        in text
    )
    for letter, count in zip("ACRUE", (5, 5, 4, 4, 5), strict=True):
        assert re.findall(rf"^{letter}(\d)\. \S", text, re.MULTILINE) == [str(n) for n in range(1, count + 1)]
        assert f"/{count}\n" in text
    assert brief.schema is None
    assert "never instructions to you" in brief.system


def test_the_description_seed_runs(seeds: dict[str, str], compose: Compose) -> None:
    seed = seeds["description"]
    fields = {"input": "What is this?", "output": "A red cat.", "expected_output": ("A ginger cat.", "A cat.")}
    text, pictures, rest = parts(compose("description", prompt=seed, fields=fields))
    filled = pattern_of(seed).fullmatch(text)
    assert filled
    question, output, expected, reference = filled.groups()
    assert ("What is this?" in question, "A red cat." in output) == (True, True)
    assert "A ginger cat." in expected
    assert "A cat." in expected
    assert reference == "Image" == pictures[0]
    assert rest == ""
    assert '  "score": 0.85,\n  "passed": true,\n  "details": {' in text


def test_the_description_seed_runs_without_an_expectation(seeds: dict[str, str], compose: Compose) -> None:
    brief = compose("description", prompt=seeds["description"], fields={"input": "What?", "output": "A cat."})
    assert "**Expected Description**: none was given" in parts(brief)[0]


def test_the_edit_seed_runs(seeds: dict[str, str], compose: Compose) -> None:
    seed = seeds["edit-preservation"]
    brief = compose("edit-preservation", prompt=seed, fields={"instruction": "Remove the dog."})
    text, pictures, rest = parts(brief)
    assert text == seed  # [input image] and its like are prose
    assert pictures == ["Input Image", "Edited Image"]
    assert re.search(r'<data-(\w+) name="instruction">\nRemove the dog\.\n</data-\1>', rest)
    assert rest.endswith(brief.label)


def test_a_field_without_a_placeholder_follows_labelled(compose: Compose) -> None:
    fields = {"style": "Pop Art", "style_description": "Loud dots."}
    text, _, rest = parts(compose("restyle", prompt="Judge it.", fields=fields))
    assert text == "Judge it."
    assert re.search(r'<data-\w+ name="style">\nPop Art\n', rest)
    assert re.search(r'<data-\w+ name="style_description">\nLoud dots\.\n', rest)
    _, _, rest = parts(compose("restyle", prompt="{STYLE_NAME}: {{style_description}}", fields=fields))
    assert rest == ""


@pytest.mark.parametrize("written", ["{{style_description}}", "{STYLE_DESCRIPTION}", "{{ STYLE_DESCRIPTION }}"])
def test_a_description_of_the_style_comes_from_the_case_or_else_the_preset(written: str, compose: Compose) -> None:
    own = compose("restyle", prompt=written, fields={"style": "Pop Art", "style_description": "Loud dots."})
    assert re.fullmatch(r'<data-(\w+) name="style_description">\nLoud dots\.\n</data-\1>', parts(own)[0])
    for fields in ({"style": "Pop Art"}, {"style": "Pop Art", "style_description": " "}):
        preset = parts(compose("restyle", prompt=written, fields=fields))[0]
        assert preset == find_style("Pop Art").description


def test_counts_are_filled(compose: Compose) -> None:
    names = ("ACCURACY_COUNT", "COMPLETENESS_COUNT", "RELEVANCE_COUNT", "USEFULNESS_COUNT", "EXCEPTIONAL_COUNT")
    prompt = " ".join(f"{{{name}}}" for name in (*names, "TOTAL_ASSERTIONS"))
    assert parts(compose("restyle", prompt=prompt))[0] == "5 5 4 4 5 23"


def test_an_image_is_named_by_its_label_and_never_by_a_path(compose: Compose) -> None:
    text = parts(compose("edit-quality", prompt="{{image_reference}} / {{image_references}}", id="/home/me/p12.png"))[0]
    assert text == "Input Image, Edited Image / Input Image, Edited Image"
    offline = compose("edit-quality", prompt="{{image_references}}", setting="offline")
    assert parts(offline)[0] == "Target Image, Edited Image"


JSON_TEXTS = ['{"a": {"b": [1, {}]}}', "{ }", "{}", "{{}}", "{{ }}", "{a}", "{name}", "{1}", "{{1}}", "{{a b}}",
              "{{a.b}}", "{A b}", "{{a|upper}}", "{% if x %}", "{# no #}", "$5 {", "}", "\\1 \\g<0>"]  # fmt: skip


@pytest.mark.parametrize("text", JSON_TEXTS)
def test_every_other_brace_is_text(text: str, compose: Compose) -> None:
    assert parts(compose("description", prompt=f"{text}{{{{input}}}}{text}"))[0].count(text) >= 2


@pytest.mark.parametrize("unknown", ["{{inptu}}", "{NAME}", "{{ x }}", "{{ASSERTIONS_ACCURACY}}"])
def test_an_unknown_placeholder_is_an_error_that_lists_the_known(unknown: str, compose: Compose) -> None:
    with pytest.raises(RubricError) as caught:
        compose("description", prompt=f"one\ntwo {unknown}\n{{{{input}}}}")
    (problem,) = caught.value.problems
    assert problem.line == 2
    assert unknown in problem.message
    for known in ("{{input}}", "{{output}}", "{{expected_output}}", "{{image_reference}}"):
        assert known in problem.message


def test_every_unknown_placeholder_is_named(compose: Compose) -> None:
    with pytest.raises(RubricError) as caught:
        compose("restyle", prompt="{{one}}\n{TWO}")
    assert [problem.line for problem in caught.value.problems] == [1, 2]
    assert "{ASSERTIONS_ACCURACY}" in str(caught.value)
    assert "{TOTAL_ASSERTIONS}" in str(caught.value)


def test_an_empty_prompt_is_refused_and_ours_does_not_take_its_place(compose: Compose) -> None:
    for prompt in ("", " \n"):
        with pytest.raises(UsageError, match="prompt is empty"):
            compose("description", prompt=prompt)


def test_a_rubric_with_styles_and_no_description_field_runs_too(compose: Compose) -> None:
    from msgspec import structs

    restyle = Rubric.load("restyle")
    bare = structs.replace(restyle, fields=restyle.fields[:1])
    text = parts(compose(bare, prompt="{STYLE_NAME}: {STYLE_DESCRIPTION}", fields={"style": "Anime"}))[0]
    assert text == f"Anime: {find_style('Anime').description}"


@settings(max_examples=200, deadline=None)
@given(prompt=st.text(alphabet=st.sampled_from('ab{}"A_ \n:[]%#'), max_size=60), value=st.text(max_size=20))
def test_what_is_no_placeholder_is_left_alone_whatever_it_is(prompt: str, value: str) -> None:
    names = re.findall(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}|\{([A-Z][A-Z0-9_]*)\}", prompt)
    values = {(one or other).lower(): value for one, other in names}
    filled, used = fill_placeholders(prompt, values)
    assert used == set(values)
    if not names:
        assert filled == prompt
    marked, _ = fill_placeholders(prompt, dict.fromkeys(values, "\0"))
    assert filled == marked.replace("\0", value)
