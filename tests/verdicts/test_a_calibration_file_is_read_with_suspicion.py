"""A calibration reads back as the very same one; a file that is none, or a hostile one, is one plain sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.calibration_files import file_values

from beholder.errors import UsageError
from beholder.verdicts.calibration import (
    MAX_CALIBRATION_BYTES,
    aspect_to_dict,
    digest_calibration,
    load_calibration,
    parse_calibration,
)
from beholder.verdicts.calibration_maps import (
    LEAF_COLUMN,
    BlendMap,
    CalibrationMap,
    ConstantMap,
    CurvedMap,
    DecisionTree,
    IsotonicMap,
    LinearMap,
    OffsetMap,
    SnapToEndsMap,
    TreeEnsembleMap,
    map_to_dict,
    parse_map,
)

WIDTH = 2
NUMBER = st.floats(-1e6, 1e6)
RISING = st.lists(NUMBER, min_size=1, max_size=5, unique=True).map(sorted)
PAIR = st.tuples(NUMBER, NUMBER)
SCALES = st.tuples(st.floats(0.1, 100), st.floats(0.1, 100))
KNOTS = RISING.map(lambda values: tuple((value, place - 1.5) for place, value in enumerate(values)))
STEPS = st.builds(
    lambda column, at: IsotonicMap(column, tuple(at), tuple(float(one) for one in range(len(at)))),
    st.integers(0, WIDTH - 1),
    RISING,
)
LEAFY = st.builds(lambda value: DecisionTree((LEAF_COLUMN,), (value,), (0,)), NUMBER)
SPLIT = st.builds(
    lambda column, at, left, right: DecisionTree((column, LEAF_COLUMN, LEAF_COLUMN), (at, left, right), (2, 0, 0)),
    st.integers(0, WIDTH - 1),
    *(NUMBER, NUMBER, NUMBER),
)
PARTS: st.SearchStrategy[Any] = st.one_of(
    st.builds(ConstantMap, NUMBER),
    st.builds(OffsetMap, st.integers(0, WIDTH - 1), NUMBER, NUMBER),
    STEPS,
    st.builds(LinearMap, NUMBER, PAIR, SCALES, PAIR),
    st.builds(CurvedMap, NUMBER, st.tuples(KNOTS, KNOTS), PAIR, PAIR),
    st.builds(TreeEnsembleMap, NUMBER, NUMBER, st.lists(LEAFY | SPLIT, min_size=1, max_size=4).map(tuple)),
)
BLENDS = st.lists(PARTS, min_size=1, max_size=3).map(lambda parts: BlendMap(tuple(parts), (1.5,) * len(parts)))
ENDS = st.builds(SnapToEndsMap, st.none() | NUMBER, st.none() | NUMBER, st.just(0.0), st.just(1.0), PARTS | BLENDS)


@given(PARTS | BLENDS | ENDS, st.lists(PAIR, max_size=5))
def test_every_map_reads_back_as_itself(given: CalibrationMap, cases: list[tuple[float, float]]) -> None:
    again = parse_map(json.loads(json.dumps(map_to_dict(given))), WIDTH)
    assert again == given
    values = np.array(cases, np.float64).reshape(-1, WIDTH)
    assert (again.predict(values) == given.predict(values)).all()
    assert np.isfinite(again.predict(values)).all()


def test_the_digest_is_of_what_it_says_and_not_of_how_it_is_laid_out(tmp_path: Path) -> None:
    values = file_values()
    files = [tmp_path / "one.json", tmp_path / "two.json"]
    files[0].write_text(json.dumps(values), "utf-8")
    files[1].write_text(json.dumps(dict(reversed(values.items())), indent=4), "utf-8")
    one, two = map(load_calibration, files)
    assert one.digest == two.digest == digest_calibration(values)
    assert load_calibration(files[0]).aspects["looks"].scale == (0.0, 1.0)
    other = file_values(raw="A1")
    assert parse_calibration(other).digest != one.digest
    assert aspect_to_dict(one.aspects["looks"]) == values["aspects"]["looks"]


TREES = {"kind": "trees", "base": 0.0, "scale": 1.0}
WRONG: dict[str, dict[str, Any]] = {
    "not finite": {"map": {"kind": "constant", "value": 1e999}},
    "kind of map": {"map": {"kind": "pickle", "data": "gASV"}},
    "a code to run": {"map": {"kind": "constant", "value": "__import__('os').system('id')"}},
    "another key": {"map": {"kind": "constant", "value": 1.0, "run": "rm"}},
    "too few weights": {"map": {"kind": "linear", "intercept": 0, "means": [0], "scales": [1], "weights": [1]}},
    "no width": {"map": {"kind": "linear", "intercept": 0, "means": [0, 0], "scales": [1, 0], "weights": [1, 1]}},
    "a column beyond": {"map": {"kind": "offset", "column": 2, "slope": 1.0, "shift": 0.0}},
    "a column before": {"map": {"kind": "offset", "column": -1, "slope": 1.0, "shift": 0.0}},
    "falling knots": {"map": {"kind": "isotonic", "column": 0, "at": [2.0, 1.0], "ratings": [0.0, 1.0]}},
    "a tree that goes round": {"map": TREES | {"trees": [{"column": [0, -1], "at": [0.0, 1.0], "right": [0, 0]}]}},
    "a tree that leads out": {"map": TREES | {"trees": [{"column": [0, -1], "at": [0.0, 1.0], "right": [9, 0]}]}},
    "a tree without leaves": {"map": TREES | {"trees": [{"column": [0], "at": [0.0], "right": [1]}]}},
    "no trees": {"map": TREES | {"trees": []}},
    "a blend in a blend": {"map": {"kind": "blend", "weights": [1], "maps": [{"kind": "blend", "maps": []}]}},
    "a blend of nothing": {"map": {"kind": "blend", "weights": [], "maps": []}},
    "no scale": {"scale": [1.0, 1.0]},
    "an interval the wrong way": {"interval": {"holds": 0.8, "low": 1.0, "high": -1.0}},
    "raw that is no input": {"raw": "something"},
    "inputs of one name": {"inputs": [{"name": "quality", "median": 0.0}, {"name": "quality", "median": 0.0}]},
    "no inputs": {"inputs": []},
    "a key that is not known": {"secret": 1},
}


@pytest.mark.parametrize("changes", WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said(changes: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "calibration.json"
    file.write_text(json.dumps(file_values(**changes)).replace("Infinity", "1e999"), "utf-8")
    with pytest.raises(UsageError) as told:
        load_calibration(file)
    assert "\n" not in str(told.value)
    assert len(str(told.value)) < 500


@pytest.mark.parametrize(
    "made",
    [
        {"judges": "openai:gpt-5-mini"},  # a text holds "openai:gpt-5" too
        {"judges": {"openai:gpt-5": 1}},
        {"judges": [1]},
        {"styles": "Anime"},
        {"rubrics": ["mine"]},
        {"rubrics": {"mine": 1.0}},
    ],
)
def test_what_it_was_made_for_is_lists_of_names(made: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="What it was made for is wrong"):
        parse_calibration(file_values() | {"made": made})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        '{"kind": "beholder calibration", "format": 2}',
        '{"kind": "beholder calibration", "format": 1, "made": {}, "aspects": {}}',
        '{"kind": "beholder calibration", "format": 1, "made": {}, "aspects": {"a": null}}',
        '{"kind": NaN}',
        "[" * 100_000,
        '{"a":' * 50_000,
        "\x80",
    ],
)
def test_anything_else_is_no_calibration(text: str, tmp_path: Path) -> None:
    file = tmp_path / "calibration.json"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError):
        load_calibration(file)


def test_a_file_that_is_not_there_or_too_large_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load_calibration(tmp_path / "none.json")
    with pytest.raises(UsageError, match="cannot be read"):
        load_calibration(tmp_path)
    huge = tmp_path / "huge.json"
    with huge.open("wb") as file:
        file.truncate(MAX_CALIBRATION_BYTES + 1)
    with pytest.raises(UsageError, match="larger than"):
        load_calibration(huge)
