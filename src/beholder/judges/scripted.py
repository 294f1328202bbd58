"""A judge with scripted answers, for tests of your own code: no network, no patching."""

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
    """Answers with the given lines in turn, or with what a function returns.

    Args:
        *lines: the text of an answer, its JSON, a whole `Answer`, or an exception to raise. A single line answers every
            question; of several, asking once more than there are is a `UsageError`.
        say: in place of lines, returns the line for a brief.
        name: the judge's name and identity.

    Attributes:
        briefs: the briefs that it was asked, in order.
        turns: the earlier turns of each question.
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
        line = self._say(brief) if self._say else self._next_line()
        if isinstance(line, Exception):
            raise line
        if isinstance(line, Answer):
            return replace(line, model=line.model or self.name)
        return Answer(line if isinstance(line, str) else json.dumps(line), model=self.name)

    async def aclose(self) -> None:
        """Do nothing: there are no connections."""

    def _next_line(self) -> ScriptedLine:
        if len(self._lines) == 1:
            return self._lines[0]
        asked = len(self.briefs)
        if asked > len(self._lines):
            raise UsageError(f"The ScriptedJudge was asked {asked} times and has {len(self._lines)} lines.")
        return self._lines[asked - 1]
