"""Where a key of a suite takes one of a few words, whoever writes another one is told which there are."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest
from msgspec import structs

from beholder.errors import RubricError, UsageError
from beholder.runs.suite import load_suite
from beholder.runs.suite_file import SuiteFile

START = "rubric: restyle\ncases: cases.jsonl\n"
ENGINES = "there is 'local' and 'ray'"
ANSWERS = "there are 'accept', 'offer' and 'refuse'"
ORDERS = "there are 'both', 'random' and 'given'"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("engine: spark", f"engine: {ENGINES}; 'spark' is neither"),
        ("engine: [ray]", f"engine: should be a text and is a list; {ENGINES}"),
        ("not_applicable: maybe", f"not_applicable: {ANSWERS}; 'maybe' is none of them"),
        ("orders: ab", f"orders: {ORDERS}; 'ab' is none of them"),
        ("orders: 1", f"orders: should be a text and is a whole number; {ORDERS}"),
        ("not_applicable: 1", f"not_applicable: should be a text and is a whole number; {ANSWERS}"),
    ],
)
def test_in_a_file(tmp_path: Path, text: str, said: str) -> None:
    suite = tmp_path / "suite.yaml"
    suite.write_text(START + text)
    with pytest.raises(RubricError) as error:
        load_suite(suite)
    assert f"{suite}: line 3, {said}" in str(error.value).splitlines()


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("engine", f"--engine: {ENGINES}; 'spark' is neither."),
        ("not_applicable", f"--not-applicable: {ANSWERS}; 'spark' is none of them."),
        ("orders", f"--orders: {ORDERS}; 'spark' is none of them."),
    ],
)
def test_by_a_flag(key: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        load_suite(None, {key: "spark"})
    assert str(error.value) == said


def test_these_are_all_the_keys_that_take_a_choice() -> None:
    """A new one belongs into the lists above."""

    def kinds(kind: object) -> list[object]:
        return [kind, *(inner for one in get_args(kind) for inner in kinds(one))]

    chosen = [one.name for one in structs.fields(SuiteFile) if Literal in map(get_origin, kinds(one.type))]
    assert sorted(chosen) == ["engine", "not_applicable", "orders"]
