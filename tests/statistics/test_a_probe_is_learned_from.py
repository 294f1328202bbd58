"""`calibrate` learns from the answers to a probe as from other numbers; a case without one is predicted too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.probes import edit_case, judge_both

from beholder import Verdict, calibrate, judge
from beholder.verdicts.calibration import apply_calibration, load_calibration

COUNT = 160
INTACT = "measured.probe.intact"


@pytest.fixture(scope="module")
def verdicts() -> list[Verdict]:
    """A judge that calls nearly every edit a success, and sees on the crop which of them are not. One edit in eight has
    no region to show."""
    base = judge("edit-fidelity", edit_case(), judge=judge_both(), options={"probe": True, "audit": False})
    rng = np.random.default_rng(3)
    made = []
    for number in range(COUNT):
        criteria = {key: replace(one, score=int(rng.integers(5, 8))) for key, one in base.criteria.items()}
        intact = int(rng.integers(0, 11))
        measurements = {**base.measurements, "probe.intact": {"value": intact, "unit": "of 10", "sentence": "seen"}}
        kept = measurements if number % 8 else {}
        made.append(replace(base, case=f"c{number}", criteria=criteria, measurements=kept))
    return made


def probe_of(verdict: Verdict) -> float | None:
    reading = verdict.measurements.get("probe.intact")
    return float(reading["value"]) if isinstance(reading, dict) else None


@pytest.fixture(scope="module")
def learned(verdicts: list[Verdict], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("calibration")
    (folder / "verdicts.jsonl").write_text("\n".join(json.dumps(one.to_dict()) for one in verdicts))
    rng = np.random.default_rng(4)

    def rate() -> Iterator[dict[str, object]]:
        for verdict in verdicts:
            intact = probe_of(verdict)
            truth = 1 + 0.6 * (5 if intact is None else intact)
            for rater in "abc":
                said = int(np.clip(np.round(truth + rng.normal(0, 0.5)), 1, 7))
                yield {"case": verdict.case, "rater": rater, "aspect": "completeness", "score": said}

    result = calibrate(
        scores=folder / "verdicts.jsonl",
        ratings=list(rate()),
        rating_scale="1..7",
        draws=200,
        try_=["constant", "line", "linear"],
    )
    [choice] = result.choices
    assert choice.chosen == "linear"
    assert result.helps
    place = folder / "calibration.json"
    result.save(place)
    return place


def test_a_probe_is_an_input_of_the_map_and_raises_what_it_predicts(learned: Path, verdicts: list[Verdict]) -> None:
    calibration = load_calibration(learned)
    inputs = {one.name: one for one in calibration.aspects["completeness"].inputs}
    assert INTACT in inputs
    assert inputs[INTACT].missing == pytest.approx(1 / 8)
    rated = {one.case: apply_calibration(calibration, [one])[0].calibrated["completeness"].value for one in verdicts}
    seen = [(probe, rated[one.case]) for one in verdicts if (probe := probe_of(one)) is not None]
    low = [value for probe, value in seen if probe <= 2 and value is not None]
    high = [value for probe, value in seen if probe >= 8 and value is not None]
    assert np.mean(high) - np.mean(low) > 3


def test_a_case_without_a_region_is_imputed_and_says_so(learned: Path, verdicts: list[Verdict]) -> None:
    calibration = load_calibration(learned)
    [with_probe] = apply_calibration(calibration, [verdicts[1]])
    [without] = apply_calibration(calibration, [verdicts[0]])
    assert INTACT not in with_probe.calibrated["completeness"].filled
    assert without.calibrated["completeness"].value is not None
    assert INTACT in without.calibrated["completeness"].filled
