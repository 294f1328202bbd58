"""`beholder judge`, from the arguments to the exit code, against a real server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beholder.testing.base import Fault
from beholder.testing.server import JudgeServer

Answer = Callable[..., dict[str, object]]
JUDGE = (
    'judge edit-preservation before.png after.png --set instruction="make the car red" --judge openai:test --base-url '
)


def test_a_card_for_people(run: Any, server: JudgeServer, folder: Path, answer: Answer) -> None:
    server.say(answer(unchanged_regions=3))
    done = run(JUDGE + server.openai_url)
    assert done.code == 0
    assert "Unchanged regions" in done.out
    assert "3 / 7" in done.out
    assert "cost unknown" in done.out  # a server of one's own has no price list


def test_json_for_scripts_has_the_pedigree(run: Any, server: JudgeServer, folder: Path, answer: Answer) -> None:
    server.say(answer())
    done = run(JUDGE + server.openai_url + " --json --id p12/secret-model")
    verdict = json.loads(done.out)
    assert verdict["case"] == "p12/secret-model"
    assert verdict["outcome"] == "scored"
    assert verdict["model"].startswith("test")
    assert [image["role"] for image in verdict["images"]] == ["input", "edited"]
    assert verdict["images"][0]["width"] == 120
    assert verdict["usage"]["input_tokens"] > 0
    assert verdict["cost_usd"] is None
    assert verdict["score_derived"] is True
    assert len(verdict["brief_digest"]) == 64


def test_the_judge_sees_labelled_images_and_never_the_case_id(
    run: Any, server: JudgeServer, folder: Path, answer: Answer
) -> None:
    server.say(answer())
    run(JUDGE + server.openai_url + " --id secret-model")
    [asked] = server.received
    assert len(asked.images) == 2
    assert "secret-model" not in json.dumps(asked.body)
    assert "after.png" not in json.dumps(asked.body)
    assert [text for text in asked.texts if text in ("Input Image", "Edited Image")] == ["Input Image", "Edited Image"]


def test_images_by_role_choose_the_setting(run: Any, server: JudgeServer, folder: Path, answer: Answer) -> None:
    server.say(answer())
    images = "--image target=before.png --image edited=after.png"
    done = run(
        f"judge edit-preservation {images} --set instruction=x --judge openai:test --format seed "
        f"--base-url {server.openai_url} --id c1"
    )
    seed = json.loads(done.out)
    assert list(seed) == ["image_id", "offline_factor_results"]
    assert seed["image_id"] == "c1"


def test_edit_asks_three_briefs_and_prints_three_verdicts(run: Any, server: JudgeServer, folder: Path) -> None:
    words = " ".join(["evidence"] * 16)

    def reply(asked: Any) -> dict[str, object]:
        keys = asked.schema["properties"]["criteria"]["properties"]
        return {"criteria": {key: {"justification": words, "score": 5} for key in keys}}

    server.say(reply, reply, reply)
    done = run(JUDGE.replace("edit-preservation", "edit") + server.openai_url + " --format seed")
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert [len(line["online_factor_results"]) for line in lines] == [3, 6, 3]


def test_a_jury_combines_and_shows_its_spread(run: Any, server: JudgeServer, folder: Path, answer: Answer) -> None:
    server.say(*(answer(unchanged_regions=score) for score in (2, 5, 6)))
    done = run(JUDGE + server.openai_url + " --samples 3 --json")
    verdict = json.loads(done.out)
    assert verdict["criteria"]["unchanged_regions"]["score"] == 5
    assert verdict["jury"]["answered"] == 3
    assert verdict["jury"]["spread"]["unchanged_regions"] == 4


def test_a_juror_that_fails_is_counted_not_averaged(
    run: Any, server: JudgeServer, folder: Path, answer: Answer
) -> None:
    server.say(Fault.refusal("no"), answer(unchanged_regions=4), answer(unchanged_regions=4))
    verdict = json.loads(run(JUDGE + server.openai_url + " --samples 3 --json").out)
    assert verdict["outcome"] == "scored"
    assert verdict["criteria"]["unchanged_regions"]["score"] == 4
    assert (verdict["jury"]["answered"], verdict["jury"]["failed"]) == (2, 1)


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [(Fault.refusal("I will not"), "refused"), (Fault.filtered(), "filtered")],
)
def test_no_score_is_exit_code_3(run: Any, server: JudgeServer, folder: Path, fault: Fault, outcome: str) -> None:
    server.say(fault)
    done = run(JUDGE + server.openai_url + " --json")
    verdict = json.loads(done.out)
    assert done.code == 3
    assert verdict["outcome"] == outcome
    assert verdict["score"] is None
    assert len(server.received) == 1


def test_a_malformed_answer_is_repaired_in_the_same_conversation(
    run: Any, server: JudgeServer, folder: Path, answer: Answer
) -> None:
    server.say(answer(unchanged_regions=9), answer(unchanged_regions=7))
    verdict = json.loads(run(JUDGE + server.openai_url + " --json").out)
    assert verdict["criteria"]["unchanged_regions"]["score"] == 7
    assert verdict["attempts"] == 2
    assert "repair_asked" in [flag["flag"] for flag in verdict["flags"]]
    second = server.received[1]
    assert len(second.images) == 2
    assert any("whole number from 1 to 7 and is 9" in text for text in second.texts)


def test_fail_under_is_exit_code_1(run: Any, server: JudgeServer, folder: Path, answer: Answer) -> None:
    server.default = answer()
    assert run(JUDGE + server.openai_url + " --fail-under 80").code == 0
    assert run(JUDGE + server.openai_url + " --fail-under 90").code == 1


def test_an_unscored_verdict_has_no_seed_format(run: Any, server: JudgeServer, folder: Path) -> None:
    server.say(Fault.refusal("no"))
    done = run(JUDGE + server.openai_url + " --format seed")
    assert (done.code, done.out) == (3, "")
    assert "has no seed format" in done.err


def test_plan_asks_nobody_and_needs_no_key(run: Any, folder: Path) -> None:
    done = run('judge edit-preservation before.png after.png --set instruction="make it red" --plan')
    assert done.code == 0
    assert "Unchanged regions" in done.out
    assert "make it red" in done.out
    assert "120×90" in done.out
    plan = json.loads(
        run("judge restyle photo.jpg after.png --set style=Anime --judge openai:gpt-5-mini --plan --json").out
    )
    assert [part.get("role") for part in plan["content"]] == ["original", "restyled", None]
    assert plan["schema"]["properties"]["criteria"]["properties"]["accuracy"]["properties"]["assertions"]


def test_a_prompt_of_ones_own_runs_as_it_is(run: Any, server: JudgeServer, folder: Path) -> None:
    (folder / "mine.txt").write_text('Rate {{output}} for {{image_reference}} as {"score": 1}', "utf-8")
    server.say({"details": dict.fromkeys(("visual_accuracy", "completeness", "clarity", "relevance"), 0.8)})
    done = run(
        f"judge description photo.jpg --set input=Q --set output=Cup --prompt mine.txt --json "
        f"--judge openai:test --base-url {server.openai_url}"
    )
    assert json.loads(done.out)["score"] == 0.8
    [asked] = server.received
    assert asked.schema is None
    assert asked.texts[-3].startswith("Rate <data-") or any(text.startswith("Rate <data-") for text in asked.texts)
