"""A rubric's template sees data and no objects, in a process of its own with limits on time, memory and size."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import threading
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from beholder import AsyncSession, Case, ScriptedJudge, Session
from beholder.errors import RubricError
from beholder.rubrics import template
from beholder.rubrics.brief import Composer
from beholder.rubrics.load import find_style, load_rubric
from beholder.rubrics.prompt import render_system_prompt
from beholder.rubrics.rubric import Rubric

RUBRIC = """
rubric: mine
summary: A summary.
images: [{role: image, label: The Image, about: to look at}]
fields: [{name: note, required: false}]
findings: [{key: flaws, about: what is wrong}]
criteria:
  - key: first_one
    weight: 1.5
    scale: [0, 10]
    anchors: {"0": bad}
    assertions: [{text: Is it so?, applies: people}]
"""


def _make_png() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (32, 32)).save(file, "PNG")
    return file.getvalue()


PNG = _make_png()


@pytest.fixture
def rubric(tmp_path: Path) -> Callable[[str], Rubric]:
    """Returns a rubric with a prompt of its own."""

    def make(prompt: str) -> Rubric:
        (tmp_path / "rubric.yaml").write_text(RUBRIC, "utf-8")
        (tmp_path / "prompt.md.j2").write_text(prompt, "utf-8")
        return load_rubric(tmp_path)

    return make


@pytest.fixture
def renderers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The threads that wait for a template to be rendered."""
    threads: list[int] = []
    render = template._render_in_worker

    def noted(source: str, values: bytes) -> str:
        threads.append(threading.get_ident())
        return render(source, values)

    monkeypatch.setattr(template, "_render_in_worker", noted)
    return threads


@pytest.mark.parametrize("many", [False, True])
async def test_the_event_loop_of_a_session_does_not_wait_for_it(
    many: bool, rubric: Callable[[str], Rubric], renderers: list[int]
) -> None:
    one = rubric("Look closely.")
    cases = [Case(f"c{number}", images={"image": PNG}) for number in range(8)]
    async with AsyncSession(ScriptedJudge("{}")) as session:
        if many:
            verdicts = [verdict async for verdict in session.judge_many(one, cases)]
        else:
            composer = session._single_composer(one)
            verdicts = await asyncio.gather(*(session._judge_composed(composer, case) for case in cases))
    assert len(verdicts) == 8
    assert len(renderers) == 1  # once for all cases, and
    assert threading.get_ident() not in renderers


async def test_a_template_that_fails_fails_the_call(rubric: Callable[[str], Rubric], renderers: list[int]) -> None:
    one = rubric("{{ 1 / 0 }}")
    async with AsyncSession(ScriptedJudge("{}")) as session:
        with pytest.raises(RubricError, match="division by zero"):
            await session.judge(one, Case("c", images={"image": PNG}))
        with pytest.raises(RubricError, match="division by zero"):
            [verdict async for verdict in session.judge_many(one, [Case("c", images={"image": PNG})])]
    assert renderers
    assert threading.get_ident() not in renderers


def test_a_session_renders_it_beside_its_loop(rubric: Callable[[str], Rubric], renderers: list[int]) -> None:
    with Session(ScriptedJudge("{}")) as session:
        session.judge(rubric("Look closely."), Case("c", images={"image": PNG}))
        loop = session._open().loop._thread.ident
    assert len(renderers) == 1
    assert loop not in renderers


def first_line(rubric: Rubric) -> str:
    return render_system_prompt(rubric).partition("\n")[0]


@pytest.mark.parametrize(
    "expression",
    [
        "rubric.load('description')",
        "rubric.with_style(style)",
        "rubric.with_scoring(threshold=1)",
        "criteria[0].with_assertion_ids()",
        "rubric.scoring.__class__",
        "rubric.image.__globals__",
        "offers_not_applicable.__globals__",
        "rubric.name.format.__self__",
    ],
)
def test_nothing_can_be_called_or_looked_into(rubric: Callable[[str], Rubric], expression: str) -> None:
    with pytest.raises(RubricError, match="cannot be rendered"):
        render_system_prompt(rubric("{{ " + expression + " }}"))


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("rubric.name", "mine"),
        ("rubric.roles", "('image',)"),
        ("rubric.image('image').label", "The Image"),
        ("rubric.image('image').many", "False"),
        ("rubric.assertions() | map(attribute='text') | join", "Is it so?"),
        ("criteria[0].name", "First one"),
        ("criteria[0].scale", "(0, 10)"),
        ("criteria[0].weight | number", "1.5"),
        ("criteria[0].anchors.items() | list", "[('0', 'bad')]"),
        ("offers_not_applicable(rubric, criteria[0].assertions[0])", "True"),
        ("rubric.scoring.kind", "weighted_mean"),
        ("rubric.scoring.not_applicable == 'accept'", "True"),
        ("style is none", "True"),
        ("setting == ''", "True"),
    ],
)
def test_what_templates_show_is_there_as_before(rubric: Callable[[str], Rubric], expression: str, said: str) -> None:
    assert first_line(rubric("{{ " + expression + " }}")) == said


def test_no_value_is_anything_but_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def look(value: Any) -> None:
        seen.append(type(value))
        for inner in value.items() if isinstance(value, dict) else value if isinstance(value, tuple | list) else ():
            look(inner)

    def keep(source: str, values: dict[str, Any]) -> str:
        look(dict(values))
        return source

    monkeypatch.setattr("beholder.rubrics.prompt.render_own_template", keep)
    render_system_prompt(load_rubric("restyle").with_style(find_style("Anime")).with_setting(""))
    assert set(seen) <= {dict, tuple, list, str, int, float, bool, type(None)}


@pytest.mark.parametrize("prompt", ["{% set _ = rubric.update(echo='x') %}a", "{% set _ = criteria[0].clear() %}a"])
def test_a_template_cannot_change_the_rules_about_the_answer(rubric: Callable[[str], Rubric], prompt: str) -> None:
    changed, plain = (render_system_prompt(rubric(one)) for one in (prompt, "a"))
    assert changed == plain


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "it takes more than 2 s"),
        ("{{ 9 ** 99999999 }}", "it takes more than 2 s"),
        ("{% for a in range(99999) %}{{ 'x' * 99 }}{% endfor %}", "it makes more than 1,048,576 bytes of text"),
        ("{{ 'é' * 600000 }}", "it makes more than 1,048,576 bytes of text"),
    ],
)
def test_time_and_output_are_limited(rubric: Callable[[str], Rubric], prompt: str, said: str) -> None:
    with pytest.raises(RubricError, match=f"the prompt of mine.*cannot be rendered: {said}"):
        render_system_prompt(rubric(prompt))


@pytest.mark.skipif(os.uname().sysname != "Linux" if hasattr(os, "uname") else True, reason="limits memory on Linux")
def test_memory_is_limited(rubric: Callable[[str], Rubric]) -> None:
    with pytest.raises(RubricError, match="cannot be rendered: it takes too much memory"):
        render_system_prompt(rubric("{% set a = 'x' * 4000000000 %}{{ a | length }}"))


def test_an_error_is_short(rubric: Callable[[str], Rubric]) -> None:
    with pytest.raises(RubricError, match="has no attribute 'kkk") as error:
        render_system_prompt(rubric("{{ {}['k' * 2000000] }}"))
    assert len(str(error.value)) < 1000
    with pytest.raises(RubricError, match="the prompt is no valid template") as error:
        rubric("{{ 1 | " + "k" * 60_000 + " }}{% " + "k" * 60 + " %}")
    assert len(str(error.value)) < 1000


def test_a_template_has_64_kilobytes(rubric: Callable[[str], Rubric], tmp_path: Path) -> None:
    assert first_line(rubric("x" * 65_536)) == "x" * 65_536
    for prompt in ("x" * 65_537, "é" * 40_000):
        with pytest.raises(RubricError, match=r"the template has [\d,]+ bytes, and may have 65,536"):
            rubric(prompt)
    (tmp_path / "prompt.md.j2").unlink()
    (tmp_path / "rubric.yaml").write_text(f"{RUBRIC}prompt: '{'x' * 70_000}'\n", "utf-8")
    with pytest.raises(RubricError, match="the template has 70,000 bytes"):
        load_rubric(tmp_path)


@pytest.mark.parametrize("prompt", ["{{ " + "(" * 9000 + "1" + ")" * 9000 + " }}", "{{ " + "9" * 9000 + " }}"])
def test_what_cannot_be_parsed_is_a_sentence(rubric: Callable[[str], Rubric], prompt: str) -> None:
    with pytest.raises(RubricError, match="the prompt is no valid template"):
        rubric(prompt)


def test_the_worker_knows_no_key(rubric: Callable[[str], Rubric], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    given: list[dict[str, str]] = []
    run = subprocess.run

    def look(*args: Any, **kwargs: Any) -> Any:
        given.append(kwargs["env"])
        return run(*args, **kwargs)

    monkeypatch.setattr(subprocess, "run", look)
    assert first_line(rubric("no key {{ rubric.name }}")) == "no key mine"
    assert "sk-secret" not in str(given)
    assert len(given) == 1


def test_ours_need_no_worker_and_others_one_for_all_their_cases(
    rubric: Callable[[str], Rubric], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    worker = template._render_in_worker

    def count(source: str, values: bytes) -> str:
        started.append(source)
        return worker(source, values)

    monkeypatch.setattr(template, "_render_in_worker", count)
    for name in ("restyle", "description", "edit-quality"):
        composer = Composer(load_rubric(name))
        composer.rubric_for_style("Anime" if name == "restyle" else "")
    assert started == []
    composer = Composer(rubric("one {{ rubric.name }}"))
    for _ in range(3):
        composer.rubric_for_style()
    assert len(started) == 1


def test_a_prompt_is_no_link_out_of_the_rubrics_folder(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("the secret", "utf-8")
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "rubric.yaml").write_text(RUBRIC, "utf-8")
    (mine / "real.j2").write_text("real", "utf-8")
    try:
        (mine / "prompt.md.j2").symlink_to("../secret")
    except OSError:
        pytest.skip("this system lets nobody make links")
    with pytest.raises(RubricError, match="links to a file outside the rubric's folder"):
        load_rubric(mine)
    (mine / "prompt.md.j2").unlink()
    (mine / "prompt.md.j2").symlink_to("real.j2")
    assert load_rubric(mine).prompt == "real"
    farm = tmp_path / "farm"  # every file a link to where both are, as build tools make them
    farm.mkdir()
    for name in ("rubric.yaml", "prompt.md.j2"):
        (farm / name).symlink_to(mine / name)
    assert load_rubric(farm).prompt == "real"


def test_the_sandbox_is_one_without_known_holes() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))
    assert "jinja2>=3.1.6" in project["project"]["dependencies"]
