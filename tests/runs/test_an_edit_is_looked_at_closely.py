"""With `probe` models are asked a second question, on a crop of the edit: no score depends on it, and it may fail."""

from __future__ import annotations

import asyncio
import json
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support.probes import EDIT, answer_probe, edit_case, is_probe, judge_both, photo, png, reply_both, say_both

from beholder import (
    Answer,
    Case,
    Ledger,
    Options,
    Outcome,
    ScriptedJudge,
    Session,
    SetupError,
    Unreachable,
    UsageError,
    Verdict,
    judge,
    judge_rubrics,
    make_briefs,
    plan,
    run,
)
from beholder.cli.app import app
from beholder.images.prepare import prepare_image
from beholder.reports.progress import ProgressCounter
from beholder.rubrics.brief import PROBE, Brief
from beholder.runs.batch import BatchPass, BatchPassOptions
from beholder.runs.execution import prepare_run
from beholder.runs.suite import load_suite
from beholder.testing.base import Fault, Received
from beholder.testing.server import JudgeServer

ON = Options(probe=True)
PRICE = {"input": 1.0, "output": 10.0}
ANSWERS = {"probe.present", "probe.complete", "probe.intact"}


def probed(verdict: Verdict) -> set[str]:
    return {name for name in verdict.measurements if name.startswith("probe.")}


def value(verdict: Verdict, name: str) -> Any:
    reading = verdict.measurements[name]
    assert isinstance(reading, dict)
    return reading["value"]


def flags_of(verdict: Verdict) -> dict[str, str]:
    return {flag.flag: flag.why for flag in verdict.flags}


def write_cases(folder: Path, count: int = 1) -> str:
    lines = []
    for number in range(count):
        case = edit_case(number)
        for role, data in case.images.items():
            assert isinstance(data, bytes)
            (folder / f"{role}{number}.png").write_bytes(data)
        images = {role: f"{role}{number}.png" for role in case.images}
        lines.append(json.dumps({"id": case.id, **images, **case.fields}))
    (folder / "cases.jsonl").write_text("\n".join(lines))
    return str(folder / "cases.jsonl")


def settings(server: JudgeServer, folder: Path, **more: Any) -> dict[str, Any]:
    given = {
        "rubric": "edit-fidelity",
        "cases": write_cases(folder),
        "judge": {"judge": "openai:gpt-4o", "base_url": server.openai_url, "price": PRICE},
        "ledger": folder / "ledger.db",
        "probe": True,
    }
    return {**given, **more}


def test_answers_are_measurements_and_scores_are_what_they_were() -> None:
    without = judge("edit-fidelity", edit_case(), judge=judge_both())
    one = judge_both()
    verdict = judge("edit-fidelity", edit_case(), judge=one, options=ON)
    assert probed(without) == set()
    assert probed(verdict) == {"probe.region", *ANSWERS}
    assert [one.role for one in verdict.places or () if one.at == "probe.region"] == ["input", "edited"]
    assert value(verdict, "probe.intact") == 9
    assert verdict.measurements["probe.intact"] == {
        "value": 9,
        "unit": "of 10",
        "sentence": "Intact: 9 of 10. intact it is",
    }
    assert (verdict.criteria, verdict.score, verdict.flags) == (without.criteria, without.score, without.flags)
    assert (verdict.images, verdict.brief_digest) == (without.images, without.brief_digest)
    assert {name: verdict.measurements[name] for name in without.measurements} == without.measurements
    whole, closer = one.briefs
    assert (whole.part, closer.part) == ("", PROBE)
    assert whole.digest != closer.digest
    assert [block.label for block in closer.images] == ["Input Image, cropped", "Edited Image, cropped"]
    assert all(block.image.width < 400 for block in closer.images)
    assert "paint a red square" in str(closer.content[-1])
    assert "A closer look at the edit" in verdict.card()
    assert "Intact: 9 of 10. intact it is" in verdict.card()
    assert "Intact: 9 of 10. intact it is" in verdict._repr_html_()


def test_a_model_is_asked_both_questions_and_both_are_counted(tmp_path: Path) -> None:
    with JudgeServer(reply_both, keyless=True) as server:
        given = settings(server, tmp_path)
        done = run(**given, progress=False)
        [verdict] = done.verdicts()
        assert probed(verdict) == {"probe.region", *ANSWERS}
        assert sorted(map(is_probe, server.received)) == [False, True]
        assert (verdict.attempts, len(verdict.images)) == (2, 2)
        assert verdict.cost_usd == done.record.spent_usd
        assert verdict.cost_usd is not None
        assert verdict.cost_usd > 0
        again = run(**given, progress=False)
        assert (again.id, len(server.received)) == (done.id, 2)
        without = run(**given | {"probe": False}, progress=False)
        assert (without.id == done.id, len(server.received)) == (False, 2)
        report = tmp_path / "report.html"
        done.report(report)
        assert "probe.intact" in report.read_text()


def test_a_resume_asks_only_for_what_has_no_answer(tmp_path: Path) -> None:
    dead = {"", PROBE}
    asked: list[str] = []

    def say(brief: Brief) -> Any:
        asked.append(brief.part)
        return Unreachable("the line is dead") if brief.part in dead else say_both(brief)

    given: dict[str, Any] = {"rubric": "edit-fidelity", "cases": [edit_case()], "ledger": tmp_path / "l.db"}
    first = run(**given, judge=judge_both(say), probe=True)
    [verdict] = first.verdicts()
    # Where the whole has no answer, nothing is spent on the crop.
    assert (verdict.outcome, probed(verdict), asked) == (Outcome.UNREACHABLE, set(), [""])
    dead.remove("")
    second = run(**given, judge=judge_both(say), probe=True)
    [verdict] = second.verdicts()
    assert (second.id, verdict.outcome) == (first.id, Outcome.SCORED)
    assert "probe_failed" in flags_of(verdict)
    assert asked == ["", "", PROBE]
    # The run is finished. Another one has the answer to the whole, and asks about the crop again.
    dead.clear()
    third = run(**given | {"cases": [edit_case(), edit_case(1)]}, judge=judge_both(say), probe=True)
    verdict = next(iter(third.verdicts()))
    assert sorted(asked[3:]) == ["", PROBE, PROBE]
    assert probed(verdict) == {"probe.region", *ANSWERS}
    with Ledger.open(tmp_path / "l.db", create=False) as ledger:
        assert len(ledger.raw_answers(third.id, "c0")["edit-fidelity"]) == 2


def test_a_set_up_that_is_wrong_for_the_crop_alone_loses_no_answer(tmp_path: Path) -> None:
    wrong = True
    asked: list[str] = []

    def say(brief: Brief) -> Any:
        asked.append(brief.part)
        return SetupError("it takes no crops") if wrong and brief.part == PROBE else say_both(brief)

    given: dict[str, Any] = {"rubric": "edit-fidelity", "cases": [edit_case()], "ledger": tmp_path / "l.db"}
    with pytest.raises(SetupError, match="it takes no crops"):
        run(**given, judge=judge_both(say), probe=True)
    wrong = False
    [verdict] = run(**given, judge=judge_both(say), probe=True).verdicts()
    assert (verdict.outcome, asked) == (Outcome.SCORED, ["", PROBE, PROBE])


@pytest.mark.parametrize("failure", ["unreachable", "refused", "invalid"])
def test_a_failed_probe_costs_no_score(failure: str) -> None:
    replies: dict[str, Any] = {
        "unreachable": Unreachable("the line is dead"),
        "refused": "I'm sorry, I can't help with that.",
        "invalid": "well",
    }

    def say(brief: Brief) -> Any:
        answer = replies[failure] if brief.part == PROBE else say_both(brief)
        is_text = isinstance(answer, str | dict)
        return (
            Answer(answer if isinstance(answer, str) else json.dumps(answer), cost_usd=Decimal("0.01"))
            if is_text
            else answer
        )

    without = judge("edit-fidelity", edit_case(), judge=judge_both())
    verdict = judge("edit-fidelity", edit_case(), judge=judge_both(say), options=ON)
    assert (verdict.outcome, verdict.score, verdict.criteria) == (Outcome.SCORED, without.score, without.criteria)
    assert probed(verdict) == set()
    [flag] = [one for one in verdict.flags if one.flag == "probe_failed"]
    assert flag.said == failure
    calls = {"unreachable": 1, "refused": 2, "invalid": 3}[failure]
    assert verdict.cost_usd == calls * Decimal("0.01")


def test_without_a_region_nobody_is_asked_and_a_flag_says_why() -> None:
    images = {"input": png(photo(1)), "edited": png(255 - photo(1))}
    inverted = Case("c", images, {"instruction": "invert it"})
    for case, why in ((edit_case(changed=False), "identical"), (inverted, "nothing tells where the edit was")):
        one = judge_both()
        verdict = judge("edit-fidelity", case, judge=one, options=ON)
        assert (verdict.outcome, len(one.briefs)) == (Outcome.SCORED, 1)
        assert why in flags_of(verdict)["not_probed"]


def test_in_a_setting_without_the_input_nobody_is_asked() -> None:
    images = edit_case().images
    case = Case("c", {"target": images["input"], "edited": images["edited"]}, {"instruction": "paint a red square"})
    one = judge_both()
    verdict = judge("edit-fidelity", case, judge=one, options=ON)
    assert len(one.briefs) == 1
    assert "no image 'input'" in flags_of(verdict)["not_probed"]


def test_instruments_are_not_asked() -> None:
    verdict = judge_rubrics("edit", edit_case(), options=ON)["edit-fidelity"]
    assert flags_of(verdict)["not_probed"] == "no judge looks at the images"


def test_of_a_jury_the_median_counts() -> None:
    scores = {"a": 2, "b": 5, "c": 10}

    def by(name: str) -> ScriptedJudge:
        return judge_both(lambda brief: answer_probe(scores[name]) if brief.part == PROBE else say_both(brief), name)

    verdict = judge("edit-fidelity", edit_case(), judge=[by(name) for name in scores], options=ON)
    assert verdict.jury is not None
    assert (len(verdict.jury.jurors), verdict.jury.failed) == (3, 0)
    assert value(verdict, "probe.present") == 5
    two = judge("edit-fidelity", edit_case(), judge=[by("a"), by("b")], samples=2, options=ON)
    assert value(two, "probe.present") == 3.5
    dead = ScriptedJudge(say=lambda brief: Unreachable("dead") if brief.part == PROBE else say_both(brief), name="dead")
    some = judge("edit-fidelity", edit_case(), judge=[by("a"), dead], options=ON)
    assert value(some, "probe.present") == 2
    assert flags_of(some)["probe_failed"] == "dead: dead"


def test_of_a_family_each_rubric_asks_its_own_questions() -> None:
    def say(brief: Brief) -> Any:
        key = "reason" if brief.part == PROBE else "justification"
        words = "the wall behind the car shows the same mortar lines and the same shading as it did before"
        return {
            "criteria": {one.key: {key: words, "score": 5} for one in brief.criteria},
            **({} if brief.part else {"image_id": brief.label}),
        }

    one = judge_both(say)
    verdicts = judge_rubrics("edit", edit_case(), judge=one, options=ON)
    assert {name: probed(verdict) for name, verdict in verdicts.items()} == {
        "edit-preservation": set(),
        "edit-quality": {"probe.region", "probe.clean", "probe.seamless"},
        "edit-fidelity": {"probe.region", *ANSWERS},
    }
    assert len(one.briefs) == 5


def test_a_rubric_without_a_probe_is_a_sentence() -> None:
    with pytest.raises(UsageError, match="no probe for restyle: edit-fidelity and edit-quality have one"):
        judge("restyle", edit_case(), judge=judge_both(), options=ON)
    with pytest.raises(UsageError, match=r"probe: .*no probe for edit-preservation"):
        run(rubric="edit-preservation", cases=[edit_case()], judge=judge_both(), probe=True)
    with pytest.raises(UsageError, match="probe: should be True or False"):
        Options(probe="yes")  # type: ignore[arg-type]  # what a user may write


def test_a_budget_counts_both_questions_and_one_that_is_used_up_costs_no_score(tmp_path: Path) -> None:
    def say(brief: Brief) -> Answer:
        return Answer(json.dumps(say_both(brief)), cost_usd=Decimal("0.5"))

    for budget, outcome in ((2, []), (0.5, ["over_budget"])):
        given: dict[str, Any] = {
            "ledger": tmp_path / f"{budget}.db",
            "budget": budget,
            "options": {"probe": True, "price": PRICE},
        }
        with Session(judge_both(say), **given) as session:
            verdict = session.judge("edit-fidelity", edit_case())
        assert verdict.outcome is Outcome.SCORED
        assert [flag.said for flag in verdict.flags if flag.flag == "probe_failed"] == outcome
        assert verdict.cost_usd == (Decimal("0.5") if outcome else Decimal(1))
        with Ledger.open(tmp_path / f"{budget}.db", create=False) as ledger:
            assert ledger.run("latest").spent_usd == verdict.cost_usd


def test_a_plan_says_what_the_probe_costs(tmp_path: Path) -> None:
    with JudgeServer(reply_both, keyless=True) as server:
        without = plan(**settings(server, tmp_path, probe=False))
        both = plan(**settings(server, tmp_path))
        main, closer = both.judges
        assert (main.part, closer.part, closer.name) == ("", "probe", "openai:gpt-4o (probe)")
        assert [main.to_dict()] == [one.to_dict() for one in without.judges]
        assert "part" not in main.to_dict()
        assert (both.calls, closer.calls) == (2, 1)
        assert both.expected_money is not None
        assert without.expected_money is not None
        assert both.expected_money > without.expected_money
        assert 0 < closer.image_tokens < main.image_tokens
        run(**settings(server, tmp_path), progress=False)
        done = plan(**settings(server, tmp_path), samples=2)
        assert [(one.calls, one.answered) for one in done.judges] == [(1, 1), (1, 1)]


def test_a_case_without_a_region_is_no_call_in_a_plan(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"rubric": "edit-fidelity", "judge": "openai:gpt-4o", "ledger": tmp_path / "ledger.db"}
    whole = plan(cases=[edit_case(changed=False)], probe=True, **asked)
    assert [one.calls for one in whole.judges] == [1, 0]


async def test_a_batch_asks_both_questions(tmp_path: Path) -> None:
    with JudgeServer(reply_both, keyless=True) as server:
        given = settings(server, tmp_path)
        given |= {"judges": [given.pop("judge")], "cases": write_cases(tmp_path, 2), "ledger": str(given["ledger"])}
        with prepare_run(load_suite(None, given)) as suite_run:

            async def collect(how: BatchPassOptions) -> str:
                told: list[str] = []
                passed = BatchPass(suite_run, how, ProgressCounter(2), asyncio.Event(), told.append)
                return str((await passed.run()).state)

            state = await collect(BatchPassOptions(retry_answered=True))
            for _ in range(5):
                if state == "finished":
                    break
                state = await collect(BatchPassOptions(even_if_nothing_new=False))
            verdicts = list(suite_run.ledger.verdicts(suite_run.record.id))
        assert state == "finished"
        assert [probed(verdict) for verdict in verdicts] == [{"probe.region", *ANSWERS}] * 2


def test_a_session_keeps_runs_with_and_without_apart(tmp_path: Path) -> None:
    ids = set()
    for probe in (False, True):
        one = judge_both()
        with Session(one, ledger=tmp_path / "l.db", name="mine", options={"probe": probe}) as session:
            verdict = session.judge("edit-fidelity", edit_case())
            assert session.run_id is not None
            ids.add(session.run_id)
        assert bool(probed(verdict)) is probe
        assert len(one.briefs) == 1  # the second time only the crop is new
    assert len(ids) == 2


def test_what_would_be_asked_can_be_seen() -> None:
    briefs = make_briefs("edit-fidelity", edit_case(), options=ON)
    assert list(briefs) == ["edit-fidelity", "edit-fidelity-probe"]
    assert list(make_briefs("edit-fidelity", edit_case())) == ["edit-fidelity"]
    assert make_briefs("edit-fidelity", edit_case())["edit-fidelity"].digest == briefs["edit-fidelity"].digest


def test_a_rubric_of_ones_own_has_questions_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "rubric.yaml").write_text(
        "rubric: mine\n"
        "images: [{role: input, label: Before}, {role: edited, label: After}]\n"
        "criteria: [{key: good}]\n"
        "probe: [{key: there, question: Is it there?, scale: [0, 1], low: No, high: Yes}]\n".replace(
            "No", "'No'"
        ).replace("Yes", "'Yes'")
    )

    def say(brief: Brief) -> Any:
        return {"criteria": {one.key: {"reason": "seen", "score": 1} for one in brief.criteria}}

    images = edit_case().images
    case = Case("c", images)
    assert probed(judge(tmp_path, case, judge=judge_both(say))) == set()
    verdict = judge(tmp_path, case, judge=judge_both(say), options=ON)
    assert verdict.measurements["probe.there"] == {"value": 1, "unit": "of 1", "sentence": "There: 1 of 1. seen"}


def test_it_is_a_flag_and_a_key_of_suites(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    with JudgeServer(reply_both, keyless=True) as server:
        cases = write_cases(tmp_path)
        suite = tmp_path / "suite.yaml"
        suite.write_text(f"cases: {cases}\nrubric: edit-fidelity\nprobe: true\nledger: {tmp_path / 'l.db'}\n")
        flags = ["--judge", "openai:gpt-4o", "--base-url", server.openai_url]
        shown = CliRunner().invoke(app, ["plan", str(suite), *flags, "--json"])
        assert [one.get("part") for one in json.loads(shown.stdout)["judges"]] == [None, "probe"]
        shown = CliRunner().invoke(app, ["plan", str(suite), *flags, "--json", "--no-probe"])
        assert len(json.loads(shown.stdout)["judges"]) == 1
        images = [str(tmp_path / "input0.png"), str(tmp_path / "edited0.png")]
        line = ["judge", "edit-fidelity", *images, "--set", "instruction=paint a red square", *flags, "--probe"]
        shown = CliRunner().invoke(app, [*line, "--json"])
        assert "probe.intact" in json.loads(shown.stdout)["measurements"]
        shown = CliRunner().invoke(app, [*line, "--plan", "--json"])
        assert [json.loads(one)["rubric"] for one in shown.stdout.splitlines()] == [
            "edit-fidelity",
            "edit-fidelity-probe",
        ]


def test_a_server_that_fails_for_the_crop_alone(tmp_path: Path) -> None:
    def reply(received: Received) -> Any:
        return Fault.refusal("I would rather not.") if is_probe(received) else reply_both(received)

    with JudgeServer(reply, keyless=True) as server:
        given = settings(server, tmp_path)
        done = run(**given, progress=False)
        [verdict] = done.verdicts()
        assert (verdict.outcome, flags_of(verdict)["probe_failed"]) == (Outcome.SCORED, "I would rather not.")
        assert verdict.cost_usd == done.record.spent_usd
        assert run(**given, progress=False).id == done.id
        assert len(server.received) == 2


def test_a_composer_travels_to_a_worker_of_a_cluster_after_it_was_used() -> None:
    composer = Options(probe=True).make_composer(EDIT)
    before, after = (prepare_image(data) for data in edit_case().images.values() if isinstance(data, bytes))
    brief = composer.compose_probe(edit_case(), {"input": before, "edited": after})
    sent = pickle.loads(pickle.dumps(composer))
    assert sent.compose_probe(edit_case(), {"input": before, "edited": after}) == brief
