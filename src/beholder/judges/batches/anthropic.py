"""Anthropic's Message Batches: one request that holds all others, and a stream of results.

Guide, limits (100,000 requests, 256 MB), price: https://platform.claude.com/docs/en/build-with-claude/batch-processing
Calls: https://platform.claude.com/docs/en/api/messages/batches
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from beholder.judges.batches import UNSURE, Batches, Handle, Look, Lost, Result, State, named
from beholder.judges.batches.desk import Desk
from beholder.judges.stages import Stage
from beholder.judges.wires.reading import count, items, mapping, text

PATH = "/v1/messages/batches"
SLACK = timedelta(minutes=5)  # between the provider's clock and ours
LATEST = timedelta(hours=1)  # after a job was begun here: it is uploaded first
# https://platform.claude.com/docs/en/api/errors#http-errors
STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}


class _Outcome(msgspec.Struct):
    type: str
    message: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


class _Line(msgspec.Struct):
    custom_id: str
    result: _Outcome


_LINE = msgspec.json.Decoder(_Line)


def frame(key: str) -> tuple[bytes, bytes]:
    return f'{{"custom_id":"{key}","params":'.encode(), b"}"


async def submit(desk: Desk, file: Path, note: str) -> Handle:
    """A batch can carry no note; `find` goes by the number of its requests and its time."""
    with desk.making():
        batch = await desk.send(PATH, file, {"Content-Type": "application/json"})
    return named(batch, "id")


async def find(desk: Desk, lost: Lost) -> Handle | None:
    """The batch of that many requests that was begun soonest after; if it is not the one, none of its results will have
    a key of ours."""
    nearest: tuple[bool, timedelta, str] | None = None
    async for batch, begun in _begun_since(desk, lost.since - SLACK):
        id_, late = text(batch.get("id")), begun - lost.since
        same = sum(_counts(batch).values()) == lost.count and late < LATEST and id_ not in lost.others
        rank = (late < timedelta(0), abs(late), id_)  # before it was begun only by a clock that is slow
        if same and (nearest is None or rank < nearest):
            nearest = rank
    return {"id": nearest[2], UNSURE: "yes"} if nearest else None


async def _begun_since(desk: Desk, since: datetime) -> AsyncIterator[tuple[Mapping[str, object], datetime]]:
    """The newest first, as the provider lists them."""
    after = ""
    while True:
        page = await desk.get(f"{PATH}?limit=100{after}")
        found = items(page.get("data"))
        for batch in found:
            begun = _time(batch)
            if begun is None or begun < since:
                return
            yield batch, begun
        if not found or not page.get("has_more"):
            return
        after = f"&after_id={text(found[-1].get('id'))}"


async def look(desk: Desk, handle: Handle) -> Look:
    batch = await desk.get(f"{PATH}/{handle['id']}")
    status = text(batch.get("processing_status"))
    counts = _counts(batch)
    return Look(
        State(status) if status in set(State) else State.IN_PROGRESS,
        answered=counts["succeeded"],
        failed=counts["errored"] + counts["expired"] + counts["canceled"],
    )


async def results(desk: Desk, handle: Handle) -> AsyncIterator[Result]:
    """From the base URL, and not from `results_url`: the key goes nowhere else."""
    async for result in desk.results(f"{PATH}/{handle['id']}/results", "custom_id", _result):
        yield result


async def cancel(desk: Desk, handle: Handle) -> None:
    await desk.say(f"{PATH}/{handle['id']}/cancel", {})


async def tidy(desk: Desk, handle: Handle) -> None:
    """Nothing was uploaded but the batch itself."""


def _result(data: bytes) -> Result:
    line = _LINE.decode(data)
    outcome = line.result
    if outcome.type == "succeeded":
        return Result(line.custom_id, Stage.ANSWERED, 200, bytes(outcome.message))
    if outcome.type == "errored":
        error = msgspec.json.decode(outcome.error) if outcome.error else {}
        kind = text(mapping(mapping(error).get("error")).get("type"))
        return Result(line.custom_id, Stage.ERRORED, STATUSES.get(kind, 500), bytes(outcome.error))
    return Result(line.custom_id, Stage.CANCELED if outcome.type == "canceled" else Stage.EXPIRED)


def _counts(batch: Mapping[str, object]) -> dict[str, int]:
    counts = mapping(batch.get("request_counts"))
    return {
        name: count(counts.get(name)) or 0 for name in ("processing", "succeeded", "errored", "canceled", "expired")
    }


def _time(batch: Mapping[str, object]) -> datetime | None:
    try:
        return datetime.fromisoformat(text(batch.get("created_at")))
    except ValueError:
        return None


batches = Batches(
    "anthropic",
    100_000,
    frame,
    submit,
    find,
    look,
    results,
    cancel,
    tidy,
    opening=b'{"requests":[',
    between=b",",
    closing=b"]}",
)
