"""What is chosen is what helps on cases that were not seen; what helps nobody is refused, and the reason is said."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr
from support.calibration import PLAIN, ratings, scores, task

from beholder.errors import UsageError
from beholder.statistics.agreement import agree
from beholder.statistics.calibration import build_document, calibrate
from beholder.statistics.calibration_evaluation import (
    AS_CHOSEN,
    ONE_RATER,
    RAW_JUDGE,
    CandidateEvaluation,
    MapChoice,
    SelectionMeasure,
)
from beholder.statistics.calibration_features import ExtraFeatures, Features, build_features, select_usable
from beholder.statistics.calibration_held_out import predict_out_of_fold
from beholder.statistics.calibration_recipes import (
    CONSTANT_NAME,
    CalibrationRecipe,
    TrainingData,
    assign_folds,
    fit_linear,
)
from beholder.statistics.calibration_task import TaskOptions, build_task, fit_map
from beholder.statistics.data import Column, ColumnKind, Ratings
from beholder.verdicts.calibration_maps import CalibrationMap

CASES = 240


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_noise_is_refused() -> None:
    random = rng()
    judged = scores({"quality": random.uniform(0, 10, CASES), "other": random.uniform(0, 10, CASES)})
    found = calibrate(task(judged, ratings(random.uniform(0, 1, CASES), random)), recipes=PLAIN, draw_count=400)
    assert not found.helps
    assert "quality" in build_document([found], {}, anyway=True)["aspects"]
    assert "constant" in found.why
    assert build_document([found], {})["aspects"] == {}


@pytest.mark.parametrize("measure", list(SelectionMeasure))
def test_noise_is_refused_by_rank_too(measure: SelectionMeasure) -> None:
    refused = 0
    for seed in range(5):
        random = rng(seed)
        judged = scores({"quality": random.uniform(0, 10, 80), "other": random.uniform(0, 10, 80)})
        rated = ratings(random.uniform(0, 1, 80), random)
        refused += not calibrate(task(judged, rated), recipes=PLAIN, draw_count=300, by=measure).helps
    assert refused >= 4


def test_noise_is_not_nearer_than_the_better_constant() -> None:
    """Of 20 photographs whose worth is spread evenly, the mean is often nearer to new ones than the median, which has
    three times its variance; and a map that has learned nothing says the mean. In 400 simulations such a map was surely
    nearer than the median in 9 %, than the nearer of the two in 0.3 %, where 2.5 % would be chance."""
    photo = np.repeat(np.arange(20), 3)
    groups = {"source": [f"photo {one}" for one in photo]}
    nearer = {"median": 0, "better": 0}
    for seed in range(40):
        random = rng(seed)
        worth = np.clip(random.uniform(0, 1, 20)[photo] + random.normal(0, 0.1, 60), 0, 1)
        judged = scores({name: random.uniform(0, 10, 60) for name in ("quality", "other", "more")}, groups)
        evaluation = CandidateEvaluation([task(judged, ratings(worth, random))], PLAIN, 10, seed, 300)
        choices = [evaluation.choose(SelectionMeasure.ERROR, without=fold) for fold in range(10)]
        said = {AS_CHOSEN: evaluation.predict_as_chosen(choices)}
        rivals = {"median": evaluation.predict(MapChoice(CONSTANT_NAME)), "better": evaluation.predict_constant()}
        for name, constant in rivals.items():
            gain = evaluation.score({**said, CONSTANT_NAME: constant})[AS_CHOSEN].constant_gain
            nearer[name] += gain is not None and gain.low is not None and gain.low > 0
    assert nearer["median"] >= 3
    assert nearer["better"] <= 1


@pytest.mark.parametrize("seed", [2, 11, 30, 33, 38])
def test_a_map_must_be_nearer_than_the_better_constant(seed: int) -> None:
    """Those of the simulations above in which a map that learned nothing is surely nearer than judge and median."""
    photo = np.repeat(np.arange(20), 3)
    random = rng(seed)
    worth = np.clip(random.uniform(0, 1, 20)[photo] + random.normal(0, 0.1, 60), 0, 1)
    judged = scores(
        {name: random.uniform(0, 10, 60) for name in ("quality", "other", "more")},
        {"source": [f"photo {one}" for one in photo]},
    )
    found = calibrate(task(judged, ratings(worth, random)), recipes=PLAIN, draw_count=300, seed=seed)
    assert not found.helps


def test_a_good_judge_needs_no_map() -> None:
    random = rng(3)
    truth = random.choice([0.0, 0.25, 0.5, 0.75, 1.0], CASES)
    found = calibrate(
        task(scores({"quality": truth * 10}), ratings(truth, random, noise=0.02)), recipes=PLAIN, draw_count=400
    )
    assert not found.helps
    assert "raw judge" in found.why


def test_of_a_judge_that_is_too_kind_the_offset_is_found() -> None:
    random = rng(1)
    truth = random.uniform(0.1, 0.7, CASES)
    judged = scores({"quality": (truth + 0.25) * 10 + random.normal(0, 0.2, CASES)})
    few = {name: PLAIN[name] for name in ("constant", "offset")}
    found = calibrate(task(judged, ratings(truth, random)), recipes=few, draw_count=400)
    assert found.chosen == "offset"
    assert found.helps
    fitted = found.maps["quality"]
    assert fitted.names == ("quality",)
    assert fitted.predict(Features(("quality",), np.array([[7.5]])))[0] == pytest.approx(0.5, abs=0.03)
    gain = found.rows[AS_CHOSEN].error_gain
    assert gain is not None
    assert gain.low is not None
    assert gain.low > 0.1
    # A map that only moves the judge's number leaves its order alone.
    assert found.rows["offset"].rho == found.rows[RAW_JUDGE].rho
    assert found.rows[CONSTANT_NAME].rho.value is None
    assert found.rows[ONE_RATER].rho.value is not None


def test_a_constant_has_no_order() -> None:
    random = rng(9)
    said = random.uniform(0, 10, 60)
    truth = 0.5 + 0.002 * (said - 5) + random.normal(0, 0.1, 60)  # the judge has some order, and is far off
    few = {name: PLAIN[name] for name in ("constant", "offset")}
    found = calibrate(task(scores({"quality": said}), ratings(truth, random)), recipes=few, draw_count=200)
    assert found.chosen == CONSTANT_NAME
    assert found.rows[RAW_JUDGE].rho.value is not None
    assert (found.rows[AS_CHOSEN].rho.value, found.rows[AS_CHOSEN].rho_gain) == (None, None)
    assert (found.rows[CONSTANT_NAME].rho.value, found.rows[CONSTANT_NAME].rho_gain) == (None, None)


def test_the_order_of_steps_is_measured() -> None:
    random = rng(10)
    truth = random.uniform(0, 1, CASES)
    few = {name: PLAIN[name] for name in ("constant", "isotonic")}
    right = task(scores({"quality": np.clip(truth * 10 + random.normal(0, 3, CASES), 0, 10)}), ratings(truth, random))
    found = calibrate(right, recipes=few, draw_count=200)
    said = predict_out_of_fold(right, PLAIN["isotonic"], assign_folds(right.group_index, 10)).positions(right.scale)
    assert found.rows["isotonic"].rho.value == pytest.approx(spearmanr(said, right.mean).statistic)
    # Of a judge that says the opposite, steps that never fall are one step.
    wrong = task(scores({"quality": 10 - truth * 10}), ratings(truth, random))
    found = calibrate(wrong, recipes=few, draw_count=200)
    assert found.rows["isotonic"].rho.value is None
    assert found.rows[RAW_JUDGE].rho.value == pytest.approx(-1, abs=0.1)


def test_one_rater_is_the_rater_of_agree() -> None:
    random = rng(11)
    truth = random.uniform(0, 1, 60)
    rated = ratings(truth, random, raters=5, noise=0.3)
    values = np.where(random.uniform(size=rated.values.shape) < 0.4, np.nan, np.round(rated.values / 3, 2))
    values[3:, 4] = np.nan  # too few for a ranking of his own
    sparse = Ratings("quality", rated.cases, rated.raters, values)
    judged = scores({"quality": truth * 10})
    found = calibrate(task(judged, sparse), recipes=PLAIN, draw_count=100).rows[ONE_RATER]
    people = agree(judged, {"quality": sparse}).criteria[0].people
    assert found.rho.value == pytest.approx(people["rater_spearman"].value)
    assert found.error.value == pytest.approx(people["rater_mae"].value)


def test_ratings_in_another_order_have_the_same_mean() -> None:
    values = np.array([[0.1, 0.2, 0.3], [0.3, 0.2, 0.1], [0.3, 0.1, 0.2], [0.7, np.nan, np.nan], [np.nan] * 3])
    mean = Ratings("quality", tuple("abcde"), ("x", "y", "z"), values).mean()
    assert len(set(mean[:3].tolist())) == 1
    assert mean[3] == 0.7
    assert np.isnan(mean[4])


def test_several_criteria_together_are_better_than_the_judges_own_number() -> None:
    random = rng(2)
    truth = random.uniform(0, 1, CASES)
    columns = {name: truth * 10 + random.normal(0, 4, CASES) for name in ("quality", "a", "b", "c")}
    found = calibrate(
        task(scores(columns), ratings(truth, random)), recipes=PLAIN, draw_count=400, by=SelectionMeasure.RANK
    )
    assert found.chosen == "linear"
    assert found.helps
    assert found.error_bounds["quality"][0] < 0 < found.error_bounds["quality"][1]


def test_a_map_that_only_learned_who_made_the_image_is_exposed() -> None:
    random = rng(4)
    makers = random.integers(0, 6, CASES)
    worth = np.array([0.1, 0.3, 0.5, 0.6, 0.8, 0.9])[makers]
    tells = np.array([3.0, 9.0, 1.0, 6.0, 4.0, 0.0])[makers]  # a mark that each maker leaves, in no order
    columns = {"quality": random.uniform(0, 10, CASES), "mark": tells, "bend": tells**2, "turn": tells**3}
    groups = {"model": [f"maker {one}" for one in makers], "source": [f"photo {row % 60}" for row in range(CASES)]}
    found = calibrate(task(scores(columns, groups), ratings(worth, random)), recipes=PLAIN, draw_count=400)
    linear, constant = (found.rows[name].error.value for name in ("linear", "constant"))
    assert linear is not None
    assert constant is not None
    assert linear < constant  # across photographs it helps
    assert not found.helps
    assert not found.learned_makers  # what is chosen by makers that it has not seen did not learn them
    honest = columns | {"truth": worth * 10}
    found = calibrate(task(scores(honest, groups), ratings(worth, random), "truth"), recipes=PLAIN, draw_count=400)
    assert not found.learned_makers


def test_of_two_makers_a_map_that_learned_who_made_the_image_is_said_to_have() -> None:
    """Two are too few to choose a map by makers that it has not seen."""
    for seed in range(5):
        random = rng(seed)
        makers = random.integers(0, 2, CASES)
        columns = {"quality": random.uniform(0, 10, CASES), "mark": np.array([3.0, 9.0])[makers]}
        groups = {"model": [f"maker {one}" for one in makers], "source": [f"photo {row % 60}" for row in range(CASES)]}
        judged, worth = scores(columns, groups), np.array([0.25, 0.75])[makers]
        found = calibrate(task(judged, ratings(worth, random)), recipes=PLAIN, draw_count=200)
        assert found.helps  # across photographs it does
        assert found.learned_makers
        assert found.maker_note.endswith(": it learned who made the image.")
        told = build_document([found], {})["aspects"]["quality"]["scores"]
        assert told["learned_makers"] is True


def test_no_case_is_predicted_by_a_map_that_saw_its_group() -> None:
    random = rng(5)
    groups = [f"photo {row % 20}" for row in range(CASES)]
    worth = random.uniform(0, 1, 20)[np.arange(CASES) % 20]
    number = np.array([float(name.split()[1]) for name in groups])
    one_hot = {f"is {photo}": (number == photo) * 10.0 for photo in range(20)}  # learns every photograph by heart
    judged = scores({"quality": random.uniform(0, 10, CASES), **one_hot}, {"source": groups})
    made = task(judged, ratings(worth, random))
    assert not calibrate(made, recipes=PLAIN, draw_count=300).helps
    loose = assign_folds(np.arange(CASES), 10)
    eager = CalibrationRecipe(lambda lesson: fit_linear(lesson, penalties=(1.0,)))
    by_heart = np.abs(predict_out_of_fold(made, eager, loose).values - made.mean).mean()
    held = np.abs(predict_out_of_fold(made, eager, assign_folds(made.group_index, 10)).values - made.mean).mean()
    # Knowing the photograph leaves the noise of three ratings (0.06); not knowing it, the distance from the middle.
    assert by_heart < 0.1
    assert held > 0.95 * np.abs(made.mean - np.median(made.mean)).mean()


@pytest.mark.parametrize(("cases", "nested"), [(60, True), (400, False)])
def test_few_cases_are_divided_again_to_choose_a_map_without_each_fold(cases: int, nested: bool) -> None:
    """With few, choosing by maps that saw the fold would seem to help where nothing does; with many it is the same."""
    random = rng(12)
    truth = random.uniform(0, 1, cases)
    seen: list[int] = []

    def fit(data: TrainingData) -> CalibrationMap:
        seen.append(len(data.ratings))
        return fit_linear(data)

    recipes = {"constant": PLAIN["constant"], "watched": CalibrationRecipe(fit)}
    calibrate(task(scores({"quality": truth * 10}), ratings(truth, random)), recipes=recipes, draw_count=100)
    assert cases * 9 // 10 in seen
    assert (cases * 9 // 10 * 2 // 3 in seen) == nested
    assert len(seen) == (10 + 30 + 1 if nested else 10 + 1)


def test_aspects_with_too_few_ratings_each_are_decided_together() -> None:
    random = rng(6)
    cases, tasks = 40, []
    for _ in range(5):
        truth = random.uniform(0.1, 0.7, cases)
        judged = scores({"quality": (truth + 0.15) * 10 + random.normal(0, 2, cases)})
        tasks.append(task(judged, ratings(truth, random)))
    alone = [calibrate(one, recipes=PLAIN, draw_count=300).helps for one in tasks]
    found = calibrate(*tasks, recipes=PLAIN, draw_count=300)
    assert not all(alone)
    assert found.helps


def test_a_feature_that_most_cases_lack_or_all_share_is_left_out_by_name() -> None:
    random = rng(7)
    rare = np.where(np.arange(CASES) % 3 == 0, random.uniform(0, 10, CASES), np.nan)
    some = np.where(np.arange(CASES) % 3 != 0, random.uniform(0, 10, CASES), np.nan)
    judged = scores({"quality": random.uniform(0, 10, CASES), "rare": rare, "same": np.full(CASES, 4.0), "some": some})
    found = select_usable(build_features(judged, judged.columns["quality"]))
    assert found.left_out == {"rare": "missing in 67% of the cases", "same": "the same for all cases"}
    filled = found.fill_missing(build_features(judged, judged.columns["quality"]).values)
    assert filled[0, 1] == np.nanmedian(some)
    assert not np.isnan(filled).any()


def test_min_of_two_criteria_brings_their_mean_along() -> None:
    judged = scores({"a": np.array([1.0, 5.0]), "b": np.array([3.0, 4.0])})
    least = Column("min(a, b)", ColumnKind.CRITERION, np.array([1.0, 4.0]), (0.0, 10.0))
    found = build_features(judged, least, ExtraFeatures({"case 1": {"pixels.x": 2.0}}))
    assert found.names == ("a", "b", "min(a, b)", "mean(a, b)", "pixels.x")
    assert found.values[1].tolist() == [5.0, 4.0, 4.0, 4.5, 2.0]
    assert np.isnan(found.values[0, 4])


def test_too_little_to_learn_from_is_said() -> None:
    judged = scores({"quality": np.arange(9.0)})
    with pytest.raises(UsageError, match="Only 9 cases"):
        task(judged, ratings(np.linspace(0, 1, 9), rng()))
    judged = scores({"quality": np.arange(20.0) / 2}, {"source": ["one photo"] * 20})
    with pytest.raises(UsageError, match="All cases are of one group"):
        calibrate(task(judged, ratings(np.linspace(0, 1, 20), rng())), recipes=PLAIN)
    beyond = Ratings("quality", tuple(f"case {row}" for row in range(20)), ("r",), np.linspace(0, 7, 20)[:, None])
    with pytest.raises(UsageError, match="do not fit a scale"):
        build_task(judged, beyond, judged.columns["quality"], TaskOptions(scale=(0.0, 1.0)))


def test_features_are_found_by_name_wherever_they_stand() -> None:
    random = rng(8)
    truth = random.uniform(0, 1, CASES)
    columns = {name: truth * 10 + random.normal(0, 4, CASES) for name in ("quality", "a", "b")}
    made = fit_map(task(scores(columns), ratings(truth, random)), PLAIN["linear"])
    plain = Features(("quality", "a", "b"), np.array([[1.0, 2.0, 3.0]]))
    turned = Features(("b", "new", "quality", "a"), np.array([[3.0, 99.0, 1.0, 2.0]]))
    assert made.predict(turned) == made.predict(plain)
    lacking = made.predict(Features(("quality", "a"), np.array([[1.0, 2.0]])))
    gap = made.predict(Features(("quality", "a", "b"), np.array([[1.0, 2.0, np.nan]])))
    assert lacking == gap
