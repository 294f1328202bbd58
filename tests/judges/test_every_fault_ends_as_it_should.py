from __future__ import annotations

import socket
from contextlib import aclosing

import pytest
from support.judges import KEY, MODELS, PROTOCOLS, WIRES, Waits, base_url, brief, judge

from beholder.errors import SetupError, Unreachable
from beholder.judges.model import ModelJudge
from beholder.providers.base import JudgeSettings
from beholder.testing.base import Fault
from beholder.testing.server import JudgeServer
from beholder.verdicts.answer import Answer, Finish

pytestmark = pytest.mark.parametrize("protocol", PROTOCOLS)

PASSING = [
    Fault.status(408),
    Fault.status(409),
    Fault.status(429),
    Fault.status(429, retry_after=0),
    Fault.status(500),
    Fault.status(502),
    Fault.status(503),
    Fault.status(529),
    Fault.html(),
    Fault.drop(),
    Fault.cut(),
]


async def outcome(server: JudgeServer, protocol: str, *replies: object, **options: object) -> Answer:
    server.say(*replies)  # type: ignore[arg-type]
    async with aclosing(judge(server, protocol, **options)) as one:  # type: ignore[arg-type]
        return await one.answer(brief())


@pytest.mark.parametrize("fault", PASSING, ids=lambda fault: f"{fault.kind.name}{fault.code or ''}")
async def test_what_may_pass_is_tried_again_and_the_answer_counts_the_requests(
    server: JudgeServer, protocol: str, fault: Fault
) -> None:
    waits = Waits()
    answer = await outcome(server, protocol, fault, fault, '{"fine": true}', waits=waits)
    assert answer.text == '{"fine": true}'
    assert answer.attempts == 3
    assert len(waits.slept) == 2
    assert answer.flags == ()


@pytest.mark.parametrize("fault", PASSING, ids=lambda fault: f"{fault.kind.name}{fault.code or ''}")
async def test_what_does_not_pass_becomes_unreachable_after_the_last_try(
    server: JudgeServer, protocol: str, fault: Fault
) -> None:
    with pytest.raises(Unreachable) as error:
        await outcome(server, protocol, *[fault] * 3, retries=2)
    assert error.value.attempts == 3
    assert len(server.received) == 3
    assert "Tried 3 times." in str(error.value)
    if fault.code:
        assert f"answered {fault.code}" in str(error.value)


async def test_a_server_that_hangs_is_given_up(server: JudgeServer, protocol: str) -> None:
    with pytest.raises(Unreachable) as error:
        await outcome(server, protocol, Fault.hang(), retries=0, timeout_s=0.2)
    assert str(error.value) == f"{server.url.removeprefix('http://')} did not answer within 0.2 s."


async def test_an_empty_answer_is_an_empty_text(server: JudgeServer, protocol: str) -> None:
    answer = await outcome(server, protocol, Fault.empty())
    assert (answer.text, answer.finish, answer.attempts) == ("", Finish.COMPLETE, 1)


async def test_an_answer_cut_off_at_the_limit_says_so(server: JudgeServer, protocol: str) -> None:
    answer = await outcome(server, protocol, Fault.truncated('{"half": '))
    assert (answer.text, answer.finish, answer.attempts) == ('{"half": ', Finish.LENGTH, 1)


async def test_a_refusal_is_not_retried(server: JudgeServer, protocol: str) -> None:
    answer = await outcome(server, protocol, Fault.refusal("I can't judge people."))
    assert answer.attempts == 1
    if protocol == "google":  # has no refusals but words
        assert (answer.finish, answer.text) == (Finish.COMPLETE, "I can't judge people.")
    else:
        assert (answer.finish, answer.text, answer.detail) == (Finish.REFUSED, "", "I can't judge people.")


async def test_a_filter_is_not_retried(server: JudgeServer, protocol: str) -> None:
    answer = await outcome(server, protocol, Fault.filtered())
    assert (answer.text, answer.attempts) == ("", 1)
    assert answer.finish is (Finish.REFUSED if protocol == "anthropic" else Finish.FILTERED)


async def test_a_wrong_model_is_a_mistake_of_setup(server: JudgeServer, protocol: str) -> None:
    with pytest.raises(SetupError) as error:
        await outcome(server, protocol, Fault.unknown_model())
    assert f"There is no model '{MODELS[protocol]}' at {base_url(server, protocol)}" in str(error.value)
    assert len(server.received) == 1


async def test_a_wrong_path_is_a_mistake_of_setup(server: JudgeServer, protocol: str) -> None:
    wrong = base_url(server, protocol) + "/v7"
    async with aclosing(ModelJudge(WIRES[protocol], "m", JudgeSettings(base_url=wrong), key=KEY)) as one:
        with pytest.raises(SetupError) as error:
            await one.answer(brief())
    assert f"at {wrong}; check the model's name and the base URL" in str(error.value)


async def test_a_refused_key_is_a_mistake_of_setup_that_names_the_variable(
    server: JudgeServer, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_JUDGE_KEY", KEY)
    with pytest.raises(SetupError) as error:
        await outcome(server, protocol, Fault.bad_key(), key=None, key_variable="MY_JUDGE_KEY")
    assert "The key came from MY_JUDGE_KEY; set it to one that 127.0.0.1 accepts." in str(error.value)
    assert len(server.received) == 1


async def test_forbidden_is_a_mistake_of_setup_with_the_providers_words(server: JudgeServer, protocol: str) -> None:
    with pytest.raises(SetupError) as error:
        await outcome(server, protocol, Fault.status(403, "Country, region, or territory not supported"))
    assert "answered 403: Country, region, or territory not supported." in str(error.value)


@pytest.mark.parametrize("status", [400, 402, 413, 422])
async def test_other_rejections_end_at_once_with_the_providers_words(
    server: JudgeServer, protocol: str, status: int
) -> None:
    with pytest.raises(Unreachable) as error:
        await outcome(server, protocol, Fault.status(status, "prompt is too long: 250000 tokens > 200000 maximum"))
    assert error.value.attempts == 1
    expected = f"{protocol}:{MODELS[protocol]} answered {status}: prompt is too long: 250000 tokens > 200000 maximum."
    assert str(error.value) == expected


async def test_a_redirect_is_not_followed_and_only_its_host_is_told(server: JudgeServer, protocol: str) -> None:
    with pytest.raises(SetupError) as error:
        await outcome(server, protocol, Fault.redirect("https://elsewhere.example/path?token=hunter2"))
    assert "redirects to https://elsewhere.example;" in str(error.value)
    assert "hunter2" not in str(error.value)
    assert "path" not in str(error.value)
    assert len(server.received) == 1


async def test_nobody_listening_is_tried_a_few_times_and_names_the_base_url(server: JudgeServer, protocol: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        waits = Waits()
        async with aclosing(
            ModelJudge(WIRES[protocol], "m", JudgeSettings(base_url=url, sleep=waits.sleep), key=KEY)
        ) as one:
            with pytest.raises(Unreachable) as error:
                await one.answer(brief())
    assert f"Cannot connect to {url} (Connection refused); check the base URL" in str(error.value)
    assert error.value.attempts == 3
    assert len(waits.slept) == 2


async def test_an_unknown_host_names_the_base_url(server: JudgeServer, protocol: str) -> None:
    url = "http://no-such-host.invalid/v1"
    async with aclosing(
        ModelJudge(WIRES[protocol], "m", JudgeSettings(base_url=url, sleep=Waits().sleep), key=KEY)
    ) as one:
        with pytest.raises(Unreachable) as error:
            await one.answer(brief())
    assert f"Cannot connect to {url}" in str(error.value)
    assert error.value.attempts == 3


async def test_a_judge_goes_on_after_a_fault(server: JudgeServer, protocol: str) -> None:
    server.say(Fault.status(400, "bad picture"), '{"fine": true}')
    async with aclosing(judge(server, protocol)) as one:
        with pytest.raises(Unreachable):
            await one.answer(brief())
        assert (await one.answer(brief())).text == '{"fine": true}'
