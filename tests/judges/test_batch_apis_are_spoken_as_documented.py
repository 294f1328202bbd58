"""Each provider's batch calls over real HTTP: handed in, looked at, fetched in any order, found again, cancelled."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.judges import KEY, PROTOCOLS, WIRES, brief, judge

from beholder.errors import SetupError
from beholder.judges.model import ModelJudge
from beholder.providers.base import HttpResponse
from beholder.providers.batch import (
    UNCONFIRMED,
    BatchApi,
    BatchClient,
    BatchNotFoundError,
    BatchResult,
    BatchState,
    UnconfirmedBatch,
)
from beholder.providers.retry import PermanentError, RetryableError
from beholder.testing.base import Course, Fault
from beholder.testing.server import JudgeServer
from beholder.verdicts.answer import BatchStage


@pytest.fixture
async def counter(
    request: pytest.FixtureRequest, server: JudgeServer
) -> AsyncIterator[tuple[BatchApi, BatchClient, ModelJudge]]:
    api = WIRES[request.param].batch
    assert api is not None
    asked = judge(server, request.param)
    desk = BatchClient(asked)
    yield api, desk, asked
    await desk.aclose()


each = pytest.mark.parametrize("counter", PROTOCOLS, indirect=True)
Counter = tuple[BatchApi, BatchClient, ModelJudge]


def job_file(folder: Path, api: BatchApi, asked: ModelJudge, keys: list[str]) -> Path:
    path = folder / "job.jsonl"
    body = b"".join(asked.build_request(brief(), True).body.chunks())
    lines = [b"%b%b%b" % (before, body, after) for before, after in map(api.frame, keys)]
    path.write_bytes(api.prefix + api.separator.join(lines) + api.suffix)
    return path


async def all_of(results: AsyncIterator[BatchResult]) -> dict[str, BatchResult]:
    return {result.key: result async for result in results}


@each
async def test_a_job_goes_in_and_its_results_come_out(server: JudgeServer, counter: Counter, tmp_path: Path) -> None:
    api, desk, asked = counter
    server.batches.courses.append(Course(looks=1, backwards=True))
    server.say({"score": 1}, {"score": 2}, Fault.status(500), Fault.refusal("I would rather not."))
    handle = await api.submit(desk, job_file(tmp_path, api, asked, ["a", "b", "c", "d"]), "note-1")
    assert json.loads(json.dumps(dict(handle))) == handle
    assert (await api.get_status(desk, handle)).state is BatchState.IN_PROGRESS
    look = await api.get_status(desk, handle)
    assert (look.state, look.answered, look.failed) == (BatchState.ENDED, 3, 1)
    results = await all_of(api.results(desk, handle))
    assert {key: result.stage for key, result in results.items()} == {
        "a": BatchStage.ANSWERED,
        "b": BatchStage.ANSWERED,
        "c": BatchStage.ERRORED,
        "d": BatchStage.ANSWERED,
    }
    assert [json.loads(asked.parse_answer(results[key].body).text)["score"] for key in "ab"] == [1, 2]
    assert results["c"].status == 500
    assert server.received[0].images == tuple(picture.image.data for picture in brief().images)


@each
async def test_what_expired_is_told_from_what_failed(server: JudgeServer, counter: Counter, tmp_path: Path) -> None:
    api, desk, asked = counter
    server.batches.courses.append(Course(expired=1))
    server.say(Fault.status(429))
    handle = await api.submit(desk, job_file(tmp_path, api, asked, ["a", "b"]), "note-1")
    look = await api.get_status(desk, handle)
    results = await all_of(api.results(desk, handle))
    assert (results["a"].stage, results["a"].status) == (BatchStage.ERRORED, 429)
    assert look.unfinished_stage is BatchStage.EXPIRED
    assert results.get("b", BatchResult("b", look.unfinished_stage)).stage is BatchStage.EXPIRED


@each
@pytest.mark.parametrize("short", [False, True])
async def test_results_that_break_off_are_whole_up_to_there(
    server: JudgeServer, counter: Counter, tmp_path: Path, short: bool
) -> None:
    api, desk, asked = counter
    server.batches.courses.append(Course(cut=1, short=short))
    handle = await api.submit(desk, job_file(tmp_path, api, asked, list("abcd")), "note-1")
    await api.get_status(desk, handle)
    came: list[str] = []

    async def fetch() -> None:
        async for result in api.results(desk, handle):
            came.append(result.key)  # noqa: PERF401  # what came before it broke off must be there

    with pytest.raises(RetryableError):
        await fetch()
    assert came == ["a", "b"]
    assert list(await all_of(api.results(desk, handle))) == list("abcd")


@each
async def test_a_job_that_nobody_knows_any_more_is_forgotten(
    server: JudgeServer, counter: Counter, tmp_path: Path
) -> None:
    api, desk, asked = counter
    server.batches.courses.append(Course(forgotten=True))
    handle = await api.submit(desk, job_file(tmp_path, api, asked, ["a"]), "note-1")
    with pytest.raises(BatchNotFoundError):
        await api.get_status(desk, handle)
    with pytest.raises(BatchNotFoundError):
        await all_of(api.results(desk, handle))


@each
async def test_a_job_whose_receipt_was_lost_is_found_among_many(
    server: JudgeServer, counter: Counter, tmp_path: Path
) -> None:
    api, desk, asked = counter
    since = datetime.now(UTC)
    others = [(await api.submit(desk, job_file(tmp_path, api, asked, ["x"]), "other"))["id"]]
    server.batches.courses.append(Course(unheard=True))
    with pytest.raises(RetryableError) as told:
        await api.submit(desk, job_file(tmp_path, api, asked, ["a", "b"]), "mine")
    assert not told.value.rate_limited
    others += [(await api.submit(desk, job_file(tmp_path, api, asked, ["y"]), "other"))["id"] for _ in range(3)]
    found = await api.find(desk, UnconfirmedBatch("mine", since, 2, others))
    assert found is not None
    assert found["id"] == server.batches.jobs[1].id
    assert (UNCONFIRMED in found) == (asked.provider.name == "anthropic")
    assert await api.find(desk, UnconfirmedBatch("another", since + timedelta(hours=2), 7, others)) is None


@each
async def test_cancelling_is_the_providers_to_do(server: JudgeServer, counter: Counter, tmp_path: Path) -> None:
    api, desk, asked = counter
    server.batches.courses.append(Course(looks=9, expired=1))
    handle = await api.submit(desk, job_file(tmp_path, api, asked, ["a", "b"]), "note-1")
    await api.cancel(desk, handle)
    look = await api.get_status(desk, handle)
    results = await all_of(api.results(desk, handle))
    assert results["a"].stage is BatchStage.ANSWERED
    assert results.get("b", BatchResult("b", look.unfinished_stage)).stage is BatchStage.CANCELED


@each
@pytest.mark.parametrize("name", ["x", 7])
async def test_a_line_that_nobody_can_read_is_an_error_of_the_request_that_it_names(
    server: JudgeServer, counter: Counter, tmp_path: Path, name: object
) -> None:
    api, desk, asked = counter
    handle = await api.submit(desk, job_file(tmp_path, api, asked, ["a", "b"]), "note-1")
    await api.get_status(desk, handle)
    garbled = {"custom_id": name, "key": [name], "result": {"type": 7}, "response": {"status_code": 200}}
    server.batches.jobs[0].lines.insert(1, garbled)
    results = [result async for result in api.results(desk, handle)]
    named = name if name == "x" and asked.provider.name != "google" else ""
    assert [result.key for result in results] == ["a", named, "b"]
    assert (results[1].stage, results[1].status) == (BatchStage.ERRORED, 400)


async def test_of_two_jobs_of_one_size_each_is_found_by_its_time(server: JudgeServer, tmp_path: Path) -> None:
    asked = judge(server, "anthropic")
    api, desk = WIRES["anthropic"].batch, BatchClient(asked)
    assert api is not None
    began = []
    for key in "ab":
        began.append(datetime.now(UTC))
        await api.submit(desk, job_file(tmp_path, api, asked, [key]), "")
    found = [await api.find(desk, UnconfirmedBatch("", since, 1)) for since in began]
    assert [one and one["id"] for one in found] == [job.id for job in server.batches.jobs]
    slow = await api.find(
        desk, UnconfirmedBatch("", datetime.now(UTC) + timedelta(minutes=1), 1)
    )  # a clock that goes before theirs
    assert slow is not None
    assert slow["id"] == server.batches.jobs[1].id
    assert await api.find(desk, UnconfirmedBatch("", began[0], 1, [job.id for job in server.batches.jobs])) is None
    await desk.aclose()


async def test_google_is_asked_which_file_a_job_that_was_found_again_had(server: JudgeServer, tmp_path: Path) -> None:
    asked = judge(server, "google")
    api, desk = WIRES["google"].batch, BatchClient(asked)
    assert api is not None
    handle = await api.submit(desk, job_file(tmp_path, api, asked, ["a"]), "mine")
    assert await api.find(desk, UnconfirmedBatch("mine", datetime.now(UTC), 1)) == handle
    await desk.aclose()


@each
async def test_a_refusal_for_good_is_told_from_an_outage(server: JudgeServer, counter: Counter, tmp_path: Path) -> None:
    api, desk, asked = counter
    server.batches.refuse = Fault.status(400, "This organisation may not use batches.")
    with pytest.raises(PermanentError, match="may not use batches"):
        await api.submit(desk, job_file(tmp_path, api, asked, ["a"]), "note-1")
    with pytest.raises(PermanentError, match="may not use batches"):
        await api.get_status(desk, {"id": "batches/1" if asked.provider.name == "google" else "1"})


async def test_a_content_filter_may_refuse_a_whole_job(server: JudgeServer) -> None:
    desk = BatchClient(judge(server))
    body = b'{"error": {"code": "content_policy_violation", "message": "no"}}'
    assert isinstance(desk._error_for(HttpResponse(400, {}, body)), PermanentError)
    await desk.aclose()


@pytest.mark.parametrize("counter", ["openai", "google"], indirect=True)
async def test_a_job_that_is_refused_as_a_whole_says_why(server: JudgeServer, counter: Counter, tmp_path: Path) -> None:
    api, desk, asked = counter
    server.batches.courses += [Course(fails="The model does not do batches."), Course(fails="Too much.", full=True)]
    handle = await api.submit(desk, job_file(tmp_path, api, asked, ["a"]), "note-1")
    look = await api.get_status(desk, handle)
    assert (look.state, look.unfinished_stage, look.queue_full) == (BatchState.ENDED, BatchStage.ERRORED, False)
    assert look.reason == "The model does not do batches"
    assert await all_of(api.results(desk, handle)) == {}
    handle = await api.submit(desk, job_file(tmp_path, api, asked, ["a"]), "note-2")
    assert (await api.get_status(desk, handle)).queue_full


@each
async def test_a_server_without_a_batch_api_is_told_as_such(
    server: JudgeServer, counter: Counter, tmp_path: Path
) -> None:
    api, desk, asked = counter
    server.batches.refuse = Fault.status(404)
    with pytest.raises(SetupError, match="there is no batch API"):
        await api.submit(desk, job_file(tmp_path, api, asked, ["a"]), "note-1")


async def test_a_wrong_key_is_told_without_showing_it(server: JudgeServer, tmp_path: Path) -> None:
    asked = judge(server, key=KEY)
    api, desk = WIRES["openai"].batch, BatchClient(asked)
    assert api is not None
    server.batches.refuse = Fault.bad_key()
    with pytest.raises(SetupError) as told:
        await api.submit(desk, job_file(tmp_path, api, asked, ["a"]), "note-1")
    await desk.aclose()
    assert "Incorrect API key" in str(told.value)
    assert KEY not in str(told.value)


async def test_google_is_sent_no_file_to_another_host(server: JudgeServer, tmp_path: Path) -> None:
    asked = judge(server, "google")
    api, desk = WIRES["google"].batch, BatchClient(asked)
    assert api is not None
    server.batches.upload_host = "elsewhere.example"
    with pytest.raises(SetupError, match=r"sends files to elsewhere\.example"):
        await api.submit(desk, job_file(tmp_path, api, asked, ["a"]), "note-1")
    await desk.aclose()
