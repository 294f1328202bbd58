"""What people write today, each run as a process of its own: `python benchmarks/peers.py NAME CASES PROMPT SCHEMA URL`.

Each asks the same server about the same pictures with the same prompt, 64 at once, and prints how many answers it
could read. None checks more of an answer than its schema, scores it, or keeps it.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

CONCURRENCY = 64
SIDE = 1024
MODEL = "bench"
Record = dict[str, str]


class Job:
    """What every peer is given: the cases with their pictures' paths, the prompt, the answer's schema, the server."""

    def __init__(self, cases: str, prompt: str, schema: str, url: str) -> None:
        self.folder = Path(cases).parent
        self.records: list[Record] = [json.loads(line) for line in Path(cases).read_text().splitlines()]
        self.prompt = Path(prompt).read_text()
        self.schema = json.loads(Path(schema).read_text())
        self.url = url

    def pictures(self, record: Record) -> list[Path]:
        return [self.folder / record[role] for role in ("input", "edited")]

    @property
    def response_format(self) -> dict[str, object]:
        return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": self.schema}}

    def messages(self, record: Record, pictures: list[bytes]) -> list[dict[str, object]]:
        parts: list[dict[str, object]] = []
        for label, data in zip(("Input Image", "Edited Image"), pictures, strict=True):
            url = "data:image/jpeg;base64," + base64.b64encode(data).decode()
            parts += ({"type": "text", "text": label}, {"type": "image_url", "image_url": {"url": url}})
        parts.append({"type": "text", "text": record["instruction"]})
        return [{"role": "system", "content": self.prompt}, {"role": "user", "content": parts}]


def async_openai(job: Job) -> int:
    """`AsyncOpenAI`, a semaphore and `gather`."""
    from openai import AsyncOpenAI

    async def main() -> int:
        async with AsyncOpenAI(base_url=job.url, api_key="none") as client:

            async def ask(record: Record) -> None:
                pictures = [path.read_bytes() for path in job.pictures(record)]
                reply = await client.chat.completions.create(
                    model=MODEL, messages=job.messages(record, pictures), response_format=job.response_format
                )
                _check(json.loads(reply.choices[0].message.content))

            return await _gathered(job, ask)

    return asyncio.run(main())


def pydantic_ai(job: Job) -> int:
    """A pydantic-ai `Agent` with an output type, a semaphore and `gather`."""
    from openai import AsyncOpenAI
    from pydantic import BaseModel, Field
    from pydantic_ai import Agent, BinaryContent, NativeOutput
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    class Factor(BaseModel):
        justification: str
        score: int = Field(ge=1, le=7)

    class Factors(BaseModel):
        unchanged_regions: Factor
        global_consistency: Factor
        identity_preservation: Factor

    class Answer(BaseModel):
        image_id: str
        criteria: Factors

    # Local names are not seen by the annotations' resolver.
    Factors.model_rebuild(_types_namespace={"Factor": Factor})
    Answer.model_rebuild(_types_namespace={"Factors": Factors})

    async def main() -> int:
        async with AsyncOpenAI(base_url=job.url, api_key="none") as client:
            model = OpenAIChatModel(MODEL, provider=OpenAIProvider(openai_client=client))
            agent = Agent(model, output_type=NativeOutput(Answer), instructions=job.prompt)

            async def ask(record: Record) -> None:
                parts: list[str | BinaryContent] = []
                for label, path in zip(("Input Image", "Edited Image"), job.pictures(record), strict=True):
                    parts += (label, BinaryContent(path.read_bytes(), media_type="image/jpeg"))
                result = await agent.run([*parts, record["instruction"]])
                _check(result.output.model_dump())

            return await _gathered(job, ask)

    return asyncio.run(main())


def usual_script(job: Job) -> int:
    """Threads; Pillow opens, scales to 1024 px and saves; base64; the OpenAI client."""
    from concurrent.futures import ThreadPoolExecutor

    from openai import OpenAI
    from PIL import Image

    client = OpenAI(base_url=job.url, api_key="none")

    def scaled(path: Path) -> bytes:
        picture = Image.open(path).convert("RGB")
        scale = SIDE / max(picture.size)
        if scale < 1:
            size = round(picture.width * scale), round(picture.height * scale)
            picture = picture.resize(size, Image.Resampling.LANCZOS)
        out = io.BytesIO()
        picture.save(out, format="JPEG", quality=90)
        return out.getvalue()

    def ask(record: Record) -> int:
        pictures = [scaled(path) for path in job.pictures(record)]
        try:
            reply = client.chat.completions.create(
                model=MODEL, messages=job.messages(record, pictures), response_format=job.response_format
            )
            _check(json.loads(reply.choices[0].message.content))
        except Exception:
            return 0
        return 1

    with ThreadPoolExecutor(CONCURRENCY) as pool:
        return sum(pool.map(ask, job.records))


def bare(job: Job) -> int:
    """The least that our own way could cost: read, hash, walk over the JPEG's markers, send in pieces through aiohttp.
    Nothing is composed, scored or kept."""
    import hashlib

    import aiohttp

    from beholder.images import jpeg
    from beholder.providers.payload import RequestBody

    head, mark = {"model": MODEL, "response_format": job.response_format}, "\0picture\0"
    messages = job.messages({"instruction": "make it red"}, [b"", b""])
    text = json.dumps({**head, "messages": messages}).replace("base64,", f"base64,{mark}").encode()
    texts = tuple(text.split(mark.encode()))

    async def main() -> int:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

            async def ask(record: Record) -> None:
                pictures = [path.read_bytes() for path in job.pictures(record)]
                for data in pictures:
                    hashlib.sha256(data).hexdigest()
                    jpeg.read_jpeg_header(data)
                body = RequestBody(texts, tuple(pictures))

                async def pieces() -> AsyncIterator[bytes]:
                    for piece in body.chunks():
                        yield piece

                headers = {"Content-Length": str(len(body)), "Content-Type": "application/json"}
                async with session.post(f"{job.url}/chat/completions", data=pieces(), headers=headers) as reply:
                    found = json.loads(await reply.read())
                _check(json.loads(found["choices"][0]["message"]["content"]))

            return await _gathered(job, ask)

    return asyncio.run(main())


async def _gathered(job: Job, ask: Callable[[Record], Awaitable[None]]) -> int:
    gate = asyncio.Semaphore(CONCURRENCY)

    async def one(record: Record) -> int:
        async with gate:
            try:
                await ask(record)
            except Exception:
                return 0
            return 1

    return sum(await asyncio.gather(*map(one, job.records)))


def _check(answer: dict[str, object]) -> None:
    for score in _scores(answer):
        if not 1 <= score <= 7:
            raise ValueError(f"{score} is off the scale")


def _scores(answer: dict[str, object]) -> Iterator[int]:
    criteria = answer["criteria"]
    assert isinstance(criteria, dict)
    for factor in criteria.values():
        yield factor["score"]


PEERS = {"bare": bare, "async-openai": async_openai, "pydantic-ai": pydantic_ai, "usual-script": usual_script}

if __name__ == "__main__":
    name, *rest = sys.argv[1:]
    print(PEERS[name](Job(*rest)))
