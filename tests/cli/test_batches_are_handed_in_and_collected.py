"""`run --batch` and `collect`, against a real server: nothing is lost, nothing is asked twice, and it costs half."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from beholder.ledger.ledger import Ledger
from beholder.testing.base import Course, Fault
from beholder.testing.server import JudgeServer

MODELS = {"openai": "openai:gpt-5-mini", "anthropic": "anthropic:claude-haiku-4-5", "google": "google:gemini-2.5-flash"}
COUNT = 4


@pytest.fixture
def good(server: JudgeServer, answer: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    server.default = answer()
    return answer()


class Desk:
    """A folder with a few cases, and the commands on them."""

    def __init__(self, run: Any, server: JudgeServer, folder: Path) -> None:
        self._run, self.server, self.folder = run, server, folder
        self.judge = "openai"
        rows = []
        for number in range(COUNT):
            shutil.copy("after.png", f"after{number}.png")
            row = {"id": f"c{number}", "input": "before.png", "edited": f"after{number}.png"}
            rows.append({**row, "instruction": f"make {number} things red"})
        (folder / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")

    def __call__(self, command: str, *more: str) -> Any:
        judge = ["--judge", MODELS[self.judge], "--base-url", getattr(self.server, f"{self.judge}_url")]
        if "--judge" in more:
            judge = []
        done = self._run(
            *(command, "--rubric", "edit-preservation", "--cases", "cases.jsonl", *judge),
            *("--ledger", "runs.db", "--no-thumbnails", "--no-audit", "--json", *more),
        )
        assert "Traceback" not in done.err, done.err
        self.said = [json.loads(line) for line in done.out.splitlines() if line.startswith("{")]
        return done

    @property
    def jobs(self) -> list[Any]:
        return self.server.batches.jobs

    def outcomes(self) -> dict[str, str]:
        with Ledger.open(self.folder / "runs.db", create=True) as ledger:
            return {one.case: str(one.outcome) for one in ledger.verdicts("latest")}

    def record(self) -> Any:
        with Ledger.open(self.folder / "runs.db", create=True) as ledger:
            return ledger.run()


@pytest.fixture
def desk(run: Any, server: JudgeServer, folder: Path, good: object, monkeypatch: pytest.MonkeyPatch) -> Desk:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "sk-test-0123456789")
    return Desk(run, server, folder)


ALL = {f"c{number}": "scored" for number in range(COUNT)}
PRICE = ("--price-input", "1", "--price-output", "10")


@pytest.mark.parametrize("judge", MODELS)
def test_a_run_is_handed_in_looked_at_and_collected(desk: Desk, judge: str) -> None:
    desk.judge = judge
    desk.server.batches.courses.append(Course(looks=1, backwards=True))
    assert desk("run", "--batch").code == 0
    assert (len(desk.jobs), len(desk.jobs[0].keys), desk.outcomes()) == (1, COUNT, {})
    assert desk.said[-1]["state"] == "waiting"
    assert desk("collect").code == 0
    assert (desk.said[-1]["requests"], desk.outcomes()) == (COUNT, {})
    assert desk("collect").code == 0
    assert (desk.outcomes(), desk.record().state) == (ALL, "finished")
    assert len(desk.server.received) == COUNT
    assert desk.server.batches.files == {}  # nobody else keeps the images
    assert desk("collect").code == 2


def test_a_threshold_is_no_pass_while_the_run_waits(desk: Desk) -> None:
    desk.server.batches.courses.append(Course(looks=1))
    for command in (("run", "--batch"), ("collect",)):
        done = desk(*command, "--fail-under", "10")
        assert (done.code, desk.outcomes()) == (4, {})
        assert "the thresholds are not decided until the batch has ended" in done.err
    assert desk("collect", "--fail-under", "10").code == 0
    assert desk.outcomes() == ALL


@pytest.mark.parametrize("judge", MODELS)
def test_a_request_is_what_the_live_one_is_and_costs_half(desk: Desk, judge: str) -> None:
    desk.judge = judge
    desk("run", "--batch", *PRICE)
    desk("collect", *PRICE)
    batch, spent = [heard.body for heard in desk.server.received], desk.record().spent_usd
    desk.server.received.clear()
    desk("run", "--fresh", *PRICE)
    live = [heard.body for heard in desk.server.received]
    assert sorted(map(json.dumps, batch)) == sorted(map(json.dumps, live))
    assert spent * 2 == desk.record().spent_usd


def test_answers_of_a_batch_are_found_by_a_live_run_and_the_other_way_round(desk: Desk) -> None:
    desk("run", "--batch")
    desk("collect")
    assert desk("run", "--threshold", "0.5").code == 0
    assert desk.said[-1]["reused"] == COUNT
    assert desk("run", "--batch", "--threshold", "0.6").code == 0
    assert (len(desk.jobs), len(desk.server.received)) == (1, COUNT)


@pytest.mark.parametrize("judge", MODELS)
def test_what_failed_or_expired_is_handed_in_again(desk: Desk, judge: str) -> None:
    desk.judge = judge
    desk.server.batches.courses.append(Course(expired=1))
    desk.server.say(Fault.status(500))
    desk("run", "--batch")
    desk("collect")
    assert sorted(desk.outcomes().values()) == ["scored"] * (COUNT - 2)
    assert len(desk.jobs[1].keys) == 2
    desk("collect")
    assert desk.outcomes() == ALL
    with Ledger.open(desk.folder / "runs.db", create=True) as ledger:
        assert sorted(one.attempts for one in ledger.verdicts("latest")) == [1, 1, 2, 2]


def test_what_keeps_failing_is_given_up_as_a_live_request_would_be(desk: Desk) -> None:
    desk.server.default = Fault.status(503)
    assert desk("run", "--batch").code == 0
    assert desk("collect", "--wait", "--pause", "0.001").code == 3
    assert set(desk.outcomes().values()) == {"unreachable"}
    assert len(desk.jobs) == 6


@pytest.mark.parametrize("short", [False, True])
def test_results_that_break_off_are_kept_as_far_as_they_came(desk: Desk, short: bool) -> None:
    desk.server.batches.courses.append(Course(cut=1, short=short))
    desk("run", "--batch")
    done = desk("collect")
    assert "2 of 4 are kept" in done.err
    assert list(desk.outcomes().values()) == ["scored"] * 2
    desk("collect")
    assert (desk.outcomes(), len(desk.jobs), len(desk.server.received)) == (ALL, 1, COUNT)


def test_a_job_that_the_provider_has_forgotten_is_told_and_asked_again(desk: Desk) -> None:
    desk.server.batches.courses.append(Course(forgotten=True))
    desk("run", "--batch")
    assert "is forgotten by its provider" in desk("collect").err
    desk("collect")
    assert (desk.outcomes(), len(desk.jobs)) == (ALL, 2)


@pytest.mark.parametrize("judge", MODELS)
def test_a_job_whose_receipt_was_lost_is_found_and_not_paid_twice(desk: Desk, judge: str) -> None:
    desk.judge = judge
    desk.server.batches.courses.append(Course(unheard=True))
    assert "Nobody can tell whether it took a job of 4 requests" in desk("run", "--batch").err
    assert "was found again at its provider" in desk("collect").err
    assert (desk.outcomes(), len(desk.jobs)) == (ALL, 1)


def test_a_job_that_was_begun_and_never_handed_in_is_asked_again(desk: Desk) -> None:
    desk.server.batches.courses.append(Course(unheard=True))
    desk("run", "--batch")
    desk.jobs.clear()
    assert "was begun and never submitted" in desk("collect").err
    desk("collect")
    assert (desk.outcomes(), len(desk.jobs)) == (ALL, 1)


def test_an_invalid_answer_is_repaired_in_a_following_batch(desk: Desk, good: dict[str, Any]) -> None:
    desk.server.say({"criteria": {}})
    desk("run", "--batch")
    desk("collect")
    assert len(desk.jobs[1].keys) == 1
    assert "does not have the required form" in desk.server.received[-1].texts[-1]
    desk("collect")
    assert desk.outcomes() == ALL
    with Ledger.open(desk.folder / "runs.db") as ledger:
        told = [one for case in ALL for one in ledger.transcripts("latest", case)["edit-preservation"]]
    [repaired] = [one for one in told if len(one.turns) > 1]
    assert [json.loads(turn.answer) for turn in repaired.turns] == [{"criteria": {}}, good]


@pytest.mark.parametrize("repaired", [True, False])
def test_missing_reasons_are_asked_for_in_a_following_batch(repaired: bool, desk: Desk, good: dict[str, Any]) -> None:
    lacking = {"criteria": {key: {"score": block["score"]} for key, block in good["criteria"].items()}}
    desk.server.say(lacking, *[good] * (COUNT - 1), good if repaired else "no JSON")
    desk("run", "--batch")
    desk("collect")
    assert len(desk.jobs[1].keys) == 1
    desk("collect")
    assert (desk.outcomes(), len(desk.jobs), len(desk.server.received)) == (ALL, 2, COUNT + 1)
    with Ledger.open(desk.folder / "runs.db") as ledger:
        flags = {flag.flag for verdict in ledger.verdicts("latest") for flag in verdict.flags}
    assert flags & {"repair_asked", "empty_reason"} == (
        {"repair_asked"} if repaired else {"repair_asked", "empty_reason"}
    )


def test_an_invalid_answer_is_repaired_live_if_asked(desk: Desk) -> None:
    desk.server.say({"criteria": {}})
    desk("run", "--batch")
    desk("collect", "--repair", "live")
    assert (desk.outcomes(), len(desk.jobs), len(desk.server.received)) == (ALL, 1, COUNT + 1)


def test_an_empty_answer_is_asked_for_again_as_another_request(desk: Desk) -> None:
    desk.server.say(Fault.empty())
    desk("run", "--batch")
    desk("collect", "--wait", "--pause", "0.001")
    assert (desk.outcomes(), len(desk.server.received)) == (ALL, COUNT + 1)


def test_what_stays_invalid_is_an_outcome_that_only_a_new_run_tries_again(desk: Desk, good: dict[str, Any]) -> None:
    desk.server.default = "no JSON at all"
    desk("run", "--batch")
    assert desk("collect", "--wait", "--pause", "0.001").code == 3
    assert set(desk.outcomes().values()) == {"invalid"}
    asked, spent = len(desk.server.received), desk.record().spent_usd
    assert asked == 2 * COUNT
    assert desk("collect").code == 2
    assert (len(desk.server.received), desk.record().spent_usd) == (asked, spent)
    desk.server.default = good
    assert desk("run", "--batch").code == 0
    assert set(desk.outcomes().values()) == {"invalid"}
    assert desk("collect").code == 0
    assert (desk.outcomes(), len(desk.server.received)) == (ALL, asked + COUNT)


def test_a_refusal_is_an_outcome_and_retried_only_on_request(desk: Desk) -> None:
    desk.server.say(Fault.refusal("I would rather not say."))
    desk("run", "--batch")
    desk("collect")
    assert sorted(desk.outcomes().values()) == ["refused", "scored", "scored", "scored"]
    desk("run", "--batch", "--retry", "refused")
    assert len(desk.jobs[1].keys) == 1
    desk("collect")
    assert desk.outcomes() == ALL


def test_a_server_that_cannot_hold_a_schema_is_told_it_in_words(desk: Desk) -> None:
    desk.server.say(*[Fault.no_structured_output()] * COUNT)
    desk("run", "--batch")
    desk("collect", "--wait", "--pause", "0.001")
    assert desk.outcomes() == ALL
    assert desk.server.received[-1].schema is None


def test_a_parameter_that_the_provider_refuses_is_wrong_use(desk: Desk) -> None:
    desk("run", "--batch", "--param", "sparkle=1")
    done = desk("collect", "--param", "sparkle=1")
    assert done.code == 2
    assert "sparkle" in done.err


def test_what_a_person_has_mended_is_asked_again_by_a_new_run(desk: Desk) -> None:
    desk.server.say(*[Fault.unknown_model()] * COUNT)
    desk("run", "--batch")
    done = desk("collect")
    assert (done.code, desk.outcomes()) == (2, {})
    assert "There is no model" in done.err
    assert desk("run", "--batch").code == 0
    assert desk("collect").code == 0
    assert (desk.outcomes(), len(desk.jobs)) == (ALL, 2)


def test_a_job_that_is_refused_as_a_whole_ends_as_outcomes_with_the_reason(desk: Desk) -> None:
    desk.server.batches.courses.append(Course(fails="This model does not do batches."))
    desk("run", "--batch")
    done = desk("collect")
    assert done.code == 3
    assert "This model does not do batches" in done.err
    assert set(desk.outcomes().values()) == {"unreachable"}


def test_a_job_for_which_there_is_no_room_is_handed_in_again_in_smaller_ones(desk: Desk) -> None:
    desk.server.batches.courses.append(Course(fails="Enqueued token limit reached.", full=True))
    desk("run", "--batch")
    assert "too much for now" in desk("collect").err
    assert desk.server.batches.files == {}
    desk("collect")
    desk("collect")
    desk("collect")
    assert ([len(job.keys) for job in desk.jobs], desk.outcomes()) == ([4, 2, 2], ALL)


@pytest.mark.parametrize("judge", MODELS)
def test_a_provider_that_takes_no_jobs_now_is_asked_the_next_time(desk: Desk, judge: str) -> None:
    desk.judge = judge
    desk.server.batches.busy = True
    done = desk("run", "--batch")
    assert done.code == 0
    assert "takes no more jobs for now" in done.err
    assert (desk.jobs, desk.outcomes(), desk.record().state) == ([], {}, "waiting")
    assert desk.server.batches.files == {}
    desk.server.batches.busy = False
    desk("collect")
    desk("collect")
    assert desk.outcomes() == ALL


def test_cancelling_cancels_at_the_provider_and_nothing_is_asked_again_by_itself(desk: Desk) -> None:
    desk.server.batches.courses.append(Course(looks=5, expired=2))
    desk("run", "--batch")
    assert "1 jobs are canceled" in desk("collect", "--cancel").err
    assert desk.jobs[0].canceled
    desk("collect")
    assert (list(desk.outcomes().values()), len(desk.jobs), desk.record().state) == (["scored"] * 2, 1, "interrupted")
    assert desk("collect").code == 2
    desk("run", "--batch")
    desk("collect")
    assert (desk.outcomes(), len(desk.jobs[1].keys)) == (ALL, 2)


def test_a_run_that_was_answered_before_it_was_cancelled_is_finished(desk: Desk) -> None:
    desk.server.batches.courses.append(Course(looks=5))
    desk("run", "--batch")
    desk("collect", "--cancel")
    assert desk("collect").code == 0
    assert (desk.outcomes(), desk.record().state, len(desk.jobs)) == (ALL, "finished", 1)


def test_a_run_that_was_cancelled_before_a_repair_is_not_finished(desk: Desk, good: dict[str, Any]) -> None:
    desk.server.say({"criteria": {}})
    desk.server.batches.courses.append(Course(looks=5))
    desk("run", "--batch")
    desk("collect", "--cancel")
    desk("collect")
    assert (list(desk.outcomes().values()), desk.record().state) == (["scored"] * 3, "interrupted")
    assert (desk("collect").code, len(desk.jobs)) == (2, 1)  # nothing is handed in again before a `run`
    desk("run", "--batch")
    desk("collect")
    assert (desk.outcomes(), desk.record().state) == (ALL, "finished")


def test_what_was_cancelled_may_be_asked_live(desk: Desk) -> None:
    desk.server.batches.courses.append(Course(looks=5, expired=2))
    desk("run", "--batch")
    desk("collect", "--cancel")
    assert desk("run").code == 3
    assert (list(desk.outcomes().values()), len(desk.jobs)) == (["scored"] * 2, 1)
    assert desk("run").code == 0
    assert (desk.outcomes(), len(desk.jobs), len(desk.server.received)) == (ALL, 1, COUNT)


def test_what_was_cancelled_between_the_answers_of_a_jury_may_be_asked_live(desk: Desk) -> None:
    desk.server.batches.courses.append(Course(looks=5, expired=COUNT))
    desk("run", "--batch", "--samples", "3")
    desk("collect", "--cancel", "--samples", "3")
    desk("collect", "--samples", "3")
    assert desk("run", "--samples", "3").code == 0
    assert (desk.outcomes(), desk.record().state, len(desk.jobs)) == (ALL, "finished", 1)


def test_a_live_run_does_not_ask_what_is_under_way(desk: Desk) -> None:
    desk.server.batches.courses.append(Course(looks=1))
    desk("run", "--batch")
    assert desk("run").code == 0
    assert desk("run").code == 0
    assert (desk.outcomes(), len(desk.server.received), len(desk.jobs)) == (ALL, COUNT, 1)


def test_waiting_looks_again_until_all_is_there(desk: Desk) -> None:
    desk.server.batches.usual = Course(looks=3)
    desk("run", "--batch")
    assert desk("collect", "--wait", "--pause", "0.001").code == 0
    assert desk.outcomes() == ALL
    assert [said["requests"] for said in desk.said if said["event"] == "batch"] == [COUNT] * 3


def test_a_jury_waits_for_its_slowest_juror(desk: Desk) -> None:
    suite = desk.folder / "suite.yaml"
    entries = [f"  - {{judge: '{MODELS[name]}', base_url: '{getattr(desk.server, name + '_url')}'}}" for name in MODELS]
    suite.write_text(
        "rubric: edit-preservation\ncases: cases.jsonl\nledger: runs.db\nthumbnails: false\naudit: false\njudges:\n"
        + "\n".join(entries)
    )
    desk.server.batches.courses += [Course(), Course(looks=1)]
    for command, scored in (("run --batch", 0), ("collect", 0), ("collect", COUNT)):
        assert desk._run(f"{command.split()[0]} suite.yaml --json {' '.join(command.split()[1:])}").code == 0
        assert len(desk.outcomes()) == scored
    assert (desk.outcomes(), len(desk.jobs), len(desk.server.received)) == (ALL, 3, 3 * COUNT)
    with Ledger.open(desk.folder / "runs.db", create=True) as ledger:
        assert {one.jury.answered for one in ledger.verdicts("latest") if one.jury} == {3}


def test_a_budget_is_kept_by_what_is_handed_in(desk: Desk) -> None:
    planned = desk("plan", *PRICE)
    assert planned.code == 0
    [judge] = desk.said[-1]["judges"]
    assert judge["batch_high"] == pytest.approx(judge["money_high"] / 2)
    budget = ("--budget", str(judge["batch_high"] * 0.8), *PRICE)
    desk.server.batches.courses.append(Course(looks=2))
    desk("run", "--batch", *budget)
    assert 0 < len(desk.jobs[0].keys) < COUNT
    assert set(desk.outcomes().values()) == {"over_budget"}
    desk("run", "--batch", *budget)
    desk("run", "--batch", *budget)
    assert len(desk.jobs) == 1  # what is under way is still set aside
    desk("collect", "--wait", "--pause", "0.001", *budget)
    assert desk.outcomes() == ALL


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--judge", "instruments"), "measure here and now"),
        (("--judge", "groq:llama"), "batch API"),
        (("--engine", "ray"), "one process"),
        (("--judge", "openai:x", "--base-url", "http://127.0.0.1:1", "--base-url", "http://127.0.0.1:2"), "several"),
    ],
)
def test_who_cannot_be_asked_by_batch_is_told_so(desk: Desk, flags: tuple[str, ...], sentence: str) -> None:
    done = desk("run", "--batch", *flags)
    assert done.code == 2
    assert sentence in done.err or "groq" in done.err
    assert not (desk.folder / "runs.db").exists()


def test_a_run_whose_files_have_changed_since_is_collected_by_its_name(desk: Desk) -> None:
    desk("run", "--batch")
    (desk.folder / "after0.png").touch()
    done = desk("collect")
    assert done.code == 2
    assert "--run" in done.err
    assert desk("collect", "--run", "latest").code == 0
    assert desk.outcomes() == ALL


def test_there_is_nothing_to_collect_without_a_run(desk: Desk) -> None:
    assert desk("collect").code == 2
    desk("run")
    done = desk("collect")
    assert done.code == 2
    assert "is under way" in done.err


@pytest.mark.parametrize("late", [False, True])
def test_two_lost_jobs_of_one_size_are_each_found_and_paid_once(desk: Desk, late: bool) -> None:
    """Anthropic's have no note. Where the first was late, the second is taken for it until its results tell."""
    two = [word for model in ("haiku", "sonnet") for word in ("--judge", f"anthropic:claude-{model}-4-5")]
    two += ["--base-url", desk.server.anthropic_url]
    desk.server.batches.courses += [Course(unheard=True), Course(unheard=True)]
    desk("run", "--batch", *two)
    desk.jobs[0].created += timedelta(minutes=2 * late)
    desk.jobs.sort(key=lambda job: job.created)
    desk("collect", *two)
    assert (desk.outcomes(), len(desk.jobs), len(desk.server.received)) == (ALL, 2, 2 * COUNT)


@pytest.mark.parametrize("ours_was_first", [True, False])
def test_a_job_of_the_same_size_that_is_another_programs_is_left_alone(desk: Desk, ours_was_first: bool) -> None:
    desk.judge = "anthropic"
    desk.server.batches.courses.append(Course(unheard=True))
    desk("run", "--batch")
    [ours] = desk.jobs
    theirs = dataclasses.replace(ours, id="msgbatch_theirs", keys=["x"] * COUNT)
    theirs.lines = [{**line, "custom_id": "x"} for line in ours.lines]
    (theirs if ours_was_first else ours).created += timedelta(minutes=2)
    desk.jobs[:] = [ours, theirs] if ours_was_first else [theirs, ours]
    desk("collect")
    assert (desk.outcomes(), len(desk.jobs), len(desk.server.received)) == (ALL, 2, COUNT)


@pytest.mark.parametrize("judge", MODELS)
def test_a_file_that_ends_too_early_at_the_end_of_a_line_is_fetched_again(desk: Desk, judge: str) -> None:
    desk.judge = judge
    desk.server.batches.courses.append(Course(cut=2, short=True, even=True))
    desk("run", "--batch")
    for _ in range(2):
        assert "4 results, and sent 2. 2 of 4 are kept" in desk("collect").err
        assert list(desk.outcomes().values()) == ["scored"] * 2
    desk("collect")
    assert (desk.outcomes(), len(desk.jobs), len(desk.server.received)) == (ALL, 1, COUNT)


@pytest.mark.parametrize("even", [False, True])
def test_what_never_comes_is_asked_again_in_the_end(desk: Desk, even: bool) -> None:
    desk.server.batches.courses.append(Course(cut=99, short=True, even=even))
    desk("run", "--batch")
    assert desk("collect", "--wait", "--pause", "0.001").code == 0
    assert (desk.outcomes(), [len(job.keys) for job in desk.jobs]) == (ALL, [4, 2])
    assert desk.jobs[0].cuts == 6


def test_a_result_that_nobody_can_read_is_an_outcome_and_not_paid_for_again(desk: Desk) -> None:
    desk("run", "--batch")
    desk.jobs[0].lines[0]["response"].pop("body")
    desk.jobs[0].lines[1] = {"custom_id": 7, "response": {"status_code": 200}}
    assert desk("collect").code == 3
    assert sorted(desk.outcomes().values()) == ["scored", "scored", "unreachable", "unreachable"]
    assert (len(desk.jobs), len(desk.server.received)) == (1, COUNT)


@pytest.mark.parametrize("judge", MODELS)
def test_a_refusal_for_good_is_wrong_use_and_no_run_is_finished_by_it(desk: Desk, judge: str) -> None:
    desk.judge = judge
    desk.server.batches.refuse = Fault.status(400, "This organisation may not use batches.")
    done = desk("run", "--batch")
    assert done.code == 2
    assert "may not use batches" in done.err
    assert (desk.record().state, desk.outcomes()) == ("interrupted", {})
    desk.server.batches.refuse = None
    assert desk("run", "--batch").code == 0
    assert desk("collect").code == 0
    assert desk.outcomes() == ALL


def test_a_provider_that_lists_no_jobs_has_forgotten_them(desk: Desk) -> None:
    desk.server.batches.courses.append(Course(unheard=True))
    desk("run", "--batch")
    desk.server.batches.refuse = Fault.status(404, "not here")
    done = desk("collect")
    assert "is forgotten by its provider" in done.err
    assert "there is no batch API" in done.err
    desk.server.batches.refuse = None
    desk("run", "--batch")
    desk("collect")
    assert desk.outcomes() == ALL


@pytest.mark.parametrize("judge", ["openai", "google"])
def test_a_provider_that_never_has_room_is_given_up_and_keeps_nothing(desk: Desk, judge: str) -> None:
    desk.judge = judge
    desk.server.batches.usual = Course(fails="Enqueued token limit reached.", full=True)
    desk("run", "--batch")
    looks = 0
    while desk("collect").code == 0:
        looks += 1
        assert looks < 60
    assert set(desk.outcomes().values()) == {"unreachable"}
    sizes = [len(job.keys) for job in desk.jobs]
    assert sizes[:3] == [4, 2, 1]
    assert sum(sizes) == 6 * COUNT  # each as often as a live request is sent
    assert desk.server.batches.files == {}


def test_where_there_is_little_room_one_job_follows_the_other(desk: Desk) -> None:
    desk.server.batches.courses += [Course(fails="Enqueued token limit reached.", full=True), Course(looks=2)]
    desk("run", "--batch")
    for _ in range(5):
        desk("collect")
        assert sum(not job.ended for job in desk.jobs) <= 1
    assert [len(job.keys) for job in desk.jobs] == [4, 2, 2]
    desk("collect")
    assert desk.outcomes() == ALL
