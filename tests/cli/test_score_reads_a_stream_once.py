"""`beholder score`: one pass over a file or a pipe; what can be scored is, and what cannot is told."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Answer = Callable[..., dict[str, object]]
SCORE = "score answers.jsonl --rubric edit-preservation "


@pytest.fixture
def lines(folder: Path, answer: Answer) -> Callable[..., str]:
    """Writes answers.jsonl: a text is a line as it is, a number the score of a recorded answer."""

    def write(*given: str | int) -> str:
        texts = [
            one if isinstance(one, str) else json.dumps({"case": f"c{n}", "answer": answer(unchanged_regions=one)})
            for n, one in enumerate(given, 1)
        ]
        (folder / "answers.jsonl").write_text("".join(f"{text}\n" for text in texts), "utf-8")
        return "".join(f"{text}\n" for text in texts)

    return write


def test_a_file(run: Any, lines: Any) -> None:
    lines(3, 5)
    done = run(SCORE)
    assert done.code == 0
    assert "edit-preservation  unchanged_regions      2       4.000" in done.out
    assert "outcomes: 2 edit-preservation scored" in done.out


def test_standard_input(run: Any, lines: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = lines(3, 5)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    done = run("score - --rubric edit-preservation --json")
    assert done.code == 0
    assert [json.loads(line)["case"] for line in done.out.splitlines()] == ["c1", "c2"]


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_standard_input_of_a_real_process(name: str, lines: Any) -> None:
    command = [sys.executable, "-c", "from beholder.cli import main; main()", "score", name]
    done = subprocess.run(
        [*command, "--rubric", "edit-preservation", "--json"], input=lines(3), capture_output=True, text=True
    )
    assert (done.returncode, done.stdout.count("\n")) == (0, 1), done.stderr


def test_a_pipe_that_the_shell_made(run: Any, lines: Any) -> None:
    """`beholder score <(cat answers.jsonl)`."""
    reading, writing = os.pipe()
    with open(reading, "rb"), open(writing, "w", encoding="utf-8") as pipe:
        pipe.write(lines(3, 5))
        pipe.close()
        done = run(f"score /dev/fd/{reading} --rubric edit-preservation --format seed")
    assert (done.code, done.out.count("\n")) == (0, 2)


def test_a_pipe_in_a_folder_is_not_waited_for(run: Any, folder: Path, lines: Any) -> None:
    os.mkfifo(folder / "pipe")
    done = run("score pipe --rubric edit-preservation")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "'pipe' cannot be read: it is a pipe and no file; to wait for its writer, say `- < pipe`" in done.err


def test_a_stream_without_lines_ends(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/zero", "rb") as endless:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(endless))
        done = run("score - --rubric edit-preservation")
    assert (done.code, done.err) == (2, "beholder: -, line 1 has more than 64 MB; no answer has.\n")


def test_verdicts_are_printed_as_they_come(lines: Any) -> None:
    """The second line is written only after the first verdict was read."""
    first, second = lines(3, 5).splitlines(keepends=True)
    command = [sys.executable, "-c", "from beholder.cli import main; main()", "score", "-"]
    with subprocess.Popen(
        [*command, "--rubric", "edit-preservation", "--json"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        patience = threading.Timer(60, process.kill)
        patience.start()
        for line, case in ((first, "c1"), (second, "c2")):
            process.stdin.write(line)
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["case"] == case
        process.stdin.close()
        patience.cancel()


def test_malformed_lines_are_told_at_the_end_and_the_rest_is_scored(run: Any, lines: Any) -> None:
    lines(
        "nonsense", 3, '{"case": "x"}', '["a"]', 5, '{"answer": {}}', "{}", '{"case": "y", "answer": "", "fields": 7}'
    )
    done = run(SCORE + "--json")
    assert done.code == 2
    assert [json.loads(line)["case"] for line in done.out.splitlines()] == ["c2", "c5"]
    assert done.err.splitlines()[0] == "beholder: 6 lines are no recorded answers and were left out:"
    assert [line.split(":")[0] for line in done.err.splitlines()[1:]] == [
        f"  answers.jsonl, line {n}" for n in (1, 3, 4, 6, 7, 8)
    ]
    assert "Traceback" not in done.err


def test_ten_malformed_lines_are_listed_and_the_others_counted(run: Any, lines: Any) -> None:
    lines(*["nonsense"] * 25, 4)
    done = run(SCORE)
    assert done.code == 2
    assert "25 lines are no recorded answers" in done.err
    assert done.err.count("answers.jsonl, line") == 10
    assert "and 15 more" in done.err
    assert "1 edit-preservation scored" in done.out


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_a_file_without_any_answer_is_wrong_use(run: Any, folder: Path, text: str) -> None:
    (folder / "answers.jsonl").write_text(text, "utf-8")
    done = run(SCORE)
    assert (done.code, done.out) == (2, "")
    assert "'answers.jsonl' holds no answer" in done.err


def test_an_unscored_answer_is_exit_code_3(run: Any, lines: Any) -> None:
    lines(4, '{"case": "no", "answer": "I am sorry"}', '{"case": "r", "answer": "Sorry, I cannot."}')
    done = run(SCORE)
    assert done.code == 3
    assert "no (edit-preservation): invalid" in done.out
    assert "r (edit-preservation): refused, Sorry, I cannot." in done.out


def test_a_huge_claim_fits_on_the_card(run: Any, folder: Path) -> None:
    answer = {"details": dict.fromkeys(("visual_accuracy", "completeness", "clarity", "relevance"), 0.8)}
    line = json.dumps({"case": "c", "answer": answer | {"score": 777}}).replace("777", "1" + "0" * 400)
    (folder / "answers.jsonl").write_text(line, "utf-8")
    done = run("score answers.jsonl --rubric description --format card")
    assert done.code == 0
    assert "said a huge number" in done.out


def test_a_strangers_file_cannot_speak_to_the_terminal(run: Any, lines: Any) -> None:
    lines(
        '{"case": "\\u001b]0;pwned\\u0007", "answer": "x"}', '{"case": "c", "answer": "", "fields": {"\\u001b[2J": {}}}'
    )
    for form in ("table", "card", "seed"):
        done = run(SCORE + f"--format {form}")
        assert done.code == 2
        assert "\x1b]0" not in done.out + done.err
        assert "\x1b[2J" not in done.out + done.err


def test_what_the_seed_format_prints_can_be_scored_again(run: Any, lines: Any, folder: Path) -> None:
    lines(3, 5)
    printed = run(SCORE + "--format seed").out
    (folder / "seed.jsonl").write_text(printed, "utf-8")
    again = run("score seed.jsonl --rubric edit-preservation --format seed")
    assert (again.code, again.out) == (0, printed)


def test_an_answer_without_a_name_is_called_by_its_line(run: Any, folder: Path, answer: Answer) -> None:
    named = {"image_id": 7, **answer()}
    broken = '{"image_id": "twice", "criteria": {}, "criteria": {}}'
    text = "\n".join(["", json.dumps(answer()), json.dumps(named), json.dumps({"image_id": " ", "x": 1}), broken])
    (folder / "answers.jsonl").write_text(text, "utf-8")
    done = run(SCORE + "--json")
    made = [json.loads(line) for line in done.out.splitlines()]
    assert [(one["case"], one["outcome"]) for one in made] == [
        ("line 2", "scored"), ("7", "scored"), ("line 4", "invalid"), ("twice", "invalid")
    ]  # fmt: skip
    assert "'criteria' stands twice" in made[3]["detail"]
    assert done.code == 3


def test_real_answers_are_scored_as_they_lie_there_by_the_whole_family(run: Any) -> None:
    data = Path(__file__).parents[3] / "shared" / "data" / "edit-factors" / "answers_main.jsonl"
    if not data.is_file():
        pytest.skip("the shared folder is not here")
    count = data.read_text("utf-8").count("\n")
    done = run("score", str(data), "--rubric", "edit", "--json")
    made = [json.loads(line) for line in done.out.splitlines()]
    assert (done.code, len(made)) == (0, 3 * count)
    assert {one["outcome"] for one in made} == {"scored"}
    flags = {flag["flag"] for one in made for flag in one["flags"]}
    assert "sister_criteria" not in flags  # all sisters are scored, so nothing was set aside
    assert "other_setting" in flags
    one = run("score", str(data), "--rubric", "edit-quality", "--setting", "online")
    assert f"{count} sister_criteria" in one.out


def test_every_format_is_listed(run: Any, lines: Any) -> None:
    lines(3)
    done = run(SCORE + "--format xml")
    assert (done.code, done.err) == (2, "beholder: --format is one of table, card, json, seed, not 'xml'.\n")
