"""`make alignment`: its statistics, its fit, what it keeps apart, and what it says where there is no data."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import cv2
import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from support.instruments import jpeg, photo

from beholder.instruments.human_ratings import parse_rating_map
from beholder.statistics.calibration_held_out import INTERVAL_COVERAGE, interval_ends

HERE = Path(__file__).parents[2] / "benchmarks" / "alignment"


def script(name: str) -> ModuleType:
    sys.path.insert(0, str(HERE))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(HERE))


agreement, fitting, imagenhub, edits, audit, run = (
    script(name) for name in ("agreement", "fitting", "imagenhub", "edits", "audit", "run")
)

lists = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=3, max_size=40)


@given(lists)
def test_rho_is_spearmans(points: list[tuple[int, int]]) -> None:
    one, other = np.array(points, float).T
    ours = agreement.spearman(one, other)
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        assert ours == 0
    else:
        assert ours == pytest.approx(scipy.stats.spearmanr(one, other).statistic)


def test_a_case_without_a_value_is_left_out() -> None:
    assert agreement.spearman(np.array([1.0, 2, 3, np.nan]), np.array([1.0, 2, 3, 0])) == pytest.approx(1)


def test_the_ceiling_is_each_rater_against_the_others() -> None:
    raters = np.array([[0, 0, 1], [0.5, 0.5, 0.5], [1, 1, 0], [1, 0.5, 0.5], [0, 0.5, 0]])
    one_by_one = [
        scipy.stats.spearmanr(raters[:, one], np.delete(raters, one, axis=1).mean(axis=1)).statistic for one in range(3)
    ]
    assert agreement.ceiling(raters) == pytest.approx(np.mean(one_by_one))


def test_draws_keep_the_edits_of_a_photograph_together() -> None:
    sources = np.array(["a", "a", "b", "c", "c", "c"])
    for drawn in agreement.draws(sources, count=50):
        counts = {one: np.bincount(drawn, minlength=6)[sources == one] for one in "abc"}
        assert all(len(set(found)) == 1 for found in counts.values())
        assert sum(int(found[0]) for found in counts.values()) == 3


def recipe(curved: bool, count: int = 3) -> object:
    return fitting.Recipe("realism", "PQ", tuple(f"a.f{n}" for n in range(count)), 1.0, curved)


@pytest.mark.parametrize("curved", [False, True])
def test_the_fit_is_applied_as_the_judge_applies_it(curved: bool) -> None:
    random = np.random.default_rng(0)
    values, ratings = random.normal(size=(80, 3)), random.random(80)
    values[:40, 1] = 0  # many of a value
    fitted = fitting.fit(recipe(curved), values, ratings)
    by_judge = [fitted.rating(dict(zip(("a.f0", "a.f1", "a.f2"), row, strict=True))) for row in values.tolist()]
    assert fitting.apply(fitted, values) == pytest.approx(np.array(by_judge))
    assert curved == any(one.curved for one in fitted.features)


def test_a_bend_that_is_there_is_found() -> None:
    random = np.random.default_rng(1)
    values = random.normal(size=(400, 1))
    ratings = 0.5 + 0.1 * values[:, 0] ** 2
    straight, bent = (fitting.fit(recipe(curved, 1), values, ratings) for curved in (False, True))
    assert agreement.spearman(fitting.apply(bent, values), ratings) > 0.95
    assert abs(agreement.spearman(fitting.apply(straight, values), ratings)) < 0.3


def test_what_is_left_out_is_not_seen() -> None:
    """A measurement that names the photograph foretells its rating only to a map that has seen it."""
    sources = np.repeat([f"s{n:02}" for n in range(20)], 6)
    models = np.tile(["one", "two", "three"], 40)
    ratings = np.repeat(np.random.default_rng(2).random(20), 6)
    values = (sources[:, None] == np.unique(sources)).astype(float)
    named = recipe(False, 20)
    seen = fitting.without_model(named, values, ratings, models)
    unseen = fitting.without_source(named, values, ratings, sources)
    neither = fitting.without_both(named, values, ratings, sources, models)
    assert agreement.spearman(seen, ratings) > 0.9
    assert agreement.spearman(unseen, ratings) < 0.1
    assert agreement.spearman(neither, ratings) < 0.1


def test_the_interval_holds_four_in_five_of_new_photographs_in_each_third() -> None:
    """Errors of one photograph are alike, and they grow with the prediction. The bounds are those of theory: 80 %, and
    1.8 places among the photographs more where errors of one photograph are not alike at all."""
    known, simulations = 49, 60
    shares: list[list[float]] = [[], [], []]
    for seed in range(simulations):
        random = np.random.default_rng(seed)
        photograph = np.repeat(np.arange(known + 60), 8)
        sources = np.array([f"s{one:03}" for one in photograph])
        said = random.random(len(sources))
        away = 0.5 * random.normal(size=known + 60)[photograph] + random.normal(size=len(sources))
        ratings = said + (0.1 + 0.3 * said) * away
        seen = photograph < known
        _, bands = fitting.intervals(said[seen], ratings[seen], sources[seen])
        assert len(bands) == 3
        low, high = interval_ends(bands, said[~seen])
        inside = (ratings[~seen] >= low) & (ratings[~seen] <= high)
        third = np.searchsorted([bands[0].up_to, bands[1].up_to], said[~seen])
        for number, share in enumerate(shares):
            share.append(float(inside[third == number].mean()))
    for share in shares:
        error = np.std(share) / np.sqrt(simulations)
        assert INTERVAL_COVERAGE - 3 * error < np.mean(share) < INTERVAL_COVERAGE + 1.8 / known + 3 * error


def test_photographs_that_are_tested_are_not_in_their_own_intervals(tmp_path: Path) -> None:
    """Whatever people say of the tested edits, the interval that is laid around a prediction is the same."""
    first, second = (imagenhub.load(ratings_folder(tmp_path / name, 10)) for name in ("one", "other"))
    values = [np.random.default_rng(one).random((len(first), 14)) for one in range(2)]
    told = []
    for people in (0.0, 1.0):
        changed = imagenhub.Edits(tuple(replace(row, ratings={"PQ": (people,) * 3}) for row in second.rows))
        tested = changed, values[1], values[1][:, 0]
        told.append(edits.report(edits.REALISM, (first, values[0]), tested, same=False)["interval"])
    assert told[0] == told[1]
    turned = enumerate(first.rows)
    other = imagenhub.Edits(tuple(replace(row, ratings={"PQ": (number % 2 / 2,) * 3}) for number, row in turned))
    assert edits.report(edits.REALISM, (other, values[0]), tested, same=False)["interval"] != told[0]


def test_an_effect_is_that_within_strata() -> None:
    """Flagged cases that lie in a stratum with lower ratings anyway are no effect."""
    strata = np.repeat([0.0, 1.0], 50)
    ratings = strata.copy()
    flagged = np.concatenate([np.arange(50) < 40, np.arange(50) < 10])
    assert ratings[flagged].mean() < ratings[~flagged].mean()
    assert audit.effect(flagged, ratings, strata)[0] == 0
    assert audit.effect(flagged, ratings - 0.25 * flagged, strata)[0] == pytest.approx(-0.25)
    assert np.isnan(audit.effect(np.ones(100, bool), ratings, strata)[0])


def test_a_threshold_flags_a_quarter_and_says_how_sure_its_effect_is() -> None:
    values = np.arange(200.0)
    ratings = np.where(values < 50, 0.2, 0.8)
    flag, sure = audit.chosen("a.one", True, values, ratings, np.zeros(200))
    assert flag.raised(values).sum() == 50
    assert sure > 5
    upper, worse = audit.chosen("a.one", False, values, ratings, np.zeros(200))
    assert upper.raised(values).tolist() == (values >= 150).tolist()
    assert worse < 0
    assert not flag.raised(np.array([np.nan])).any()


def ratings_folder(folder: Path, photographs: int = 6) -> Path:
    """A small set in the layout of ImagenHub: the more of a photo is painted over, the lower people rate it."""
    place = folder / "imagenhub"
    (place / "images").mkdir(parents=True)
    cases, ratings, said = [], ["case,rater,aspect,score"], []
    random = np.random.default_rng(len(str(folder)))
    for number in range(photographs):
        before = np.roll(photo(("coffee", "astronaut", "chelsea")[number % 3], 160, 120), 11 * number, axis=1)
        (place / "images" / f"{number}.jpg").write_bytes(jpeg(before))
        for model, strength in (("Mild", 0.2), ("Wild", 0.6), ("Worst", 0.9)):
            case = f"text/{model}/{number}"
            after = before.copy()
            height = round(strength * 120 * random.uniform(0.7, 1.1))
            after[:height] = cv2.GaussianBlur(before, (0, 0), 1 + 5 * strength)[:height]
            (place / "images" / f"{number}-{model}.jpg").write_bytes(jpeg(after))
            cases.append({
                "id": case, "task": "text", "model": model, "source": f"{folder.name}{number}", "instruction": "x",
                "input": f"images/{number}.jpg", "edited": f"images/{number}-{model}.jpg",
            })  # fmt: skip
            for rater in ("rater1", "rater2", "rater3"):
                score = float(np.clip(round(2 * (1 - strength + random.normal(0, 0.2))) / 2, 0, 1))
                ratings += [f"{case},{rater},{aspect},{score}" for aspect in ("SC", "PQ")]
            said += [
                {"case": case, "judge": "gpt4o_0shot", "aspect": "SC", "scores": [8, 5]},
                {"case": case, "judge": "gpt4o_0shot", "aspect": "PQ", "scores": [7] if number == 1 else [6, 9]},
            ]
    (place / "cases.jsonl").write_text("\n".join(map(json.dumps, cases)), "utf-8")
    (place / "judge_scores.jsonl").write_text("\n".join(map(json.dumps, said)), "utf-8")
    (place / "ratings.csv").write_text("\n".join(ratings), "utf-8")
    return folder


def test_edits_are_read_with_what_was_said_of_them(tmp_path: Path) -> None:
    found = imagenhub.load(ratings_folder(tmp_path / "one", 2))
    assert len(found) == 6
    assert found.raters("PQ").shape == (6, 3)
    assert found.judge("PQ").tolist() == [6, 6, 6, 7, 7, 7]
    assert np.isnan(found.number("PQ", 1)).tolist() == [False] * 3 + [True] * 3
    assert imagenhub.load(tmp_path / "nowhere") is None


def test_one_folder_is_cross_validated_and_two_are_fitted_and_tested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(edits, "WEIGHTS", tmp_path / "weights")
    (tmp_path / "weights").mkdir()
    one, two = ratings_folder(tmp_path / "one"), ratings_folder(tmp_path / "two", 4)
    assert edits.main(["--fit", str(one), "--data", str(one), "--json", "--write"]) == 0
    same = json.loads(capsys.readouterr().out)["realism"]
    assert same["how"].startswith("cross-validated")
    assert same["scores"]["the map"]["rho"] > 0.4
    assert {"leave one model out", "neither model nor photograph seen"} <= set(same["scores"])
    for name in ("realism", "kept"):
        written = parse_rating_map((tmp_path / "weights" / f"{name}.json").read_text("utf-8"))
        interval = json.loads((tmp_path / "rating_intervals.json").read_text("utf-8"))[name]
        assert (interval["low"], interval["high"]) == (written.low, written.high)
        assert written.name == name
        assert all(one.knots for one in written.features)
    assert edits.main(["--fit", str(one), "--data", str(two), "--json"]) == 0
    other = json.loads(capsys.readouterr().out)["realism"]
    assert other["how"] == "fitted on 18 other edits (6 photographs)"
    assert other["cases"] == 12


def test_the_audit_shows_its_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(ratings_folder(tmp_path / "one"))
    assert audit.main(["--fit", folder, "--data", folder, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert all(len(one["flags"]) == 2 for one in found["chosen"])
    assert found["chosen"][0]["effect"] < 0
    assert found["chosen"][0]["sure"] >= max(one["sure"] for one in found["chosen"][1:])
    lost = next(one for one in found["chosen"][1:] if one["flags"][0].startswith("detail_lost"))
    assert lost["effect"] < 0
    names = [one["flag"].split()[0] for one in found["fixed"][: len(audit.FLAGS) + 1]]
    assert names == [str(flag).split()[0] for flag in audit.FLAGS] + ["any"]


def test_without_data_it_says_so_and_that_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(edits, "DEFAULT", tmp_path / "nowhere")
    assert run.main([]) == 0
    assert "No human ratings to measure against" in capsys.readouterr().err
    assert run.main(["--data", str(tmp_path)]) == 2
