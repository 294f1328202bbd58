"""OpenAI's Batch API: a JSONL file of requests, a batch over it, a file of replies and one of errors.

Guide, states, limits (50,000 requests and 200 MB a file, one model a file), price: https://developers.openai.com/api/docs/guides/batch
Calls: https://developers.openai.com/api/docs/api-reference/batch and …/api-reference/files
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import msgspec

from beholder.judges.batches import Batches, Handle, Look, Lost, Result, State, named
from beholder.judges.batches.desk import Desk
from beholder.judges.stages import Stage
from beholder.judges.wires.faults import redact, shorten
from beholder.judges.wires.reading import count, items, mapping, text

NOTE = "beholder"  # the key of our note among a batch's metadata
ENDED = {"completed": Stage.EXPIRED, "failed": Stage.ERRORED, "expired": Stage.EXPIRED, "cancelled": Stage.CANCELED}
UNRUN = {"batch_expired": Stage.EXPIRED, "batch_cancelled": Stage.CANCELED}
FULL = "token_limit_exceeded"  # so many tokens may wait at a time, by an account's tier


class _Reply(msgspec.Struct):
    status_code: int
    body: msgspec.Raw


class _Error(msgspec.Struct):
    code: str | None = None
    message: str | None = None


class _Line(msgspec.Struct):
    custom_id: str
    response: _Reply | None = None
    error: _Error | None = None


_LINE = msgspec.json.Decoder(_Line)


def frame(key: str) -> tuple[bytes, bytes]:
    return f'{{"custom_id":"{key}","method":"POST","url":"/v1/chat/completions","body":'.encode(), b"}"


async def submit(desk: Desk, file: Path, note: str) -> Handle:
    with desk.making():
        uploaded = await desk.upload("/files", file, {"purpose": "batch"})
        file_id = text(uploaded.get("id"))
        wanted = {
            "input_file_id": file_id,
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "metadata": {NOTE: note},
        }
        batch = await desk.make("/batches", wanted, f"/files/{file_id}")
    return named(batch, "id")


async def find(desk: Desk, lost: Lost) -> Handle | None:
    after = ""
    while True:
        page = await desk.get(f"/batches?limit=100{after}")
        found = items(page.get("data"))
        for batch in found:
            if mapping(batch.get("metadata")).get(NOTE) == lost.note:
                return {"id": text(batch.get("id"))}
        if (
            not found
            or not page.get("has_more")
            or (count(found[-1].get("created_at")) or 0) < lost.since.timestamp() - 3600
        ):
            return None
        after = f"&after={text(found[-1].get('id'))}"


async def look(desk: Desk, handle: Handle) -> Look:
    batch = await _batch(desk, handle)
    status = text(batch.get("status"))
    counts = mapping(batch.get("request_counts"))
    errors = items(mapping(batch.get("errors")).get("data"))
    state = State.ENDED if status in ENDED else State.CANCELING if status == "cancelling" else State.IN_PROGRESS
    return Look(
        state,
        answered=count(counts.get("completed")) or 0,
        failed=count(counts.get("failed")) or 0,
        rest=ENDED.get(status, Stage.EXPIRED),
        why=shorten(redact("; ".join(text(error.get("message")) for error in errors[:3]))),
        full=any(error.get("code") == FULL for error in errors),
    )


async def results(desk: Desk, handle: Handle) -> AsyncIterator[Result]:
    batch = await _batch(desk, handle)
    for file in (text(batch.get("output_file_id")), text(batch.get("error_file_id"))):
        if file:
            async for result in desk.results(f"/files/{file}/content", "custom_id", _result):
                yield result


async def cancel(desk: Desk, handle: Handle) -> None:
    await desk.say(f"/batches/{handle['id']}/cancel", {})


async def tidy(desk: Desk, handle: Handle) -> None:
    """OpenAI would keep it for 30 days."""
    if file := text((await _batch(desk, handle)).get("input_file_id")):
        await desk.delete(f"/files/{file}")


async def _batch(desk: Desk, handle: Handle) -> Mapping[str, object]:
    return await desk.get(f"/batches/{handle['id']}")


def _result(data: bytes) -> Result:
    line = _LINE.decode(data)
    if line.response is not None:
        ending = Stage.ANSWERED if 200 <= line.response.status_code < 300 else Stage.ERRORED
        return Result(line.custom_id, ending, line.response.status_code, bytes(line.response.body))
    error = line.error or _Error()
    if unrun := UNRUN.get(error.code or ""):
        return Result(line.custom_id, unrun)
    body = msgspec.json.encode({"error": {"code": error.code, "message": error.message}})
    return Result(line.custom_id, Stage.ERRORED, 500, body)


batches = Batches("openai", 50_000, frame, submit, find, look, results, cancel, tidy)
