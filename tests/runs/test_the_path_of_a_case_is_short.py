"""From the engine's worker to the HTTP client there are at most eight of our functions, with a budget as well."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from support.frames import our_frames

from beholder.ledger.types import Entry
from beholder.runs.execution import prepare_run
from beholder.runs.suite import load_suite
from beholder.testing.base import Received
from beholder.testing.server import JudgeServer


class Nobody:
    """Watches a run and does nothing."""

    def on_skipped(self, count: int) -> None:
        pass

    def on_waiting(self, count: int) -> None:
        pass

    def on_written(self, entries: Sequence[Entry]) -> None:
        pass


async def test_eight_functions_from_the_worker_to_the_socket(
    server: JudgeServer, cases: Callable[[int], Path], good_answer: Callable[[], dict[str, Any]], tmp_path: Path
) -> None:
    loop = asyncio.get_running_loop()
    seen: asyncio.Future[list[list[str]]] = loop.create_future()

    def look() -> None:
        if not seen.done():
            seen.set_result([list(our_frames(task.get_coro())) for task in asyncio.all_tasks()])

    def reply(received: Received) -> dict[str, Any]:
        loop.call_soon_threadsafe(look)  # the request has left, and the reply has not come
        asyncio.run_coroutine_threadsafe(asyncio.wait_for(asyncio.shield(seen), 10), loop).result()
        return good_answer()

    server.default = reply
    suite = {
        "rubric": "edit-preservation",
        "cases": str(cases(1)),
        "judges": [{"judge": "openai:test", "base_url": server.openai_url, "price": {"input": 1, "output": 1}}],
        "ledger": str(tmp_path / "ledger.db"),
        "budget": 10,
        "thumbnails": False,
        "audit": False,
    }
    with prepare_run(load_suite(None, suite)) as suite_run:
        await suite_run.execute(Nobody(), asyncio.Event())
    [worker] = [frames for frames in seen.result() if "CaseJudge.judge" in frames]
    [call] = [frames for frames in seen.result() if "HttpClient.post" in frames]
    path = worker if worker is call else [*worker, *call]
    assert path[0] == "Engine._work"
    assert path[-1] == "HttpClient.post"
    assert len(path) <= 8, path
