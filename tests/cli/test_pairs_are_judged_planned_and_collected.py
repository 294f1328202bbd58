"""`judge`, `run`, `plan`, `run --batch` and `arena agree` on pairs, against a real server: each call counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support.preferences import choose, paint, redness

from beholder.ledger.ledger import Ledger
from beholder.testing.base import Fault, Received
from beholder.testing.server import JudgeServer

Run = Callable[..., Any]
PRICE = ("--price-input", "1", "--price-output", "10")


def prefer_red(request: Received) -> dict[str, Any]:
    """Choose the redder of the last two images of a request."""
    a, b = (redness(image) for image in request.images[-2:])
    return choose("A" if a > b else "B")


@pytest.fixture
def suite(run: Run, server: JudgeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`suite("run", …)`: a command on two pairs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    server.default = prefer_red
    rows = []
    for number, (first, second) in enumerate([(200, 10), (20, 220)]):
        for role, red in (("first", first), ("second", second)):
            (tmp_path / f"{role}{number}.png").write_bytes(paint(red))
        (tmp_path / f"input{number}.png").write_bytes(paint(0, 90, number))
        images = {role: f"{role}{number}.png" for role in ("input", "first", "second")}
        models = {"model_first": "m1", "model_second": "m2", "source": f"photo{number}"}
        rows.append({"id": f"c{number}", **images, **models, "instruction": "make it red"})
    (tmp_path / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")

    def command(name: str, *more: str) -> Any:
        done = run(
            *(name, "--rubric", "edit-preference", "--cases", "cases.jsonl", "--ledger", "runs.db", "--no-thumbnails"),
            *("--judge", "openai:gpt-5-mini", "--base-url", server.openai_url, "--json", *more),
        )
        assert "Traceback" not in done.err, done.err
        return done

    return command


def winners() -> dict[str, str | None]:
    with Ledger.open("runs.db", create=False) as ledger:
        return {one.case: one.preference.winner if one.preference else None for one in ledger.verdicts("latest")}


def last(done: Any) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(done.out.splitlines()[-1])
    return values


def test_a_run_is_planned_run_and_resumed_without_a_call(suite: Run, server: JudgeServer) -> None:
    assert last(suite("plan", *PRICE))["calls"] == 4
    assert suite("run", *PRICE).code == 0
    assert (len(server.received), winners()) == (4, {"c0": "first", "c1": "second"})
    again = suite("run", *PRICE)
    assert (again.code, len(server.received)) == (0, 4)
    assert last(again)["tally"]["rubrics"]["edit-preference"]["preference"]["second"] == 1
    assert last(suite("plan", "--orders", "given"))["answered"] == 2  # of another run, and known all the same


def test_a_run_by_batch_hands_in_every_order(suite: Run, server: JudgeServer) -> None:
    assert suite("run", "--batch").code == 0
    assert [len(job.keys) for job in server.batches.jobs] == [4]
    assert winners() == {}
    assert suite("collect").code == 0
    assert winners() == {"c0": "first", "c1": "second"}
    assert len(server.received) == 4


def test_a_batch_that_fails_in_one_order_asks_that_one_again(suite: Run, server: JudgeServer) -> None:
    refused: list[int] = []

    def fail_once(request: Received) -> Any:
        if redness(request.images[1]) == 10 and not refused:
            refused.append(1)
            return "no JSON at all"
        return prefer_red(request)

    server.default = fail_once
    suite("run", "--batch")
    suite("collect")
    assert winners() == {"c1": "second"}  # the other waits for its repair
    suite("collect")
    assert winners() == {"c0": "first", "c1": "second"}
    assert len(server.received) == 5


def test_a_budget_that_is_enough_for_one_order_leaves_the_other_for_later(suite: Run, server: JudgeServer) -> None:
    # Once the first call has been paid for, what is left is less than the next one may cost.
    budget = last(suite("plan", *PRICE, "--limit", "1"))["money_high"] / 2 + 0.0005
    done = suite("run", *PRICE, "--limit", "1", "--budget", str(budget))
    assert done.code == 3
    with Ledger.open("runs.db", create=False) as ledger:
        [verdict] = ledger.verdicts("latest")
        spent = ledger.run().spent_usd
    assert str(verdict.outcome) == "over_budget"
    assert verdict.preference is not None
    assert sorted(str(answer.outcome) for answer in verdict.preference.answers) == ["over_budget", "scored"]
    assert spent is not None
    assert spent <= Decimal(str(budget))
    assert len(server.received) == 1
    assert suite("run", *PRICE, "--limit", "1", "--budget", "5").code == 0
    assert (winners(), len(server.received)) == ({"c0": "first"}, 2)


def test_a_call_that_fails_for_good_is_no_tie(suite: Run, server: JudgeServer) -> None:
    server.default = lambda request: (
        Fault.refusal("I cannot judge people.") if redness(request.images[1]) == 10 else prefer_red(request)
    )
    done = suite("run")
    assert done.code == 3
    assert winners() == {"c0": None, "c1": "second"}
    counts = last(done)["tally"]["rubrics"]["edit-preference"]["preference"]
    assert (counts["failed"], counts["tie"]) == (1, 0)


def test_one_pair_by_flags(suite: Run, run: Run, server: JudgeServer) -> None:
    images = ("--first", "first0.png", "--second", "second0.png", "--input", "input0.png")
    asked = ("--set", "instruction=make it red", "--judge", "openai:gpt-5-mini", "--base-url", server.openai_url)
    done = run("judge", "edit-preference", *images, *asked)
    assert (done.code, len(server.received)) == (0, 2)
    assert "first is better" in done.out
    once = run("judge", "edit-preference", "input0.png", "first0.png", "second0.png", *asked, "--orders", "given")
    assert (once.code, len(server.received)) == (0, 3)
    assert "asked in given order only" in once.out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--first first0.png --second first0.png --input input0.png", "the same image as first and second"),
        ("--first first0.png --input input0.png", "lacks the image 'second'"),
        ("--first first0.png --second second0.png --input input0.png --orders ab", "both, random, given, not 'ab'"),
        ("--first first0.png --second gone.png --input input0.png", "the image 'second'"),
    ],
)
def test_bad_input_is_a_sentence(suite: Run, run: Run, server: JudgeServer, words: str, sentence: str) -> None:
    judge = ("--judge", "openai:gpt-5-mini", "--base-url", server.openai_url)
    done = run("judge", "edit-preference", *words.split(), "--set", "instruction=x", *judge)
    assert done.code == 2
    assert sentence in done.err
    assert server.received == []


def test_two_texts_by_files(suite: Run, run: Run, server: JudgeServer, tmp_path: Path) -> None:
    from beholder import Rubric

    (tmp_path / "a.txt").write_text("A cat.", "utf-8")
    (tmp_path / "b.txt").write_text("A cat on a mat.", "utf-8")
    server.default = lambda _: choose("tie", rubric=Rubric.load("description-preference"))
    done = run(
        *("judge", "description-preference", "input0.png", "--first", "a.txt", "--second", "b.txt"),
        *("--set", "input=What is it?", "--judge", "openai:gpt-5-mini", "--base-url", server.openai_url, "--json"),
    )
    assert (done.code, last(done)["preference"]["winner"]) == (0, "tie")


def test_the_same_file_twice_is_found_before_the_first_call(suite: Run, server: JudgeServer, tmp_path: Path) -> None:
    (tmp_path / "second1.png").write_bytes((tmp_path / "first1.png").read_bytes())
    done = suite("run")
    assert done.code == 2
    assert "c1" in done.err
    assert "the same image as first and second" in done.err
    assert server.received == []


def test_a_run_is_set_beside_votes(suite: Run, run: Run, tmp_path: Path) -> None:
    suite("run")
    rows = "case,model_a,model_b,winner\nc0,m1,m2,model_a\nc1,m1,m2,model_a\n"
    (tmp_path / "people.csv").write_text(rows, "utf-8")
    done = run("arena", "agree", "latest", "--runs", "--people", "people.csv", "--ledger", "runs.db", "--json")
    judges = json.loads(done.out)["judges"]
    assert [one["judge"] for one in judges] == ["openai:gpt-5-mini", "openai:gpt-5-mini, each answer"]
    assert judges[0]["accuracy"]["value"] == 0.5
    assert "belongs to runs" in run("arena", "agree", "people.csv", "--ledger", "runs.db").err


def test_a_rubric_of_this_kind_is_begun_and_checked(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("rubrics", "new", "logo", "--kind", "preference").code == 0
    assert run("rubrics", "check", "./logo").code == 0
    assert "Candidate A" in run("rubrics", "show", "./logo").out
    assert "'votes' is neither" in run("rubrics", "new", "other", "--kind", "votes").err


def test_orders_are_for_pairs(run: Run, server: JudgeServer, folder: Path) -> None:
    (folder / "cases.jsonl").write_text(
        '{"id": "c", "input": "before.png", "edited": "after.png", "instruction": "x"}\n'
    )
    judge = ("--judge", "openai:gpt-5-mini", "--base-url", server.openai_url)
    done = run("run", "--rubric", "edit-preservation", "--cases", "cases.jsonl", *judge, "--orders", "given")
    assert done.code == 2
    assert "--orders" in done.err
    assert "which of two is better" in done.err
    told = run("judge", "description-preference", "photo.jpg", "--input", "What is it?", *judge)
    assert "--set input=TEXT" in told.err


def test_every_turn_names_its_order(suite: Run, run: Run, server: JudgeServer) -> None:
    asked: list[int] = []

    def fail_once(request: Received) -> Any:
        asked.append(1)
        return "no JSON at all" if len(asked) == 1 else prefer_red(request)

    server.default = fail_once
    suite("run", "--limit", "1")
    told = run("show", "latest", "c0", "--transcript", "--ledger", "runs.db").out
    assert " order" in told
    assert told.count("answered") >= 3
