"""`beholder rubrics` and `beholder styles`: a check that can be relied on, and nothing that speaks to the terminal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from beholder.cli.app import app
from beholder.errors import UsageError
from beholder.rubrics.load import list_rubrics, load_rubrics

Write = Callable[..., Path]
GOOD = "rubric: mine\nimages: [{role: photo, label: Photo}]\ncriteria: [{key: sharp}]\n"
SETTINGS = "settings: {near: {images: [photo], results: a}, far: {images: [photo], results: b}}\n"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(one) for one in arguments], catch_exceptions=False)


def refused(*arguments: object) -> str:
    with pytest.raises(UsageError) as caught:
        run(*arguments)
    return str(caught.value)


@pytest.mark.parametrize("name", sorted(list_rubrics()))
def test_ours_are_sound(name: str) -> None:
    done = run("rubrics", "check", name)
    assert (done.exit_code, "sound" in done.stdout) == (0, True)


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ("{% for criterion in criteria %}\n{{ criterion.nope }}\n{% endfor %}", "line 2: cannot be rendered"),
        ("{{ 1 / 0 }}", "line 1: cannot be rendered: division by zero"),
        ("{{ style.style }}", "line 1: cannot be rendered"),
    ],
)
def test_a_prompt_that_cannot_be_rendered_is_not_sound(prompt: str, said: str, rubric_file: Write) -> None:
    path = rubric_file(GOOD, "folder/rubric.yaml")
    (path.parent / "prompt.md.j2").write_text(prompt, "utf-8")
    done = run("rubrics", "check", path.parent)
    assert done.exit_code == 2
    assert f"the prompt of mine: {said}" in done.stdout
    [problem] = json.loads(run("rubrics", "check", path.parent, "--json").stdout)["problems"]
    assert "cannot be rendered" in problem["message"]


def test_a_prompt_is_rendered_in_every_setting(rubric_file: Write) -> None:
    path = rubric_file(GOOD + SETTINGS + "prompt: \"{{ criteria[0 if setting == 'near' else 9].name }}\"\n")
    done = run("rubrics", "check", path)
    assert done.exit_code == 2
    assert "the prompt of mine (far): line 1: cannot be rendered" in done.stdout


def test_a_prompt_that_speaks_of_the_style_is_rendered_with_one(rubric_file: Write) -> None:
    criteria = "criteria: [{key: accuracy, letter: A}]\nfields: [{name: style}]\nstyles: true\n"
    text = GOOD.replace("criteria: [{key: sharp}]\n", criteria) + "prompt: 'Is it {{ style.style }}? %s'\n"
    assert run("rubrics", "check", rubric_file(text % "{{ criteria[0].assertions[0].text }}")).exit_code == 0
    assert run("rubrics", "check", rubric_file(text % "{{ style.nope }}")).exit_code == 2


@pytest.mark.parametrize("name", ["My Rubric", "rubric.v2", "Größe", "a_b", "-a", ".hidden"])
def test_a_name_that_the_check_would_reject_is_refused(name: str, tmp_path: Path) -> None:
    said = refused("rubrics", "new", tmp_path / name)
    assert f"{name!r} cannot be the name of a rubric" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["mine", "7", "null", "1e3", "no", "2020-01-01"])
def test_a_new_rubric_passes_its_own_check(name: str, tmp_path: Path) -> None:
    assert run("rubrics", "new", tmp_path / name).exit_code == 0
    done = run("rubrics", "check", tmp_path / name)
    assert done.exit_code == 0, done.stdout
    assert load_rubrics(tmp_path / name)[0].name == name


@pytest.mark.parametrize("name", ["x" * 300, "x/" * 3000, "a\0b", "x" * 300 + "/rubric.yaml"])
def test_a_name_that_no_file_can_have_is_one_sentence(name: str) -> None:
    with pytest.raises(UsageError, match="There is no rubric") as caught:
        load_rubrics(name)
    assert len(str(caught.value)) < 600
    assert "\0" not in str(caught.value)


def test_a_folder_name_that_is_too_long_is_one_sentence(tmp_path: Path) -> None:
    assert "File name too long" in refused("rubrics", "new", tmp_path / ("x" * 300))


def test_a_strangers_file_cannot_speak_to_the_terminal(rubric_file: Write) -> None:
    loud = "\x1b]0;pwned\x07"
    unknown = rubric_file(GOOD + '"\\e]0;pwned\\a": 1\n', "unknown.yaml")
    prompt = rubric_file(GOOD + 'summary: "\\e]0;pwned\\a"\nprompt: "Look \\e]0;pwned\\a\\x9b2J"\n', "prompt.yaml")
    style = rubric_file(
        'style: "Fresco \\e]0;pwned\\a"\ndescription: "\\e]0;pwned\\a"\nassertions: {accuracy: ["Is it \\e[2J?"]}\n',
        "styles/fresco.yaml",
    )
    folder = ("--styles", style.parent)
    for arguments in (
        ("rubrics", "check", unknown),
        ("rubrics", "show", prompt),
        ("rubrics", "show", prompt, "--json"),
        ("styles", *folder),
        ("styles", "show", f"Fresco {loud}", *folder),
        ("styles", "show", f"Fresco {loud}", *folder, "--json"),
    ):
        done = run(*arguments)
        assert done.output.strip()
        assert not {"\x1b", "\x07", "\x9b"} & set(done.output), arguments
    shown = json.loads(run("styles", "show", f"Fresco {loud}", *folder, "--json").stdout)
    assert shown["style"] == f"Fresco {loud}"  # JSON loses nothing


def test_sisters_are_the_other_criteria_of_the_family() -> None:
    family = load_rubrics("edit")
    for rubric in family:
        others = [one.key for other in family if other is not rubric for one in other.criteria]
        assert sorted(rubric.sisters) == sorted(others), rubric.name


def test_the_check_goes_on_after_a_path_that_is_not_there(rubric_file: Write) -> None:
    done = run("rubrics", "check", "nowhere", rubric_file(GOOD), "restyle")
    assert done.exit_code == 2
    said = done.stdout.splitlines()
    assert "There is no rubric 'nowhere'" in said[0]
    assert said[1].endswith("mine.yaml: sound (mine 1.0, 1 criterion)")
    assert said[2] == "restyle: sound (restyle 2.0, 5 criteria)"
    [problem] = json.loads(run("rubrics", "check", "nowhere", "--json").stdout)["problems"]
    assert "There is no rubric" in problem["message"]


@pytest.mark.parametrize("name", ["restyle", "edit", "sub/description"])
def test_a_new_rubric_cannot_take_a_known_name(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    known_name = name.rpartition("/")[2]
    assert f"{known_name!r} is the name of a rubric that is known; choose another" in refused("rubrics", "new", name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "path"), [("mine", "./mine"), ("a b/mine", "'./a b/mine'"), ("../mine", "../mine")])
def test_what_to_check_is_told_as_a_path(name: str, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert run("rubrics", "new", name).stdout.endswith(f"beholder rubrics check {path}\n")


def test_options_before_show_count(rubric_file: Write) -> None:
    style = rubric_file("style: Fresco\ndescription: Wet lime.\nassertions: {accuracy: [Is it?]}\n", "s/fresco.yaml")
    assert "Wet lime." in run("styles", "--styles", style.parent, "show", "Fresco").stdout
    assert json.loads(run("styles", "--json", "show", "Anime").stdout)["style"] == "Anime"
