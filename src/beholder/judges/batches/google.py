"""Google's Batch API of Gemini: an uploaded JSONL file, a batch over it, a file of responses.

Guide, limits (2 GB a file), price: https://ai.google.dev/gemini-api/docs/batch-api
Calls and states: https://ai.google.dev/api/batch-api; uploading: https://ai.google.dev/api/files#method:-media.upload
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import msgspec

from beholder.judges.batches import Batches, Handle, Look, Lost, Result, State, named
from beholder.judges.batches.desk import Desk
from beholder.judges.stages import Stage
from beholder.judges.wires.faults import redact, shorten
from beholder.judges.wires.reading import count, items, mapping, text

# The page names no most; so many lines are read again quickly if something breaks off.
MOST_REQUESTS = 50_000
ENDED = {
    "SUCCEEDED": Stage.EXPIRED,
    "FAILED": Stage.ERRORED,
    "EXPIRED": Stage.EXPIRED,
    "CANCELLED": Stage.CANCELED,
}
# As the live API answers a google.rpc.Code: https://github.com/googleapis/googleapis/blob/master/google/rpc/code.proto
# A single request that was cancelled (1) was cancelled by the provider, and is worth asking again.
STATUSES = {1: 503, 3: 400, 4: 504, 5: 404, 6: 409, 7: 403, 8: 429, 9: 400, 10: 409, 11: 400, 12: 501, 14: 503, 16: 401}
RESOURCE_EXHAUSTED = 8
FILE = "file"  # what was uploaded, in a handle


class _Line(msgspec.Struct):
    key: str
    response: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


_LINE = msgspec.json.Decoder(_Line)


def frame(key: str) -> tuple[bytes, bytes]:
    return f'{{"key":"{key}","request":'.encode(), b"}"


async def submit(desk: Desk, file: Path, note: str) -> Handle:
    model = quote(desk.model.removeprefix("models/"), safe="")
    with desk.making(f" for '{desk.model}'"):
        about = {"file": {"display_name": note}}
        uploaded = await desk.resumable("/upload/v1beta/files", file, about, "application/jsonl")
        name = text(mapping(uploaded.get("file")).get("name"))
        batch = {"display_name": note, "input_config": {"file_name": name}}
        path = f"/v1beta/models/{model}:batchGenerateContent"
        made = await desk.make(path, {"batch": batch}, f"/v1beta/{name}")
    return {**named(made, "name"), FILE: name}


async def find(desk: Desk, lost: Lost) -> Handle | None:
    after = ""
    while True:
        page = await desk.get(f"/v1beta/batches?pageSize=100{after}")
        for batch in items(page.get("operations")):
            about = mapping(batch.get("metadata"))
            if about.get("displayName") == lost.note:
                file = text(mapping(about.get("inputConfig")).get("fileName"))
                return {"id": text(batch.get("name")), **({FILE: file} if file else {})}
        if not (token := text(page.get("nextPageToken"))):
            return None
        after = f"&pageToken={quote(token, safe='')}"


async def look(desk: Desk, handle: Handle) -> Look:
    batch = await desk.get(f"/v1beta/{handle['id']}")
    about, error = mapping(batch.get("metadata")), mapping(batch.get("error"))
    status = text(about.get("state")).removeprefix("BATCH_STATE_").removeprefix("JOB_STATE_")
    stats = mapping(about.get("batchStats"))
    return Look(
        State.ENDED if status in ENDED or batch.get("done") is True else State.IN_PROGRESS,
        answered=_number(stats.get("successfulRequestCount")),
        failed=_number(stats.get("failedRequestCount")),
        rest=ENDED.get(status, Stage.EXPIRED),
        why=shorten(redact(text(error.get("message")))),
        full=error.get("code") == RESOURCE_EXHAUSTED,
    )


async def results(desk: Desk, handle: Handle) -> AsyncIterator[Result]:
    batch = await desk.get(f"/v1beta/{handle['id']}")
    output = mapping(mapping(batch.get("metadata")).get("output"))
    file = text(mapping(batch.get("response")).get("responsesFile")) or text(output.get("responsesFile"))
    if not file:
        return
    async for result in desk.results(f"/download/v1beta/{file}:download?alt=media", "key", _result):
        yield result


async def cancel(desk: Desk, handle: Handle) -> None:
    await desk.say(f"/v1beta/{handle['id']}:cancel", {})


async def tidy(desk: Desk, handle: Handle) -> None:
    """Google would keep it for two days, and allows 20 GB a project."""
    if FILE in handle:
        await desk.delete(f"/v1beta/{handle[FILE]}")


def _result(data: bytes) -> Result:
    line = _LINE.decode(data)
    if line.response:
        return Result(line.key, Stage.ANSWERED, 200, bytes(line.response))
    error = mapping(msgspec.json.decode(line.error)) if line.error else {}
    code = count(error.get("code")) or 2
    status = STATUSES.get(code, 500) if code < 100 else code
    return Result(line.key, Stage.ERRORED, status, msgspec.json.encode({"error": error}))


def _number(value: object) -> int:
    """Google writes large numbers as texts."""
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else count(value) or 0


batches = Batches("google", MOST_REQUESTS, frame, submit, find, look, results, cancel, tidy)
