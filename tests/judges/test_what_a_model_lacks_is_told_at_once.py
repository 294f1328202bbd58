"""Promise: a model that takes no images, or is not there, is wrong use in one sentence, whatever status a server
answers with, and after one request, however many were to be sent; a fault that may pass is still tried again."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest
from support.judges import PROTOCOLS, Waits, brief, judge

from beholder.errors import SetupError, Unreachable
from beholder.providers import schema_support
from beholder.testing.base import Fault
from beholder.testing.server import JudgeServer

MODEL = "acme/seer-1"

NO_IMAGES = [
    # llama.cpp, llama-cpp-python, OpenAI, OpenRouter, vLLM (two), Anthropic, Google, Mistral, LM Studio, Ollama,
    # DeepSeek, Groq, Amazon
    (500, "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"),
    (400, "Invalid content type. image_url is only supported by certain models."),
    (404, "No endpoints found that support image input"),
    (400, "At most 0 image(s) may be provided in one request."),
    (400, f"{MODEL} is not a multimodal model"),
    (400, "'claude-2.1' does not support image input."),
    (400, "Image input modality is not enabled for models/gemma-3-1b-it"),
    (400, "Image input is not enabled for this model"),
    (400, "Model does not support images. Please use a model that does."),
    (500, "Failed to create new sequence: this model is missing data required for image input"),
    (422, "Failed to deserialize the JSON body: messages[1]: unknown variant `image_url`, expected `text`"),
    (400, "'messages.1' : for 'role:user' the following must be satisfied[('messages.1.content' must be a string)]"),
    (400, "This model doesn't support the image content block that you provided."),
]
UNKNOWN_MODEL = [
    # LiteLLM, OpenRouter, Mistral, DeepSeek, Amazon, LM Studio, transformers, LocalAI, llama-swap
    (400, f"/chat/completions: Invalid model name passed in model={MODEL}. Call `/v1/models` to view available models"),
    (400, f"{MODEL} is not a valid model ID"),
    (400, f"Invalid model: {MODEL}"),
    (400, "Model Not Exist"),
    (400, "The provided model identifier is invalid."),
    (400, "No models loaded. Please load a model in the developer page or use the `lms load` command."),
    (
        500,
        f"{MODEL} is not a local folder and is not a valid model identifier listed on 'https://huggingface.co/models'",
    ),
    (500, f"model {MODEL} not found"),
    (400, f"could not find real modelID for {MODEL}"),
]
PASSING = [
    (500, "model runner has unexpectedly stopped"),
    (500, "A worker for the model was not found; try again."),
    (503, f"the model {MODEL} is not found on any replica yet"),
    (502, "image input is not supported"),
]
ABOUT_ONE_CASE = [
    "You uploaded an unsupported image. Please make sure your image is valid.",
    "This model does not support images larger than 5 MB.",
    "does not support image type image/tiff",
    "The image format is not supported.",
    "image content is not supported: format image/webp",
    "Image inputs are only supported in the types PNG and JPEG.",
    "The model could not process the request: image file not found",
    "Invalid model input: the image has 0 bytes.",
    "The model says that the object in the image does not exist.",
]


@pytest.mark.parametrize(("status", "words"), NO_IMAGES)
async def test_a_model_that_takes_no_images(server: JudgeServer, status: int, words: str) -> None:
    server.default = Fault.status(status, words)
    async with aclosing(judge(server, model=MODEL)) as one:
        with pytest.raises(SetupError, match=f"answered {status}: .*'{MODEL}' at .* takes no images; name a model"):
            await one.answer(brief())
    assert len(server.received) == 1


@pytest.mark.parametrize(("status", "words"), UNKNOWN_MODEL)
async def test_a_model_that_is_not_there(server: JudgeServer, status: int, words: str) -> None:
    server.default = Fault.status(status, words)
    async with aclosing(judge(server, model=MODEL)) as one:
        with pytest.raises(SetupError, match=f"There is no model '{MODEL}' at .*; check the model's name"):
            await one.answer(brief())
    assert len(server.received) == 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_on_every_wire(server: JudgeServer, protocol: str) -> None:
    server.say(Fault.status(400, "Image input is not supported."), Fault.status(400, "Invalid model: m"))
    async with aclosing(judge(server, protocol, model="m")) as one:
        for sentence in ("takes no images", "There is no model 'm'"):
            with pytest.raises(SetupError, match=sentence):
                await one.answer(brief())


@pytest.mark.parametrize(("status", "words"), PASSING)
async def test_a_fault_that_may_pass_is_tried_again(server: JudgeServer, status: int, words: str) -> None:
    server.say(Fault.status(status, words), "{}")
    async with aclosing(judge(server, model=MODEL, waits=Waits())) as one:
        assert (await one.answer(brief())).attempts == 2


@pytest.mark.parametrize("words", ABOUT_ONE_CASE)
async def test_one_bad_image_does_not_end_the_run(server: JudgeServer, words: str) -> None:
    server.default = Fault.status(400, words)
    async with aclosing(judge(server, model=MODEL)) as one:
        with pytest.raises(Unreachable):
            await one.answer(brief())


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_calls_that_wait_for_the_first_fail_with_it(server: JudgeServer, protocol: str) -> None:
    server.default = Fault.status(400, "Invalid model: m")
    async with aclosing(judge(server, protocol, model="m")) as one:
        errors = await asyncio.gather(*(one.answer(brief()) for _ in range(8)), return_exceptions=True)
        assert [str(error) for error in errors] == [str(errors[0])] * 8
        assert isinstance(errors[0], SetupError)
        assert len(server.received) == 1
        server.default = "{}"  # the model was started meanwhile
        await asyncio.gather(*(one.answer(brief()) for _ in range(8)))
        assert len(server.received) == 9


async def test_a_first_call_that_was_canceled_lets_another_be_the_first(server: JudgeServer) -> None:
    server.say(Fault.hang(), Fault.status(400, "Invalid model: m"))
    async with aclosing(judge(server, model="m")) as one:
        first = asyncio.create_task(one.answer(brief()))
        others = asyncio.gather(*(one.answer(brief()) for _ in range(3)), return_exceptions=True)
        while not server.received:
            await asyncio.sleep(0)
        first.cancel()
        assert {type(error) for error in await others} == {SetupError}
    assert len(server.received) == 2


async def test_nobody_waits_for_the_retries_of_the_first(server: JudgeServer) -> None:
    server.say(Fault.status(503, "starting"))

    class Pause(Waits):
        async def sleep(self, seconds: float) -> None:
            while len(server.received) < 4:  # the others have been sent
                await asyncio.sleep(0)

    async with aclosing(judge(server, model=MODEL, waits=Pause())) as one:
        answers = await asyncio.gather(*(one.answer(brief()) for _ in range(4)))
    assert sorted(answer.attempts for answer in answers) == [1, 1, 1, 2]


async def test_nor_for_long_for_one_that_thinks(server: JudgeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_support, "MAX_FIRST_CALL_S", 0.0)
    server.say(Fault.hang())
    async with aclosing(judge(server, model=MODEL)) as one:
        first = asyncio.create_task(one.answer(brief()))
        while not server.received:
            await asyncio.sleep(0)
        assert len(await asyncio.gather(*(one.answer(brief()) for _ in range(3)))) == 3
        first.cancel()
