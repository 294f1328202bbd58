"""From the worker of a run to the socket a call passes through at most eight of our own frames, so that it can be
followed in one sitting; with a budget, too."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from types import CoroutineType
from typing import Any

import pytest

from beholder.providers.http import HttpClient
from beholder.reports.progress import ProgressCounter
from beholder.runs.execution import prepare_run
from beholder.runs.suite import load_suite
from beholder.testing.server import JudgeServer

MOST = 8


def suspended() -> list[str]:
    """The functions of the worker that waits, from the outside in."""
    for task in asyncio.all_tasks():
        names: list[str] = []
        inner: object = task.get_coro()
        while isinstance(inner, CoroutineType) and "beholder" in inner.cr_code.co_filename:
            names.append(inner.cr_code.co_qualname)
            inner = inner.cr_await
        if len(names) > 1 and names[0] == "Engine._work":
            return names
    raise AssertionError("no worker waits for a case")


def running() -> list[str]:
    """The functions of the task that runs now, from the inside out."""
    names: list[str] = []
    frame = sys._getframe(2)
    while frame is not None:
        if "/beholder/" in frame.f_code.co_filename:
            names.append(frame.f_code.co_qualname)
        frame = frame.f_back  # type: ignore[assignment]  # None at the end
    return names


@pytest.mark.parametrize("budget", [None, 10.0])
async def test_a_call_passes_through_few_functions(
    server: JudgeServer,
    cases: Callable[[int], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    budget: float | None,
) -> None:
    paths: list[list[str]] = []
    post = HttpClient.post

    async def watched(self: HttpClient, *args: Any, **kwargs: Any) -> Any:
        paths.append([*suspended(), *reversed(running()), "HttpClient.post"])
        return await post(self, *args, **kwargs)

    monkeypatch.setattr(HttpClient, "post", watched)
    flags = {
        "rubric": "edit-preservation",
        "cases": str(cases(1)),
        "judges": ["openai:test"],
        "base_url": server.openai_url,
        "price": {"input": 1, "output": 1},
        "budget": budget,
        "ledger": str(tmp_path / "ledger.db"),
    }
    with prepare_run(load_suite(None, flags)) as suite_run:
        assert await suite_run.execute(ProgressCounter(1), asyncio.Event()) == "finished"
    [path] = paths
    assert path[:3] == ["Engine._work", "CaseJudge.judge", "Conversation.run"], path
    assert len(path) <= MOST, path
