"""Whatever a person gets wrong is answered with a sentence, exit code 2 (or 3 for an unusable image), no traceback."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from beholder.testing.base import Fault
from beholder.testing.server import JudgeServer

EDIT = "judge edit-preservation before.png after.png --set instruction=x "


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (EDIT.replace("edit-preservation", "edit-quality"), "instruments cannot answer edit-quality"),
        (EDIT + "--base-url http://localhost:8000/v1", "--base-url is for a model, and no judge was named"),
        (EDIT + "--param temperature=0", "--param is for a model"),
        ("judge description --set input=x --set output=y --judge openai:x --base-url http://h", "'image'"),
        (EDIT + "--judge openai:gpt-5-mini", "OPENAI_API_KEY"),
        (EDIT + "--judge gpt-5-mini", "PROVIDER:MODEL"),
        (EDIT + "--judge nobody:x", "nobody"),
        (EDIT + "--judge openai:x --base-url nonsense", "base URL"),
        (EDIT + "--judge openai:x --samples 0", "samples"),
        (EDIT + "--judge openai:x --format pdf", "card, json, seed"),
        (EDIT + "--judge openai:x --threshold 70", "between 0 and 1"),
        (EDIT + "--judge openai:x --setting inline", "no setting 'inline'"),
        (EDIT + "--set colour=red --judge openai:x --base-url http://127.0.0.1:9", "unknown field 'colour'"),
        (EDIT + "--set instruction --judge openai:x", "NAME=VALUE"),
        (EDIT + "--image mask=m.png --judge openai:x", "has no image 'mask'"),
        (EDIT + "--prompt missing.txt --judge openai:x", "missing.txt"),
        (EDIT + "third.png --judge openai:x", "3 images were given"),
        ("judge edit-preservation before.png after.png --judge openai:x --base-url http://127.0.0.1:9", "instruction"),
        ("judge edit-preservation before.png --set instruction=x --judge openai:x --base-url http://h", "'edited'"),
        ("judge edit-preservashun a b --judge openai:x", "Did you mean 'edit-preservation'?"),
        (
            "judge restyle before.png after.png --set style='a\nb' --judge openai:x --base-url http://h",
            "name of a style",
        ),
        ("judge restyle before.png after.png --set style=Anime --styles nowhere --plan", "nowhere"),
        ("score missing.jsonl --rubric restyle", "missing.jsonl"),
        ("rubrics show nothing-like-it", "There is no rubric"),
        ("rubrics new .", "exists already"),
    ],
)
def test_wrong_use(run: Any, folder: Path, arguments: str, said: str) -> None:
    done = run(arguments)
    assert done.code == 2
    assert said in done.err
    assert "Traceback" not in done.err
    assert done.err.count("\n") == 1


def test_a_wrong_key_or_model_is_said_as_such(run: Any, folder: Path, server: JudgeServer) -> None:
    for fault, said in ((Fault.unknown_model(), "test"), (Fault.bad_key(), "key")):
        server.say(fault)
        done = run(EDIT + f"--judge openai:test --base-url {server.openai_url}")
        assert done.code == 2
        assert said in done.err


def unusable(folder: Path) -> dict[str, Path]:
    files = {name: folder / name for name in ("text.png", "short.png", "empty.png", "wide.png", "loop.png", "dir.png")}
    files["text.png"].write_text("not a picture", "utf-8")
    files["short.png"].write_bytes((folder / "before.png").read_bytes()[:200])
    files["empty.png"].touch()
    header = (folder / "before.png").read_bytes()
    wide = header[:16] + (30_000).to_bytes(4, "big") + header[20:]
    files["wide.png"].write_bytes(wide)
    os.symlink("loop.png", files["loop.png"])
    files["dir.png"].mkdir()
    files["missing.png"] = folder / "missing.png"
    return files


@pytest.mark.parametrize("name", ["short.png", "wide.png"])
def test_an_image_that_cannot_be_used(run: Any, folder: Path, server: JudgeServer, name: str) -> None:
    unusable(folder)
    done = run(EDIT.replace("after.png", name) + f"--judge openai:test --base-url {server.openai_url}")
    assert done.code == 3
    assert "unreadable" in done.out
    assert "edited" in done.out
    assert server.received == []
    assert "Traceback" not in done.out + done.err


@pytest.mark.parametrize("name", ["loop.png", "dir.png", "missing.png", "text.png", "empty.png"])
def test_a_path_without_an_image_file_is_wrong_use(run: Any, folder: Path, server: JudgeServer, name: str) -> None:
    unusable(folder)
    done = run(EDIT.replace("after.png", name) + f"--judge openai:test --base-url {server.openai_url}")
    assert (done.code, done.out) == (2, "")
    assert f"the image 'edited': {name} " in done.err
    assert server.received == []


def test_a_hostile_file_name_cannot_speak_to_the_terminal(run: Any, folder: Path, server: JudgeServer) -> None:
    name = "a\x1b[2J\nb.png"
    done = run(
        *("judge", "edit-preservation", "before.png", name, "--set", "instruction=x"),
        *("--judge", "openai:test", "--base-url", server.openai_url),
    )
    assert done.code == 2
    assert "\x1b[2J" not in done.out + done.err


BAD_ANSWERS = {
    "two megabytes": "x" * 2_000_000,
    "NaN": '{"criteria": {"unchanged_regions": {"score": NaN}}}',
    "a huge integer": '{"criteria": {"unchanged_regions": {"score": ' + "9" * 5000 + "}}}",
    "true for a score": '{"criteria": {"unchanged_regions": {"score": true}}}',
    "nested brackets": '{"a": ' + "[" * 100 + "]" * 100 + "}",
    "an endless nest": '{"a": ' + "[" * 100_000,
}


@pytest.mark.parametrize("kind", BAD_ANSWERS)
def test_an_answer_that_cannot_be_used(run: Any, folder: Path, server: JudgeServer, kind: str) -> None:
    server.default = BAD_ANSWERS[kind]
    done = run(EDIT + f"--judge openai:test --base-url {server.openai_url}")
    assert done.code == 3
    assert "no score: invalid" in done.out
    assert "Traceback" not in done.out + done.err


def test_a_wrong_rubric_is_said_with_line_and_key(run: Any, folder: Path) -> None:
    (folder / "bad.yaml").write_text(
        "rubric: bad\nimages: [{role: a, label: A}]\ncriteria:\n- {key: x, weight: -1}\n- {key: x}\n", "utf-8"
    )
    done = run("rubrics check bad.yaml")
    assert done.code == 2
    assert "line 4, criteria[0].weight" in done.out
    assert "line 5, criteria[1].key" in done.out
