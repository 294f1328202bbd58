"""An answer from a file comes to the outcome that it would have had live."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beholder.errors import CaseError, RubricError, UsageError
from beholder.judges.recorded import Rescorer, read_recorded
from beholder.rubrics.rubric import Rubric
from beholder.verdicts.verdict import Outcome, Verdict

Answer = Callable[..., dict[str, Any]]
From = Callable[..., list[Verdict]]


@pytest.fixture
def verdicts(tmp_path: Path) -> From:
    def make(*lines: str | dict[str, Any], rubric: str = "restyle", **options: object) -> list[Verdict]:
        path = tmp_path / "answers.jsonl"
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        path.write_text("\n".join(texts) + "\n", "utf-8")
        rescorer = Rescorer(Rubric.load(rubric), **options)  # type: ignore[arg-type]
        return [rescorer.verdict(one)[0] for one in read_recorded(path)]

    return make


def recorded(answer: object, **rest: object) -> dict[str, Any]:
    return {"case": "c", "answer": answer, "fields": {"style": "Anime"}} | rest


def test_a_refusal_in_plain_words_is_refused(verdicts: From) -> None:
    said = "I'm sorry, I can't help with identifying people."
    [made] = verdicts(recorded(said))
    assert (made.outcome, made.detail) == (Outcome.REFUSED, said)


def test_what_the_instruments_left_open_stays_open_and_nobody_else_may(verdicts: From) -> None:
    blocks = {
        key: {"score": "abstain", "justification": "x"}
        for key in ("unchanged_regions", "global_consistency", "identity_preservation")
    }
    line = {"case": "c", "answer": {"criteria": blocks}, "judge": "instruments"}
    [measured] = verdicts(line, rubric="edit-preservation")
    assert (measured.outcome, measured.score) == (Outcome.UNMEASURED, None)
    [other] = verdicts({**line, "judge": "gpt"}, rubric="edit-preservation")
    assert other.outcome is Outcome.INVALID


def test_an_answer_is_as_long_as_json_as_it_is_as_text(verdicts: From, restyle: Answer) -> None:
    answer = restyle() | {"assessment": "x" * 2_000_000}
    as_json, as_text = verdicts(recorded(answer), recorded(json.dumps(answer)))
    assert as_json.outcome is as_text.outcome is Outcome.INVALID
    assert as_json.detail == as_text.detail
    assert "at most 1,000,000 are read" in as_json.detail
    [beside] = verdicts(recorded(restyle(), fields={"style": "Anime", "note": "x" * 2_000_000}))
    assert beside.scored


def test_a_number_of_5_000_digits_is_an_invalid_answer(verdicts: From, restyle: Answer) -> None:
    line = json.dumps(recorded(restyle() | {"summary": {"weighted_total": 777}})).replace("777", "9" * 5000)
    broken, fine = verdicts(line, recorded(restyle()))
    assert broken.outcome is Outcome.INVALID
    assert "a number that cannot be read" in broken.detail
    assert fine.scored


def test_a_line_without_a_style_is_invalid_and_the_next_is_scored(verdicts: From, restyle: Answer) -> None:
    bad, fine = verdicts(recorded(restyle(), fields={}), recorded(restyle()))
    assert bad.outcome is Outcome.INVALID
    assert bad.detail == "The recorded case 'c' lacks the field 'style' that is needed."
    assert fine.scored


def test_a_style_or_setting_that_is_none_is_invalid(verdicts: From, restyle: Answer, factors: Answer) -> None:
    [made] = verdicts(recorded(restyle(), fields={"style": "a\nb"}))
    assert (made.outcome, "cannot be the name of a style" in made.detail) == (Outcome.INVALID, True)
    [made] = verdicts(recorded(factors(), setting="inline"), rubric="edit-preservation")
    assert (made.outcome, "no setting 'inline'" in made.detail) == (Outcome.INVALID, True)


def test_what_the_user_named_wrongly_is_told_before_any_answer_is_read(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match="no setting 'inline'"):
        Rescorer(Rubric.load("edit-preservation"), setting="inline")
    with pytest.raises(UsageError, match="no folder of styles"):
        Rescorer(Rubric.load("restyle"), style_folders=[tmp_path / "nowhere"])
    (tmp_path / "bad.yaml").write_text("style: [", "utf-8")
    with pytest.raises(RubricError, match="not valid YAML"):
        Rescorer(Rubric.load("restyle"), style_folders=[tmp_path])


def test_half_a_surrogate_pair_can_be_written_out(verdicts: From, restyle: Answer) -> None:
    [made] = verdicts(recorded(restyle(), case="a\ud800", judge="b\udfff"))
    json.dumps(made.to_dict(), ensure_ascii=False).encode("utf-8")


def test_malformed_lines_are_told_or_raised(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text('{"case": "a", "answer": "x"}\nnonsense\n\n{"case": "b"}\n{"case": "c", "answer": "y"}\n')
    told: list[str] = []
    assert [one.case for one in read_recorded(path, told.append)] == ["a", "c"]
    assert [sentence.split(":")[0] for sentence in told] == [f"{path}, line 2", f"{path}, line 4"]
    with pytest.raises(UsageError, match="line 2: this is no JSON"):
        list(read_recorded(path))
