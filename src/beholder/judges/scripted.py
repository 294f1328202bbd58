"""A judge that says what it was told to: for tests, ours and users'. No network, no patching."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from beholder.errors import UsageError
from beholder.images.image import Sizing
from beholder.rubrics.brief import Brief
from beholder.verdicts.answer import Answer, Turn

ScriptedLine = str | Mapping[str, object] | Answer | Exception


class ScriptedJudge:
    """Answers with the given lines in turn, or with what `say(brief)` returns.

    A line is the text of an answer, its JSON, a whole `Answer`, or an exception that is raised. `briefs` and `turns`
    keep what the judge was asked. One line serves every question; of several, running out is an error.
    """

    def __init__(
        self, *lines: ScriptedLine, say: Callable[[Brief], ScriptedLine] | None = None, name: str = "scripted"
    ) -> None:
        if bool(lines) == bool(say):
            raise UsageError("A ScriptedJudge needs either lines to say or a function `say`.")
        self.name = name
        self.identity = name
        self.sizing = Sizing()
        self.briefs: list[Brief] = []
        self.turns: list[tuple[Turn, ...]] = []
        self._lines = list(lines)
        self._say = say

    async def answer(
        self, brief: Brief, *, sample: int = 0, earlier: Sequence[Turn] = (), max_tokens: int | None = None
    ) -> Answer:
        self.briefs.append(brief)
        self.turns.append(tuple(earlier))
        line = self._say(brief) if self._say else self._next()
        if isinstance(line, Exception):
            raise line
        if isinstance(line, Answer):
            return replace(line, model=line.model or self.name)
        return Answer(line if isinstance(line, str) else json.dumps(line), model=self.name)

    async def aclose(self) -> None:
        """Nothing to let go of."""

    def _next(self) -> ScriptedLine:
        if len(self._lines) == 1:
            return self._lines[0]
        asked = len(self.briefs)
        if asked > len(self._lines):
            raise UsageError(f"The ScriptedJudge was asked {asked} times and has {len(self._lines)} lines.")
        return self._lines[asked - 1]
