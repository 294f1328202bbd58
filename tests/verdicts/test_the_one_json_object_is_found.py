"""Fences are fine, prose is flagged, two objects that differ are invalid, a part of a broken object is no answer."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beholder.errors import AnswerError
from beholder.verdicts import parse
from beholder.verdicts.parse import parse_answer
from beholder.verdicts.verdict import Outcome, Verdict

Answer = Callable[..., dict[str, Any]]
Judge = Callable[..., Verdict]

FENCES = [
    "{}", "  {}\n", "\ufeff{}", "```json\n{}\n```", "```\n{}\n```", "```JSON\n{}```", "\n\n```json\r\n{}\r\n```\n",
    "```json {}```", "```{}```", "```json\n\n  {}  \n\n```  ",
]  # fmt: skip
PROSE = [
    "Here it is:\n{}", "{}\nI hope this helps!", "Here:\n```json\n{}\n```\nDone.", "I saw a {{cat}} and {{x}}.\n{}",
    "{}\n{}", "```json\n{}\n```\n```json\n{}\n```", "[{}]", "{{}} {}", "<answer>{}</answer>", "} {}", "{} }", "{} ``` ",
]  # fmt: skip


@pytest.mark.parametrize("frame", FENCES)
def test_fences_and_space_are_fine(frame: str, verdict: Judge, factors: Answer) -> None:
    made = verdict("edit-preservation online", frame.replace("{}", json.dumps(factors(), indent=1)))
    assert made.scored
    assert made.flags == ()


@pytest.mark.parametrize("frame", PROSE)
def test_prose_is_flagged(frame: str, verdict: Judge, factors: Answer) -> None:
    text = frame.replace("{{", "\0").replace("}}", "\1").replace("{}", json.dumps(factors(), indent=1))
    made = verdict("edit-preservation online", text.replace("\0", "{").replace("\1", "}"))
    assert made.scored, made.detail
    assert [flag.flag for flag in made.flags] == ["prose_around_json"]


def test_two_objects_that_differ_are_invalid(verdict: Judge, factors: Answer) -> None:
    one, other = json.dumps(factors((4, 4, 4))), json.dumps(factors((4, 4, 5)))
    for between in ("\n", " or rather: ", "```\n```json\n", " {x} " * 60, "{" * 30 + "}" * 30):
        made = verdict("edit-preservation online", one + between + other)
        assert made.outcome is Outcome.INVALID
        assert "2 JSON objects that differ" in made.detail
    for text in (f"[{one}, {other}]", f"[{one}, [{other}]]", f"[[{one}]] [{other}]"):
        assert "2 JSON objects that differ" in verdict("edit-preservation online", text).detail
    assert verdict("edit-preservation online", one + " {x} " * 300 + other).outcome is Outcome.INVALID


BROKEN = [
    "{0",  # cut off
    '{{"answer": {0}',
    '{{"answer": {0}, "x": nul}}',
    '{{"answer": {0}, }}',
    "{{answer: {0}}}",
    "{{ /* my answer */ \"answer\": {0}}}",
    "{{'answer': {0}}}",
    "{{\n// comment\n\"answer\": {0}}}",
    '{{"thinking": "it\'s a {{", "answer": {0}',
    "{{thinking: 'a }} in a text', answer: {0}}}",
    '{{note the "}}", answer: {0}}}',
    "{{ // not yet }}: \n answer: {0}}}",
    '"answer": {0}}}',  # its first brace was lost
    '"answer" :\n {0}, "x": 1',
    "[{0}",
    "[{0}, nul]",
    '[ {0}, "x" ',
]  # fmt: skip


@pytest.mark.parametrize("frame", BROKEN)
def test_a_complete_object_inside_a_broken_one_is_not_scored(frame: str, verdict: Judge, factors: Answer) -> None:
    inner = json.dumps(factors()["criteria"])
    text = inner[:-1] if frame == "{0" else frame.format(inner)
    made = verdict("edit-preservation online", text)
    assert made.outcome is Outcome.INVALID
    assert "valid JSON" in made.detail


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_answer_that_was_cut_off_is_scored(data: st.DataObject, verdict: Judge, restyle: Answer) -> None:
    whole = json.dumps(restyle(), indent=data.draw(st.sampled_from([None, 1])))
    cut = data.draw(st.integers(0, len(whole) - 1))
    fence = data.draw(st.sampled_from(["", "```json\n", "Here you are: "]))
    assert verdict("restyle", fence + whole[:cut]).outcome is Outcome.INVALID


@pytest.mark.parametrize("text", ["", " ", "I cannot judge this.", "null", "5", '"text"', "[]", "[1, 2]", "{x}", "{",
                                  "}", "```", "``````", "{'a': 1}", "{{}}"])  # fmt: skip
def test_no_object_is_no_answer(text: str) -> None:
    with pytest.raises(AnswerError):
        parse_answer(text)


def test_why_there_is_no_answer_is_said() -> None:
    for text, word in {
        "no braces": "holds no JSON object",
        "the set {a, b}": "holds no JSON object",
        "well: {}": "is empty",
        '{"a": 1': "line 1, column 8",
        "x" * 2_000_000: "2,000,000 characters",
        '{"a":' + "[" * 100 + "]" * 100 + "}": "nested more than 32",
        '{"a":' * 100 + "1" + "}" * 100: "nested more than 32",
        '{"a":' + "[" * 100_000: "nested more than 32",
        '{"a": NaN}': "NaN",
        '{"a": -Infinity}': "-Infinity",
        '{"a": ' + "1" * 5000 + "}": "cannot be read",
        '{"a": 1e99999999999999999999}': "can be used",
        '{"a": 1, "a": 1}': "stands twice",
        "{ " * 500: "more than 200 opening braces",
    }.items():
        with pytest.raises(AnswerError, match=word):
            parse_answer(text)


def test_numbers_stay_exact() -> None:
    document, _ = parse_answer('{"a": 0.1, "b": 12345678901234567890, "c": 1e2}')
    assert document == {"a": Decimal("0.1"), "b": 12345678901234567890, "c": Decimal("1e2")}
    assert isinstance(document["a"], Decimal)


def test_texts_that_no_database_or_terminal_can_take_are_mended() -> None:
    document, _ = parse_answer(r'{"a": "x\u0000y", "b": ["\ud800"], "c\udfff": {"d": "\ud83d\ude00"}}')
    assert document == {"a": "x\ufffdy", "b": ["?"], "c?": {"d": "😀"}}
    json.dumps(document, ensure_ascii=False).encode("utf-8")


THOUGHTS = [
    "<think>Well. {x} it's {this: or that}.</think>{}",
    "<think>\nFirst {\"score\": 1}, then {\"score\": 2}.\n</think>\n\n```json\n{}\n```",
    "The opening tag was in the prompt. {\"score\": 1} </think> {}",
    "<think>{\"a\": 1}</think><think>{\"b\": 2}</think>{}",
    "<thinking>{\"a\": 1, \"a\": NaN</thinking>\n{}\nDone.",
    "<THINK>{'broken': {\"a\": 1}, \"</THINK>{}",
    "<think>" + "{ " * 300 + "</think>{}",
    "<think>" + '{"a":' * 2000 + "</think>{}",
    "<think>Never closed, and no other object. {}",
    "{\"a\": 1} </think> {}",
]  # fmt: skip


@pytest.mark.parametrize("thoughts", THOUGHTS)
def test_only_what_is_after_the_last_think_block_counts(thoughts: str, verdict: Judge, factors: Answer) -> None:
    made = verdict("edit-preservation online", thoughts.replace("{}", json.dumps(factors((4, 4, 7)))))
    assert made.scored, made.detail
    assert made.criteria["identity_preservation"].score == 7
    assert [flag.flag for flag in made.flags] == ["prose_around_json"]


def test_a_draft_in_a_think_block_is_no_answer(verdict: Judge, factors: Answer) -> None:
    draft, answer = json.dumps(factors((1, 1, 1))), json.dumps(factors((4, 4, 4)))
    for text in (f"<think>{draft}</think>", f"{draft}</think> So much for that.", f"{answer}<think>{draft}</think>"):
        assert verdict("edit-preservation online", text).detail == "the answer holds no JSON object"
    for text in (f"<think>{draft} {answer}", f"<think></think>{draft} {answer}"):
        assert "2 JSON objects that differ" in verdict("edit-preservation online", text).detail


def test_a_tag_inside_a_text_ends_no_thinking(verdict: Judge, factors: Answer) -> None:
    """An image, or the response that is judged, may hold such a tag; a judge that quotes it was still read."""
    words = "the poster reads </think> I'm sorry, I can't help with that, " + "and so on " * 4
    text = json.dumps(factors((4, 4, 7), reason=words))
    for frame in ("{}", "Here: {}", "<think>Well.</think> {}", "```json\n{}\n```"):
        made = verdict("edit-preservation online", frame.replace("{}", text))
        assert made.scored, made.detail
        assert made.criteria["identity_preservation"].score == 7


@pytest.mark.parametrize("text", [
    "```\n{" + " " * 300_000 + "x```",
    "```json\n" + "\n" * 300_000 + "x",
    "{" + '"k": 1, ' * 60_000 + "}",
    "{" + ",".join(f'"k{n}": 1' for n in range(60_000)) + ', "k1": 1}',
    "}" * 900_000,
    "{ " * 450_000,
    '{"' * 300_000,
    '{"a": "' + "\\ud800" * 100_000 + '"}',
    '{"a": 0.' + "1" * 900_000 + "}",
    "```" * 300_000,
])  # fmt: skip
def test_no_text_takes_long(text: str) -> None:
    """Nothing is timed: what is quadratic in a million characters would never come back."""
    try:
        document, _ = parse_answer(text)
    except AnswerError:
        return
    assert list(document) == ["a"]


class Counted:
    """A pattern or a decoder in place of its own, which counts the characters that it is given to look at."""

    def __init__(self, own: Any, work: list[int]) -> None:
        self._own = own
        self._work = work
        self.pattern = getattr(own, "pattern", "")

    def search(self, text: str, start: int = 0, end: int | None = None) -> Any:
        found = self._own.search(text, start, len(text) if end is None else end)
        self._work.append((found.end() if found else len(text) if end is None else end) - start)
        return found

    def raw_decode(self, text: str, start: int) -> Any:
        try:
            value, end = self._own.raw_decode(text, start)
        except json.JSONDecodeError as error:
            self._work.append(error.pos - start + error.pos)  # the decoder counts the lines up to there
            raise
        except RecursionError:
            self._work.append(len(text))
            raise
        self._work.append(end - start)
        return value, end


MEGABYTE = 1_000_000


@pytest.mark.parametrize("part", [
    "{} ", '{"a":', "[", "{", "}", "{}", '{"', "[{", '[{"a": 1}, ', '{"a": 1} ', "{x} ", "{x: 1} ", "{'", '":{"', "{\n",
    "</think>", "{</think>", '{"a": "</think>', '{"a": 1}</think>', "<think>{}</think>",
    '{"</think>": ', '[{"a": "</think>", "b": [', '{"a": "\\ud800"} ', '" : [ ',
])  # fmt: skip
@pytest.mark.parametrize("before", ["", "Well. ", '{"a": 1}\n'])
def test_the_work_is_linear(part: str, before: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The event loop stands still while an answer is read, so that no text may be looked at again and again."""
    work: list[int] = []
    for name in ("_THINK_END", "_MARK", "_MARK_IN_BRACES", "_UNSTORABLE", "_JSON_DECODER"):
        monkeypatch.setattr(parse, name, Counted(getattr(parse, name), work))
    text = (before + part * MEGABYTE)[:MEGABYTE]
    with contextlib.suppress(AnswerError):
        parse_answer(text)
    assert sum(work) <= 12 * len(text)
