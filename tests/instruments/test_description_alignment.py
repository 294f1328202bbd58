"""The script that fits the map to people's ratings: its measure, its parts, and what the committed numbers reach."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from beholder.instruments.text.comparison import TextInput, WordRarity
from beholder.instruments.text.description import assess_description
from beholder.instruments.text.measurements import HUMAN_FEATURES, load_text_rating_map

ROOT = Path(__file__).parents[2]


def _script() -> ModuleType:
    place = ROOT / "benchmarks" / "alignment" / "descriptions.py"
    spec = importlib.util.spec_from_file_location("beholder_alignment_descriptions", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


script = _script()


@given(
    st.lists(
        st.tuples(st.integers(-3, 3), st.lists(st.integers(1, 4), min_size=3, max_size=3)), min_size=2, max_size=40
    )
)
def test_tau_c_is_that_of_scipy_with_every_rating_a_point(cases: list[tuple[int, list[int]]]) -> None:
    predictions = np.array([float(prediction) for prediction, _ in cases])
    ratings = np.array([scores for _, scores in cases])
    ours = script.tau_c(predictions, ratings)
    if len(np.unique(predictions)) < 2 or len(np.unique(ratings)) < 2:
        assert ours == 0
        return
    theirs = kendalltau(np.repeat(predictions, 3), ratings.ravel(), variant="c").statistic
    assert ours == pytest.approx(100 * theirs)


def test_an_image_is_in_one_part_only() -> None:
    images = [f"image {n % 37}" for n in range(200)]
    parts = script.parts(images, 0)
    assert {len(set(parts[[one == image for one in images]])) for image in set(images)} == {1}
    assert set(parts) == set(range(script.FOLDS))


def test_the_fit_finds_the_direction_and_its_numbers_are_those_that_the_judge_applies() -> None:
    rng = np.random.default_rng(1)
    matrix = rng.uniform(size=(400, len(HUMAN_FEATURES)))
    ratings = 1 + 3 / (1 + np.exp(4 - 3 * matrix[:, 0] - 3 * matrix[:, 3]))
    weights = script.fit(matrix, ratings)
    by_name = {feature.name: feature.weight for feature in weights.features}
    assert by_name["agreement"] > 0.3
    assert by_name["subject"] > 0.3
    assert abs(by_name["scene"]) < 0.1
    applied = script.apply(weights, matrix)
    assert script.tau_c(applied, np.rint(ratings).astype(int)[:, None]) > 40
    row = dict(zip(HUMAN_FEATURES, matrix[0].tolist(), strict=True))
    assert applied[0] == pytest.approx(weights.rating(row))


def test_a_feature_without_a_value_counts_as_its_mean() -> None:
    weights = load_text_rating_map()
    means = {feature.name: feature.mean for feature in weights.features}
    assert weights.rating(dict.fromkeys(HUMAN_FEATURES)) == pytest.approx(weights.rating(means))


def test_words_weigh_by_the_photographs_that_mention_them() -> None:
    table = WordRarity.from_descriptions([("a dog", "the dog runs"), ("two dogs",), ("a cat",)])
    assert table.photos == 3
    assert table.mentions["dog"] == 2
    assert table.weight("dog") < table.weight("cat") == table.weight("unheard")


def test_the_script_says_so_and_stops_where_there_is_no_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script.main(["--fit", str(tmp_path), "--data", str(tmp_path)]) == 0
    assert "nothing is measured" in capsys.readouterr().out


def test_it_fits_on_one_folder_and_tests_on_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "DRAWS", 5)
    for name in ("one", "other"):
        _write(tmp_path / name)
    arguments = ["--fit", str(tmp_path / "one"), "--data", str(tmp_path / "other"), "--json"]
    assert script.main(arguments) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["how"] == "fitted on the other folder"
    assert told["tau_c"]["the map"]["tau_c"] > 50
    assert script.main([*arguments[:-1]]) == 0
    assert "the map" in capsys.readouterr().out


def _write(folder: Path) -> None:
    """Descriptions of five things; right ones are rated 4, those of another thing 1."""
    place = folder / "flickr8k-expert"
    place.mkdir(parents=True)
    things = ["dog on grass", "car on a street", "boat on a lake", "skier in snow", "man with a guitar"]
    cases, ratings = [], ["case,rater,aspect,score"]
    for at, own in enumerate(things):
        for other in things:
            name = f"{own}|{other}"
            references = [f"A {own}.", f"There is a {own} here."]
            cases.append({"id": name, "image": f"{at}.jpg", "output": f"A {other}.", "references": references})
            ratings += [f"{name},expert{k},description,{4 if own == other else 1}" for k in range(3)]
    (place / "cases.jsonl").write_text("\n".join(map(json.dumps, cases)), "utf-8")
    (place / "ratings.csv").write_text("\n".join(ratings), "utf-8")


def test_the_committed_map_is_as_good_as_its_file_says() -> None:
    folder = ROOT.parent / "shared" / "data"
    data = script.load(folder)
    if data is None:
        if os.environ.get("CI"):
            pytest.fail(f"CI runs with the shared data, and {folder} does not have it")
        pytest.skip(f"the shared data is not at {folder}")
    every = slice(0, None, 4)  # a quarter is enough to see that file, table and code belong together
    found = [assess_description(text).human_rating for text in data.texts[every]]
    assert None not in found
    assert script.tau_c(np.array(found), data.ratings[every]) > 50


def test_the_features_of_the_file_are_those_of_the_code() -> None:
    assert tuple(feature.name for feature in load_text_rating_map().features) == HUMAN_FEATURES
    assert all(feature.weight > 0 for feature in load_text_rating_map().features)
    assert assess_description(TextInput("A dog.", ("A dog.",))).human_rating is not None
