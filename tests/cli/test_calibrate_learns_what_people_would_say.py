"""`beholder calibrate`: learned from a run or from files, written only where it helps, applied everywhere."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from support.ledger import case, entry, run_record, unscored, verdict

from beholder import Run, score
from beholder.bands import IntervalBand
from beholder.ledger.ledger import Ledger
from beholder.testing.base import Received
from beholder.testing.server import JudgeServer
from beholder.verdicts.verdict import AssertionResult, CriterionResult

CASES = 60
KEYS = ("unchanged_regions", "global_consistency", "identity_preservation")
WORDS = " ".join(["seen"] * 20)
FEW = "--try linear --try offset --draws 200"


def worth(number: int) -> float:
    """What a case is worth, 0 to 1."""
    return (number * 37 % 100) / 100


@pytest.fixture
def book(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of a judge that is too kind by two points, people who rate 1 to 7, and images for each case."""
    monkeypatch.delenv("BEHOLDER_LEDGER", raising=False)
    rng = np.random.default_rng(0)
    rated = ["case,rater,aspect,score"]
    with Ledger.open(folder / "beholder.db", create=True) as ledger:
        ledger.start(run_record("aaa111", name="kind", total=CASES))
        entries = []
        for number in range(CASES):
            true = 1 + 5 * worth(number)
            said = {key: float(np.clip(round(true + 2 + rng.normal(0, 0.5)), 1, 7)) for key in KEYS}
            made = verdict(number, criteria={key: CriterionResult(one, one, (1, 7), 1) for key, one in said.items()})
            images = {role: str(picture(folder, number, role)) for role in ("input", "edited")}
            groups = {"model": f"model {number % 3}", "source": f"photo {number // 2}"}
            entries.append(entry(number, made, case=case(made, images=images, groups=groups)))
            for rater in "abc":
                rating = int(np.clip(round(true + rng.normal(0, 0.4)), 1, 7))
                rated.append(f"{made.case},{rater},Unchanged regions,{rating}")
        refused = unscored(CASES)
        ledger.write("aaa111", [*entries, entry(CASES, refused, case=case(refused))])
    (folder / "ratings.csv").write_text("\n".join(rated) + "\n", "utf-8")
    return folder


def picture(folder: Path, number: int, role: str) -> Path:
    """The edited one is the more blurred the less the case is worth."""
    path = folder / f"{role}{number}.png"
    pixels = np.random.default_rng(number).integers(0, 256, (48, 64, 3), np.uint8)
    if role == "edited":
        pixels = np.asarray(cv2.GaussianBlur(pixels, (0, 0), 0.3 + 2 * (1 - worth(number))), np.uint8)
    cv2.imwrite(str(path), pixels)
    return path


def test_a_run_is_calibrated_shown_and_exported(run: Any, book: Path) -> None:
    done = run(f"calibrate aaa111 --ratings ratings.csv -o c.json {FEW}")
    assert done.code == 0, done.err
    assert "Unchanged regions (judge: unchanged_regions)" in done.out
    assert "60 cases in 30 groups, 3 raters" in done.out
    assert "nearer to people than the raw judge and than a constant" in done.out
    assert "Wrote c.json for Unchanged regions; apply it with --calibration c.json." in done.out
    saved = json.loads((book / "c.json").read_text("utf-8"))
    assert saved["made"]["judges"] == ["openai:gpt-5-mini"]
    assert saved["made"]["rubrics"] == {"edit-preservation": "1.0"}
    assert saved["made"]["from"] == "run aaa111 (kind)"
    assert saved["aspects"]["Unchanged regions"]["scale"] == [1.0, 7.0]
    told = saved["aspects"]["Unchanged regions"]["scores"]
    assert told["cases"] == CASES
    for name in ("maker unseen", "neither maker nor photograph seen"):
        assert name in done.out
        assert told[name.replace(" ", "_")][told["chosen"]]["error"]["value"] > 0
    assert f"of {told['chosen']} is" in done.out
    assert "where it has seen neither the maker nor the photograph" in done.out

    shown = json.loads(run("show aaa111 --calibration c.json --json").out)
    people = shown["rubrics"]["edit-preservation"]["calibrated"]["Unchanged regions"]
    assert people["cases"] == CASES
    raw = shown["rubrics"]["edit-preservation"]["criteria"]["unchanged_regions"]["score"]
    assert people["mean"] == pytest.approx(1 + 5 * np.mean([worth(n) for n in range(CASES)]), abs=0.15)
    assert raw > people["mean"] + 1
    assert "Unchanged regions, calibrated" in run("show aaa111 --calibration c.json --by model").out
    card = run("show aaa111 photo-00003/model-a --calibration c.json").out
    assert "people would say" in card
    assert "the judge said" in card
    rows = list(csv.DictReader(io.StringIO(run("export aaa111 --calibration c.json").out)))
    for row in rows[:CASES]:
        value, low, high = (float(row[f"Unchanged regions.calibrated{end}"]) for end in ("", "_low", "_high"))
        assert 1 <= low <= value <= high <= 7
    assert rows[CASES]["Unchanged regions.calibrated"] == ""
    # Without it nothing is said, and nothing was written into the ledger.
    assert "calibrated" not in run("export aaa111").out.splitlines()[0]


def test_the_pixels_are_learned_from_and_measured_again(run: Any, book: Path) -> None:
    done = run(f"calibrate aaa111 --ratings ratings.csv --measure -o c.json {FEW}")
    assert done.code == 0, done.err
    names = [one["name"] for one in json.loads((book / "c.json").read_text())["aspects"]["Unchanged regions"]["inputs"]]
    assert "pixels.structure.ssim" in names
    (book / "edited7.png").write_bytes(b"no picture")
    done = run("export aaa111 --calibration c.json --to jsonl")
    assert "2 of 61 cases could not be measured" in done.err  # the one that was refused never had images
    verdicts = [json.loads(line) for line in done.out.splitlines()]
    said = [one["calibrated"]["Unchanged regions"] for one in verdicts if one["outcome"] == "scored"]
    assert [one["value"] is None for one in said].count(True) == 1
    assert "is missing here, which the map needs" in said[7]["why"]


def test_an_assertion_is_learned_as_that_of_its_style(run: Any, book: Path) -> None:
    rng = np.random.default_rng(3)
    with Ledger.open(book / "beholder.db", create=True) as ledger:
        for run_id, style in (("ccc333", "Anime"), ("ddd444", "Oil")):
            ledger.start(run_record(run_id, name=style, total=CASES))
            entries = []
            for number in range(CASES):
                asked = AssertionResult("A1", "Is it?", "yes" if worth(number) + rng.normal(0, 0.1) > 0.5 else "no")
                score = float(np.clip(round(3 + 5 * worth(number) + rng.normal(0, 1)), 1, 7))
                criteria = {"unchanged_regions": CriterionResult(score, score, (1, 7), 1, assertions=(asked,))}
                made = replace(verdict(number, criteria=criteria), style=style)
                entries.append(entry(number, made, case=case(made, groups={"source": f"photo {number // 2}"})))
            ledger.write(run_id, entries)
    assert run("calibrate ccc333 --ratings ratings.csv --try linear -o c.json --draws 200").code == 0
    saved = json.loads((book / "c.json").read_text("utf-8"))
    assert saved["made"]["styles"] == ["Anime"]
    names = [one["name"] for one in saved["aspects"]["Unchanged regions"]["inputs"]]
    assert "Anime/A1" in names
    assert "A1" not in names
    said = [json.loads(line) for line in run("export ddd444 --to jsonl --calibration c.json").out.splitlines()]
    why = "it was fitted for the style Anime, and this is Oil"
    assert all(one["calibrated"]["Unchanged regions"]["why"] == why for one in said)
    said = [json.loads(line) for line in run("export ddd444 --to jsonl --calibration c.json --anyway").out.splitlines()]
    assert all(one["calibrated"]["Unchanged regions"]["filled"] == ["Anime/A1"] for one in said)
    said = [json.loads(line) for line in run("export ccc333 --to jsonl --calibration c.json").out.splitlines()]
    assert all(one["calibrated"]["Unchanged regions"]["value"] is not None for one in said)


def test_what_does_not_help_is_not_written(run: Any, book: Path) -> None:
    rng = np.random.default_rng(1)
    lines = ["case,rater,aspect,score"]
    lines += [f"photo-{n:05d}/model-a,{r},unchanged_regions,{rng.integers(1, 8)}" for n in range(CASES) for r in "ab"]
    (book / "noise.csv").write_text("\n".join(lines), "utf-8")
    done = run(f"calibrate aaa111 --ratings noise.csv -o c.json {FEW}")
    assert done.code == 1
    assert "Not saved: " in done.out
    assert "Nothing was written: no map is worth having." in done.out
    assert not (book / "c.json").exists()
    told = json.loads(run(f"calibrate aaa111 --ratings noise.csv -o c.json --json {FEW}").out)
    assert told["written"] is None
    assert told["aspects"][0]["helps"] is False
    done = run(f"calibrate aaa111 --ratings noise.csv -o c.json --anyway {FEW}")
    assert done.code == 1
    assert "Written although no better than without it: unchanged_regions." in done.out
    assert json.loads((book / "c.json").read_text("utf-8"))["aspects"]["unchanged_regions"]["scores"]["helps"] is False


def test_plain_files_do_as_well_as_a_run(run: Any, book: Path) -> None:
    rows = ["case,judge,aspect,score"]
    features = ["case,sharp,word"]
    rng = np.random.default_rng(2)
    for number in range(CASES):
        name = f"photo-{number:05d}/model-a"
        rows += [f"{name},mine,looks,{5 + 3 * worth(number) + rng.normal()}", f"{name},theirs,looks,5"]
        features.append(f"{name},{worth(number) if number % 5 else ''},text")
    (book / "scores.csv").write_text("\n".join(rows), "utf-8")
    (book / "features.csv").write_text("\n".join(features), "utf-8")
    cases = []
    for number in range(CASES):
        images = {role: f"{role}{number}.png" for role in ("input", "edited")}
        cases.append({"id": f"photo-{number:05d}/model-a", "source": f"photo {number // 2}", **images})
    (book / "cases.jsonl").write_text("\n".join(map(json.dumps, cases)), "utf-8")
    given = "calibrate --scores scores.csv --ratings ratings.csv --cases cases.jsonl --map 'Unchanged regions=looks'"
    assert "say which (--judge or judge=): mine, theirs" in run(f"{given} {FEW}").err
    done = run(
        f"{given} --judge mine --features features.csv --measure --scale 0..10 --rating-scale 1..7 -o c.json {FEW}"
    )
    assert done.code == 0, done.err
    saved = json.loads((book / "c.json").read_text("utf-8"))
    assert saved["made"]["judges"] == ["mine"]
    names = {one["name"]: one["missing"] for one in saved["aspects"]["Unchanged regions"]["inputs"]}
    assert names["looks"] == 0
    assert names["given.sharp"] == pytest.approx(0.2)
    assert "given.word" not in names


def test_of_judges_with_one_name_the_file_says_which(run: Any, book: Path) -> None:
    for folder in ("x", "y"):
        (book / folder).mkdir()
        cases = [f"photo-{number:05d}/model-a,gpt,looks,{5 + 4 * worth(number)}" for number in range(CASES)]
        (book / folder / "s.csv").write_text("\n".join(["case,judge,aspect,score", *cases]), "utf-8")
    given = f"calibrate --scores x/s.csv --scores y/s.csv --ratings ratings.csv --map 'Unchanged regions=looks' {FEW}"
    scales = "--scale 0..10 --rating-scale 1..7"
    said = run(f"{given} {scales} --judge gpt").err
    assert "'gpt' is the name of several judges here; say which" in said
    assert "gpt (x/s.csv), gpt (y/s.csv)" in said
    assert "'gpd' is the name of no judge here; say which" in run(f"{given} {scales} --judge gpd").err
    assert run(f"{given} {scales} --judge 'gpt (x/s.csv)' -o c.json").code == 0
    assert json.loads((book / "c.json").read_text("utf-8"))["made"]["judges"] == ["gpt"]


def test_a_run_a_judge_and_a_score_apply_it(run: Any, book: Path, server: JudgeServer) -> None:
    assert run(f"calibrate aaa111 --ratings ratings.csv --measure -o c.json {FEW}").code == 0
    factors = {key: {"score": 6, "justification": " ".join(["seen"] * 20)} for key in KEYS}
    server.default = json.dumps({"online_factor_results": factors})
    asked = f"--judge openai:gpt-5-mini --base-url {server.openai_url} --calibration c.json"
    done = run(f"judge edit-preservation input1.png edited1.png --set 'instruction=make it red' --json {asked}")
    assert done.code == 0
    alone = json.loads(done.out)["calibrated"]["Unchanged regions"]
    assert alone["raw"] == 6
    misfit = f"judge edit-preservation input1.png edited1.png --set 'instruction=make it red' {asked}"
    assert run(misfit.replace("gpt-5-mini", "gpt-5-nano")).code == 3
    assert alone["low"] <= alone["value"] <= alone["high"]
    row = {"id": "c1", "input": "input1.png", "edited": "edited1.png", "instruction": "make it red"}
    (book / "cases.jsonl").write_text(json.dumps(row), "utf-8")
    priced = "--price-input 1 --price-output 1"
    done = run(f"run --cases cases.jsonl --rubric edit-preservation --ledger new.db --quiet {priced} {asked}")
    assert done.code == 0, done.err
    assert json.loads(run("export latest --ledger new.db --to jsonl").out)["calibrated"]["Unchanged regions"] == alone
    assert "Unchanged regions, calibrated" in run("show latest --ledger new.db").out
    # Recorded answers come without images: what the map needs of them is missing, and that is said.
    line = {"case": "c1", "answer": {"online_factor_results": factors}, "judge": "openai:gpt-5-mini"}
    (book / "answers.jsonl").write_text(json.dumps(line), "utf-8")
    done = run("score answers.jsonl --rubric edit-preservation --calibration c.json --json")
    said = json.loads(done.out)["calibrated"]["Unchanged regions"]
    assert said["raw"] == 6
    assert "is missing here, which the map needs" in said["why"]
    done = run("score answers.jsonl --rubric edit-preservation --calibration c.json")
    assert "not calibrated, 1: " in done.out
    assert done.code == 3
    assert run("score answers.jsonl --rubric edit-preservation").code == 0
    # With the case file they can be measured, and an answer that lacks a criterion loses only what that one answers.
    measured = "--rubric edit-preservation --calibration c.json --cases cases.jsonl --measure --json"
    done = run(f"score answers.jsonl {measured}")
    assert json.loads(done.out)["calibrated"]["Unchanged regions"] == alone
    short = {"online_factor_results": {key: factors[key] for key in KEYS[:2]}}
    (book / "answers.jsonl").write_text(json.dumps(line | {"answer": short}), "utf-8")
    found = json.loads(run(f"score answers.jsonl {measured}").out)
    assert (found["outcome"], found["score"]) == ("invalid", None)
    people = found["calibrated"]["Unchanged regions"]
    assert people["value"] is not None
    assert "identity_preservation" in people["filled"]
    shown = " ".join(run(f"score answers.jsonl {measured.removesuffix(' --json')}").out.split())
    assert "calibrated with the median in place of what was missing: " in shown
    assert "identity_preservation in 1" in shown
    card = " ".join(
        run(f"score answers.jsonl {measured.replace('--json', '--format card')}").out.replace("│", "").split()
    )
    assert "missing here, taken as in the median case" in card
    assert "on the images of a case file" in run("score answers.jsonl --rubric edit-preservation --measure").err
    (book / "edited1.png").write_bytes(b"no picture")
    for words in (measured, measured.removesuffix(" --json")):
        assert "1 of 1 cases could not be measured:\n  c1: " in run(f"score answers.jsonl {words}").err
    result = score("answers.jsonl", "edit-preservation", calibration="c.json", cases="cases.jsonl", measure=True)
    assert (result.summary.measured, list(result.summary.unmeasured)) == (0, ["c1"])
    assert run(f"calibrate aaa111 --ratings ratings.csv -o plain.json {FEW}").code == 0
    done = run("score answers.jsonl --rubric edit-preservation --calibration plain.json")
    assert "Unchanged regions, calibrated" in done.out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--for luck", "--for is one of error, rank"),
        ("--try magic", "There is no map 'magic' to try; there are constant, offset"),
        ("--aspect nothing", "Nobody rated the aspect 'nothing'"),
        ("--group nothing", "in a group 'nothing'"),
        ("--under-test nothing", "in a group 'nothing'"),
        ("--features none.csv", "none.csv"),
        ("--judge openai:gpt-5-mini", "A judge is chosen of files of scores (--scores or scores=)"),
        ("latest --judge kind", "A judge is chosen of files of scores (--scores or scores=)"),
    ],
)
def test_wrong_use_is_one_sentence(run: Any, book: Path, words: str, says: str) -> None:
    done = run(f"calibrate aaa111 --ratings ratings.csv {words}")
    assert done.code == 2
    assert says in done.err
    assert "Traceback" not in done.err


def test_a_suite_may_name_a_calibration(run: Any, book: Path) -> None:
    (book / "cases.jsonl").write_text(
        json.dumps({"id": "c1", "input": "before.png", "edited": "after.png", "instruction": "x"}), "utf-8"
    )
    (book / "suite.yaml").write_text("cases: cases.jsonl\nrubric: edit-preservation\ncalibration: none.json\n", "utf-8")
    done = run("plan suite.yaml")
    assert done.code == 2
    assert "calibration: The calibration 'none.json' cannot be read" in done.err


def test_a_verdict_of_another_judge_is_not_calibrated_in_silence(run: Any, book: Path) -> None:
    assert run(f"calibrate aaa111 --ratings ratings.csv -o c.json {FEW}").code == 0
    with Ledger.open(book / "beholder.db", create=True) as ledger:
        ledger.start(run_record("bbb222", name="other", total=1))
        ledger.write("bbb222", [entry(0, replace(verdict(0), judge="google:gemini"))])
    done = run("export bbb222 --to jsonl --calibration c.json")
    said = json.loads(done.out)["calibrated"]["Unchanged regions"]
    assert (said["value"], said["why"][:33]) == (None, "it was fitted for the judge opena")
    for command in ("export", "show"):  # nothing of what was asked could be done
        done = run(f"{command} bbb222 --calibration c.json")
        assert done.code == 3
        assert "the calibration gave no verdict a rating: it was fitted for the judge openai:gpt-5-mini" in done.err
        assert run(f"{command} bbb222").code == 0
    assert "not calibrated, 1: it was fitted for the judge" in run("show bbb222 --calibration c.json").out
    other = Run.load("bbb222", "beholder.db").calibrated("c.json")
    assert (other.exit_code, other.passed, other.why_uncalibrated[:17]) == (3, False, "it was fitted for")
    assert Run.load("bbb222", "beholder.db").passed
    said = json.loads(run("export bbb222 --to jsonl --calibration c.json --anyway").out)["calibrated"]
    assert said["Unchanged regions"]["value"] is not None


def test_what_further_judges_said_is_learned_and_applied(run: Any, book: Path) -> None:
    rng = np.random.default_rng(5)
    with Ledger.open(book / "beholder.db", create=True) as ledger:
        for run_id, judge, noise in (("eee555", "a:dull", 2.0), ("fff666", "b:keen", 0.3)):
            ledger.start(run_record(run_id, name=judge, total=CASES))
            entries = []
            for number in range(CASES):
                score = float(np.clip(1 + 5 * worth(number) + rng.normal(0, noise), 1, 7))
                criteria = {"unchanged_regions": CriterionResult(score, score, (1, 7), 1)}
                made = replace(verdict(number, criteria=criteria), judge=judge)
                entries.append(entry(number, made, case=case(made, groups={"source": f"photo {number // 2}"})))
            ledger.write(run_id, entries)
    done = run(f"calibrate eee555 fff666 --ratings ratings.csv -o c.json {FEW}")
    assert done.code == 0, done.err
    saved = json.loads((book / "c.json").read_text("utf-8"))
    assert (saved["made"]["judges"], saved["made"]["jurors"]) == (["a:dull"], ["b:keen"])
    names = [one["name"] for one in saved["aspects"]["Unchanged regions"]["inputs"]]
    assert "juror.b:keen.unchanged_regions" in names
    said = [json.loads(line) for line in run("export eee555 --to jsonl --calibration c.json").out.splitlines()]
    assert all("juror.b:keen" in one["calibrated"]["Unchanged regions"]["why"] for one in said)
    (book / "keen.jsonl").write_text(run("export fff666 --to jsonl").out, "utf-8")
    (book / "dull.jsonl").write_text(run("export eee555 --to jsonl").out, "utf-8")
    words = "export eee555 --to jsonl --calibration c.json --features keen.jsonl"
    assert run(f"calibrate eee555 --ratings ratings.csv -o alone.json --anyway {FEW}").code in (0, 1)
    errors = []
    for command in (words, "export eee555 --to jsonl --calibration alone.json"):
        said = [json.loads(line)["calibrated"]["Unchanged regions"]["value"] for line in run(command).out.splitlines()]
        errors.append(np.mean([abs(value - (1 + 5 * worth(number))) for number, value in enumerate(said)]))
    # In 60 simulations the error with the keen judge was 0.66 times that of the dull one alone, and at most 0.70 times.
    assert errors[0] < 0.75 * errors[1]
    files = f"--scores dull.jsonl --scores keen.jsonl --ratings ratings.csv {FEW}"
    assert "say which (--judge or judge=)" in run(f"calibrate {files}").err
    assert run(f"calibrate {files} --judge a:dull --judge b:keen -o files.json").code == 0
    assert json.loads((book / "files.json").read_text("utf-8"))["made"]["jurors"] == ["b:keen"]
    assert "have one name" in run(f"calibrate eee555 eee555 --ratings ratings.csv {FEW}").err


def test_the_jurors_of_a_run_are_learned_from_and_their_map_is_applied_to_a_new_run(
    run: Any, book: Path, server: JudgeServer
) -> None:
    """People agree with the keen juror. Their median does not tell which of the two is keen; what each said does."""
    rng = np.random.default_rng(7)
    said = {
        (juror, number): int(np.clip(round(1 + 6 * worth(number) + rng.normal(0, noise)), 1, 7))
        for juror, noise in (("dull", 3.0), ("keen", 0.3))
        for number in range(2 * CASES)
    }

    def answer(heard: Received) -> dict[str, object]:
        number = int(re.findall(r"edit number (\d+)", " ".join(heard.texts))[0])
        score = said[heard.model, number]
        return {"online_factor_results": {key: {"score": score, "justification": WORDS} for key in KEYS}}

    server.default = answer
    for name, numbers in (("known", range(CASES)), ("new", range(CASES, 2 * CASES))):
        rows = [
            {"id": f"c{number}", "input": "input1.png", "edited": "edited1.png", "source": f"photo {number // 2}",
             "instruction": f"edit number {number}"}
            for number in numbers
        ]  # fmt: skip
        (book / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    ratings = [
        f"c{number},{rater},unchanged_regions,{np.clip(round(1 + 6 * worth(number) + rng.normal(0, 0.5)), 1, 7):g}"
        for number in range(CASES)
        for rater in "abc"
    ]
    (book / "people.csv").write_text("\n".join(["case,rater,aspect,score", *ratings]), "utf-8")
    jury = f"--rubric edit-preservation --judge openai:dull --judge openai:keen --base-url {server.openai_url}"
    jury += " --ledger jury.db --no-audit --no-thumbnails --quiet"
    assert run(f"run --cases known.jsonl --name known {jury}").code == 0
    done = run(f"calibrate known --ledger jury.db --ratings people.csv -o jury.json {FEW}")
    assert done.code == 0, done.err
    saved = json.loads((book / "jury.json").read_text("utf-8"))
    assert saved["made"]["judges"] == ["openai:dull + openai:keen"]
    names = [one["name"] for one in saved["aspects"]["unchanged_regions"]["inputs"]]
    assert {"juror.openai:dull.unchanged_regions", "juror.openai:keen.unchanged_regions"} <= set(names)
    assert saved["aspects"]["unchanged_regions"]["scores"]["chosen"] == "linear"

    asked = len(server.received)
    assert run(f"run --cases new.jsonl --name new --calibration jury.json {jury}").code == 0
    assert len(server.received) == asked + 2 * CASES
    verdicts = [json.loads(line) for line in run("export new --ledger jury.db --to jsonl").out.splitlines()]
    assert len(verdicts) == CASES
    truth = np.array([1 + 6 * worth(int(one["case"][1:])) for one in verdicts])
    people = [one["calibrated"]["unchanged_regions"] for one in verdicts]
    assert all(one["value"] is not None and not one.get("filled") for one in people)
    median = np.array([one["criteria"]["unchanged_regions"]["score"] for one in verdicts])
    mapped = np.array([one["value"] for one in people])
    assert np.corrcoef(mapped, truth)[0, 1] > np.corrcoef(median, truth)[0, 1] + 0.05
    assert np.abs(mapped - truth).mean() < np.abs(median - truth).mean()
    inside = np.mean([one["low"] <= true <= one["high"] for one, true in zip(people, truth, strict=True)])
    assert inside > 0.8
    # A run of one of the two alone is another judge.
    done = run(
        f"run --cases known.jsonl --name alone --calibration jury.json {jury.replace('--judge openai:keen', '')}"
    )
    assert done.code == 3  # every case has a score, and none the rating that was asked for
    assert "the calibration gave no verdict a rating: it was fitted for the judge openai:dull + openai:keen" in done.err
    assert "have no score" not in done.err
    [first, *_] = run("export alone --ledger jury.db --to jsonl").out.splitlines()
    alone = json.loads(first)["calibrated"]["unchanged_regions"]
    assert alone["value"] is None
    assert alone["why"].startswith("it was fitted for the judge openai:dull + openai:keen")


def test_what_is_worse_is_not_called_a_negative_gain() -> None:
    from beholder.cli.calibrate import _describe_gain
    from beholder.statistics.bootstrap import Interval

    words = "less error than a constant", "more error than a constant"
    assert (
        _describe_gain(*words, Interval(0.061, 0.045, 0.08)) == "less error than a constant by 0.061 (0.045 to 0.080)"
    )
    assert _describe_gain(*words, Interval(-0.116, -0.211, -0.042)) == (
        "more error than a constant by 0.116 (0.042 to 0.211)"
    )
    assert _describe_gain(*words, None) == ""


def test_together_tries_what_few_ratings_can_bear(run: Any, book: Path) -> None:
    given = "calibrate aaa111 --ratings ratings.csv --draws 100 --json"
    rows = json.loads(run(f"{given} --together").out)["aspects"][0]["rows"]
    assert list(rows) == ["the raw judge", "constant", "linear", "as chosen", "one rater against the others"]
    rows = json.loads(run(f"{given} --together --try offset").out)["aspects"][0]["rows"]
    assert "offset" in rows
    assert "linear" not in rows
    assert "isotonic" in json.loads(run(given).out)["aspects"][0]["rows"]


def test_an_interval_of_one_point_is_said_to_be_one() -> None:
    from beholder.cli.calibrate import _describe_bands

    point, rest = IntervalBand(0.0, 0.0, 0.0, 0.92, 300), IntervalBand(None, -0.2, 0.3, 0.81, 100)
    told = _describe_bands("SC", [point, rest])
    assert told == [
        "80% intervals of SC covered, of cases they were not computed on: predictions up to 0.00 92% of 300 cases; "
        "above 0.00 81% of 100 cases.",
        "For predictions up to 0.00 the interval is the prediction alone: people's mean is exactly that in 92% of the "
        "cases, and no interval around it covers fewer.",
    ]
    assert len(_describe_bands("SC", [replace(point, high=0.1), rest])) == 1
    assert _describe_bands("SC", []) == []
