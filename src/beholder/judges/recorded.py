"""Answers that nobody is asked for: recorded ones, scored again, and `ScriptedJudge`, for tests of your own code.

A recorded answer is one JSON object: `{"case", "answer", "fields", "judge"}`. A file has one a line, or several lines
for each where it is pretty-printed, or one pretty-printed list of them.
`answer` is the text as it came, or its JSON. `fields` are the case's texts (only a style is needed); `judge` says who
answered, `setting` in which setting. Fields that the rubric does not know are ignored.

A line with neither "case" nor "answer" is itself an answer, as `--format seed` prints them; its case is its `image_id`,
or "line 7".
"""

from __future__ import annotations

import errno
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import IO

import msgspec

from beholder.cases.case import FieldValue
from beholder.errors import AnswerError, CaseError, RubricError, Unreachable, UsageError
from beholder.images.image import Sizing, regular_file
from beholder.judges.base import INSTRUMENTS
from beholder.rubrics.brief import Brief, Composer
from beholder.rubrics.load import load_styles
from beholder.rubrics.prompt import clean_text
from beholder.rubrics.rubric import Rubric
from beholder.verdicts.answer import Answer, Turn
from beholder.verdicts.observe import AnswerContext
from beholder.verdicts.parse import MAX_CHARACTERS, JsonObject, check_answer_length, parse_answer, parse_json_object
from beholder.verdicts.score import VerdictHeader, score_answer
from beholder.verdicts.verdict import CriterionResult, Outcome, Verdict

MAX_PRETTY_CHARACTERS = 2**26  # of a pretty-printed object or list, which is read as a whole
_INHERITED_FOLDERS = Path("/dev/fd"), Path("/proc/self/fd")  # whose files are those that this process has open
_BETWEEN_MEMBERS = re.compile(r"[\s,]*")


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """One recorded answer. `broken` says why its JSON is invalid (a key that occurs twice, NaN); else it is empty."""

    case: str
    answer: str | JsonObject
    fields: Mapping[str, FieldValue]
    judge: str = "recorded"
    setting: str = ""
    broken: str = ""


def read_recorded(path: Path, on_malformed: Callable[[str], object] | None = None) -> Iterator[RecordedAnswer]:
    """Iterate over the answers in a file, which is read once.

    Args:
        path: the file; `-` is standard input. A pipe that the shell opened (`<(cat answers.jsonl)`) will do.
        on_malformed: called with a message (file, line, reason) for every line that is no recorded answer.

    Raises:
        UsageError: the file cannot be read; without `on_malformed` also for the first malformed line.
    """
    try:
        with nullcontext(sys.stdin.buffer) if str(path) == "-" else _open_answers(path) as lines:
            yield from parse_recorded(_decode_lines(lines, str(path)), str(path), on_malformed)
    except OSError as error:
        raise UsageError(f"{str(path)!r} cannot be read: {error.strerror or error}.") from None


def _open_answers(path: Path) -> IO[bytes]:
    """Open a file, or a pipe that this process was started with. Raises `OSError` for any other pipe or device.

    What the shell has opened has a writer; a pipe in a folder may never get one, and a device may have no end.
    """
    if path.absolute().parent in _INHERITED_FOLDERS or path == Path("/dev/stdin"):
        return path.open("rb")
    if path.is_fifo():
        raise OSError(errno.EINVAL, f"it is a pipe and no file; to wait for its writer, say `- < {path}`")
    return regular_file(path).open("rb")


def _decode_lines(file: IO[bytes], place: str) -> Iterator[str]:
    """Iterate over the lines of a file. Raises `UsageError` for one that may have no end, such as that of /dev/zero."""
    for number in count(1):
        line = file.readline(MAX_PRETTY_CHARACTERS)
        if len(line) == MAX_PRETTY_CHARACTERS:
            raise UsageError(f"{place}, line {number} has more than {MAX_PRETTY_CHARACTERS >> 20} MB; no answer has.")
        if not line:
            return
        yield line.decode("utf-8-sig" if number == 1 else "utf-8", "replace")


def parse_recorded(
    lines: Iterable[str | Mapping[str, object]], place: str, on_malformed: Callable[[str], object] | None = None
) -> Iterator[RecordedAnswer]:
    """Iterate over recorded answers, each a line of JSON or a mapping; empty lines are skipped.

    Args:
        lines: the answers.
        place: where they are, for messages.
        on_malformed: as for `read_recorded`.

    Raises:
        UsageError: without `on_malformed`, for the first one that is no recorded answer.
    """
    for number, text in _split_documents(lines):
        try:
            recorded = _parse_line(text, number)
        except UsageError as error:
            message = f"{place}, line {number}: {error}"
            if on_malformed is None:
                raise UsageError(message) from None
            on_malformed(message)
        else:
            yield recorded


def _split_documents(lines: Iterable[str | Mapping[str, object]]) -> Iterator[tuple[int, str]]:
    """Iterate over the JSON documents in lines, each with the number of its first line; empty lines are skipped.

    A line that only opens an object or a list begins a pretty-printed one, which ends with the next line that closes it
    without indentation.
    """
    opened: list[str] = []
    first = size = 0
    for number, line in enumerate(lines, start=1):
        if not isinstance(line, str):
            yield number, json.dumps(line, default=str)
        elif opened:
            opened.append(line)
            size += len(line)
            if line.rstrip() in ("}", "]") or size > MAX_PRETTY_CHARACTERS:
                yield from _split_list("".join(opened), first)
                opened = []
        elif line.rstrip() in ("{", "["):
            opened, first, size = [line], number, 0
        elif text := line.strip():
            yield number, text
    if opened:
        yield from _split_list("".join(opened), first)


def _split_list(text: str, line: int) -> Iterator[tuple[int, str]]:
    """Iterate over the texts of the members of a JSON list, or of one object, each with the line where it begins."""
    text = text.strip()
    if not text.startswith("["):
        yield line, text
        return
    decoder = json.JSONDecoder(parse_int=_parse_int)
    at = _BETWEEN_MEMBERS.match(text, 1).end()  # type: ignore[union-attr]  # matches also nothing
    while at < len(text) and text[at] != "]":
        try:
            end = decoder.raw_decode(text, at)[1]
        except (ValueError, RecursionError):
            end = len(text)  # what follows is no JSON, and is reported as one line
        yield line + text.count("\n", 0, at), text[at:end]
        at = _BETWEEN_MEMBERS.match(text, end).end()  # type: ignore[union-attr]


class Rescorer:
    """Scores recorded answers to one rubric.

    Args:
        rubric: the rubric.
        setting: of all answers; by default each answer tells its own.
        style_folders: where the user's own styles are.
        family: the same answers are scored by related rubrics too, so that criteria of those are expected in them.

    Raises:
        UsageError: the setting or a folder does not exist, or a style file is wrong (`RubricError`).
    """

    def __init__(
        self, rubric: Rubric, *, setting: str = "", style_folders: Sequence[Path] = (), family: bool = False
    ) -> None:
        self._rubric = rubric
        self._family = family
        self._setting = setting
        self._style_folders = style_folders
        self._composers: dict[str, Composer] = {}
        self._composer(setting)  # mistakes in settings and folders are reported now, not as invalid answers
        if rubric.styles:
            load_styles(style_folders)

    def verdict(self, recorded: RecordedAnswer) -> tuple[Verdict, Rubric]:
        """Return the verdict, and the rubric in the style and setting of the answer.

        An answer without a valid style or setting is `invalid`; only a wrong style file raises (`RubricError`).
        """
        document = _answer_document(recorded.answer)
        setting = self._setting or recorded.setting or _infer_setting(self._rubric, document)
        try:
            rubric = self._composer(setting).rubric_for_style(self._style(recorded, document))
        except RubricError:
            raise
        except UsageError as error:
            header = VerdictHeader(recorded.case, self._rubric, recorded.judge)
            return header.make_verdict(Outcome.INVALID, recorded.broken or str(error)), self._rubric
        header = VerdictHeader(recorded.case, rubric, recorded.judge)
        if recorded.broken:
            return header.make_verdict(Outcome.INVALID, recorded.broken), rubric
        measured = recorded.judge == INSTRUMENTS  # the one judge of ours that may abstain
        context = AnswerContext(family=self._family, may_abstain=measured, any_form=True)
        return score_answer(header, recorded.answer, context), rubric

    def valid_criteria(self, recorded: RecordedAnswer, rubric: Rubric) -> Mapping[str, CriterionResult] | None:
        """Return those criteria of an invalid answer that are valid by themselves; `None` without any.

        A calibration can be learned from, and applied to, what only these criteria answer.
        """
        header = VerdictHeader(recorded.case, rubric, recorded.judge)
        keys = [criterion.key for criterion in rubric.criteria]
        criteria: dict[str, CriterionResult] = {}
        for criterion in rubric.criteria if not recorded.broken else ():
            alone = msgspec.structs.replace(rubric, criteria=(criterion,), sisters=(*rubric.sisters, *keys))
            found = score_answer(replace(header, rubric=alone), recorded.answer, AnswerContext(family=True))
            if found.outcome is Outcome.SCORED:
                criteria |= found.criteria
        return criteria or None

    def _composer(self, setting: str) -> Composer:
        if setting not in self._composers:
            self._composers[setting] = Composer(self._rubric, setting=setting, style_folders=self._style_folders)
        return self._composers[setting]

    def _style(self, recorded: RecordedAnswer, document: JsonObject) -> str:
        """Return the style: the one field that scoring needs, by the line's fields or by the answer itself."""
        if not self._rubric.styles:
            return ""
        style = recorded.fields.get("style") or document.get("style")
        if not isinstance(style, str):
            raise CaseError(f"The recorded case {recorded.case!r} lacks the field 'style' that is needed.")
        return style


def _parse_line(text: str, line: int) -> RecordedAnswer:
    try:
        plain = json.loads(text, parse_int=_parse_int)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"this is no JSON ({error}).") from None
    if isinstance(plain, dict) and plain and not {"case", "answer"} & set(plain):
        return _parse_bare_answer(text, plain, line)
    if not isinstance(plain, dict) or not isinstance(plain.get("case"), str | int) or "answer" not in plain:
        raise UsageError(
            'a line is {"case": …, "answer": …}, with "fields" and "judge" where there are any, or an answer itself.'
        )
    answer, broken = plain["answer"], ""
    if isinstance(answer, dict):
        try:
            answer = parse_json_object(text)["answer"]
            if len(text) > MAX_CHARACTERS:
                check_answer_length(json.dumps(plain["answer"], ensure_ascii=False, default=str))
        except AnswerError as error:
            answer, broken = {}, str(error)
    elif not isinstance(answer, str):
        answer, broken = "", "the answer is neither a text nor a JSON object"
    return RecordedAnswer(
        case=clean_text(str(plain["case"])),
        answer=answer,
        fields=_parse_fields(plain.get("fields") or {}),
        judge=clean_text(str(plain.get("judge") or "recorded")),
        setting=clean_text(str(plain.get("setting") or "")),
        broken=broken,
    )


def _parse_bare_answer(text: str, plain: Mapping[str, object], line: int) -> RecordedAnswer:
    """Parse a line that is an answer and nothing else."""
    image_id = plain.get("image_id")
    has_id = isinstance(image_id, str | int) and str(image_id).strip()
    case = clean_text(str(image_id)) if has_id else f"line {line}"
    try:
        check_answer_length(text)
        return RecordedAnswer(case, parse_json_object(text), {})
    except AnswerError as error:
        return RecordedAnswer(case, {}, {}, broken=str(error))


def _parse_int(digits: str) -> int | Decimal:
    """Parse an integer of any length: one beyond Python's limit must not make the whole line invalid."""
    return int(digits) if len(digits) < 1000 else Decimal(digits)


def _parse_fields(values: object) -> dict[str, FieldValue]:
    if not isinstance(values, dict):
        raise UsageError('"fields" should be an object of texts.')
    fields: dict[str, FieldValue] = {}
    for name, value in values.items():
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            fields[name] = tuple(map(clean_text, value))
        elif isinstance(value, str | int | float | Decimal):
            fields[name] = clean_text(str(value))
        elif value is not None:
            raise UsageError(f"the field {name!r} should be a text or a list of texts.")
    return fields


def _answer_document(answer: str | JsonObject) -> JsonObject:
    """Return the answer's JSON to find style and setting in; empty where there is none, which is reported later."""
    if isinstance(answer, dict):
        return answer
    try:
        return parse_answer(answer)[0]
    except AnswerError:
        return {}


def _infer_setting(rubric: Rubric, document: JsonObject) -> str:
    """Return the first setting whose results are in the answer."""
    return next((name for name, setting in rubric.settings.items() if setting.results in document), "")


ScriptedLine = str | Mapping[str, object] | Answer | Exception


@dataclass(frozen=True, slots=True)
class StoredAnswersJudge:
    """Stands for a model that is not to be asked: a case has the answer that the ledger has of that model, or none.

    Attributes:
        name: of the model.
        identity: that of the model, under which its answers are stored.
        sizing: that of the model.
    """

    name: str
    identity: str
    sizing: Sizing

    async def answer(
        self, brief: Brief, *, sample: int = 0, earlier: Sequence[Turn] = (), max_tokens: int | None = None
    ) -> Answer:
        raise Unreachable(f"the ledger has no answer of {self.name} to this, and nobody is asked", attempts=0)

    async def aclose(self) -> None:
        """Do nothing: there are no connections."""


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
