"""Promise: the same answer has the same verdict, key for key and number for number.

Verdicts are what users keep, export and compare. Here are those of recorded answers by every rubric, of live answers
(repaired, cut off, refused, of a jury), of a calibration, of an audit against the pixels, and of the demo.
"""

from __future__ import annotations

import json
import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.golden import (
    EDITED,
    EXAMPLES,
    FILES,
    LONGEST,
    MODELS,
    PHOTO,
    PIXELS,
    PLACES,
    STYLED,
    Fault,
    Json,
    Reply,
    answer_to,
    beholder,
    brief,
    check,
    digest,
    short,
    steady,
    wiretap,
)

from beholder import Case, ScriptedJudge, judge

RUBRICS = ("restyle", "restyle-confidence", "edit-preservation", "edit-quality", "edit-fidelity", "description")
ONE_ULP = 1e-9  # for what OpenCV and NumPy measured


def asked(rubric: str | Path) -> tuple[str | Path, ...]:
    """A case of a rubric, on the command line."""
    if str(rubric).startswith("restyle"):
        return rubric, PHOTO, STYLED, "--set", "style=Pop Art"
    if str(rubric).startswith("edit"):
        return rubric, PHOTO, EDITED, "--set", "instruction=paint the door"
    return rubric, PHOTO, "--set", "input=What?", "--set", "output=A house."


def squeezed(verdict: Json) -> Json:
    """A verdict as it is stored: texts shortened, each criterion, flag and image on one line, and what is empty only
    among the keys."""
    verdict = steady(verdict)
    told = {key: one for key, one in verdict.items() if one not in (None, "", [], {})}
    for key in (
        "criteria",
        "valid_criteria",
        "findings",
        "images",
        "flags",
        "corrections",
        "measurements",
        "calibrated",
    ):
        if key in told:
            told[key] = _lines(told[key])
    if "jury" in told:
        told["jury"] = {key: _lines(one) for key, one in told["jury"].items()}
    return {**short(told), "keys": short(" ".join(verdict))}


def _lines(value: Json) -> Json:
    """Each entry as one line of JSON; a very long one with the digest of the rest."""
    if isinstance(value, dict):
        return {key: _line(one) for key, one in value.items()}
    return [_line(one) for one in value] if isinstance(value, list) else value


def _line(value: Json) -> Json:
    if not isinstance(value, dict | list):
        return value
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"sha256 {digest(text)[:24]}: {text[:110]}…"


def scored(lines: Sequence[Json], rubric: str | Path, *more: str | Path, code: int | None = None) -> Json:
    """What `beholder score` says of recorded answers: its exit code, and its verdicts."""
    Path("answers.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    done = beholder("score", "answers.jsonl", "--rubric", rubric, "--json", *more, code=code)
    return {"code": done.code, "verdicts": [squeezed(one) for one in done.lines]}


def seeds(file: str | Path, rubric: str | Path) -> Json:
    done = beholder("score", file, "--rubric", rubric, "--format", "seed", code=None)
    return {"code": done.code, "lines": [short(line) for line in done.out.splitlines()], "said": done.err}


@pytest.mark.parametrize("name", ["restyle", "edit", "description"])
def test_the_recorded_answers_of_the_examples(name: str) -> None:
    file = EXAMPLES / "demo" / f"{name}.jsonl"
    found: dict[str, Json] = {}
    rubrics = {"restyle": ("restyle", "restyle-confidence"), "edit": ("edit", "edit-quality"), "description": (name,)}
    for rubric in rubrics[name]:
        done = beholder("score", file, "--rubric", rubric, "--json", code=None)
        found[rubric] = {"code": done.code, "verdicts": [squeezed(one) for one in done.lines]}
        found[f"{rubric} in the published form"] = seeds(file, rubric)
    strict = beholder(
        "score", file, "--rubric", name, "--json", "--threshold", "0.95", "--not-applicable", "refuse", code=None
    )
    found["stricter"] = {"code": strict.code, "verdicts": [squeezed(one) for one in strict.lines]}
    check(f"verdicts_example_{name}", found)


@pytest.mark.parametrize("rubric", [*RUBRICS, "own"])
def test_answers_to_every_rubric(rubric: str) -> None:
    """Sound answers, the published forms they are turned into, and those scored again; and answers with something
    wrong, which are corrected, flagged or invalid."""
    words: Sequence[str | Path] = (
        asked(rubric) if rubric != "own" else (FILES / "rubric", PHOTO, "--set", "product=x", "--set", "caption=")
    )
    plan = brief(*words)
    fields = {"style": "Pop Art"} if "restyle" in rubric else {}
    sound = [answer_to(plan["schema"], turn) for turn in (0, 4)]
    broken = json.loads(json.dumps(sound[0]))
    first, second, *_ = broken["criteria"].values()
    first["score"] = "3"
    second.pop("assertions", None)
    second["unasked"] = True
    cut = {**sound[1], "criteria": dict(list(sound[1]["criteria"].items())[1:])}
    high = json.loads(json.dumps(sound[1]))
    for one in high["criteria"].values():
        one["score"] = 99
        for assertion in one.get("assertions", {}).values():
            assertion["answer"] = "no"
    said = [*sound, f"Here it is:\n```json\n{json.dumps(sound[0])}\n```", broken, cut, high, "no JSON", {}]
    lines = [
        {"case": f"c{number}", "answer": one, "fields": fields, "judge": "golden"} for number, one in enumerate(said)
    ]
    found = {"scored": scored(lines, words[0])}
    if rubric != "own":
        found["published"] = seeds("answers.jsonl", words[0])
        published = beholder("score", "answers.jsonl", "--rubric", words[0], "--format", "seed", code=None).lines
        again = scored([{"case": "again", "answer": one, "fields": fields} for one in published[:1]], words[0])
        found["published and scored again"] = [
            {key: one.get(key) for key in ("score", "criteria", "flags", "corrections")} for one in again["verdicts"]
        ]
    check(f"verdicts_{rubric}", found)


def live(words: Sequence[str | Path], replies: Sequence[Reply], *, audit: bool = False) -> Json:
    with wiretap() as tap:
        tap.say(*replies)
        done = beholder("judge", *words, *(() if audit else ("--no-audit",)), "--json", code=None)
    return {"code": done.code, "verdicts": [squeezed(one) for one in done.lines]}


def test_live_answers() -> None:
    words = (*asked("edit-preservation"), "--judge", MODELS["openai"], "--base-url", PLACES["openai"])
    schema = brief(*asked("edit-preservation"))["schema"]
    good = answer_to(schema)
    nothing: dict[str, Any] = {"criteria": {}}
    found = {
        "scored": live(words, [good]),
        "repaired": live(words, [nothing, good]),
        "invalid": live(words, [nothing, "still not"]),
        "cut off once": live(words, [Fault.truncated("{"), good]),
        "truncated": live(words, [Fault.truncated("{")] * 3),
        "empty": live(words, [Fault.empty()] * 3),
        "refused": live(words, [Fault.refusal("I will not.")]),
        "refused in words": live(words, ["I'm sorry, but I can't help with that request."]),
        "filtered": live(words, [Fault.filtered()]),
        "no structured output": live(words, [Fault.no_structured_output(), good]),
        "wrong key": live(words, [Fault.bad_key()]),
        "unknown model": live(words, [Fault.unknown_model()]),
    }
    jury = (*words, "--judge", "openai:gpt-5", "--samples", "2")

    def by_what_was_heard(heard: Any) -> Json:
        """Jurors are asked at once, so what one says depends on who it is, not on when it asks."""
        seed = int(heard.body["seed"])
        return (
            Fault.refusal("No.") if (heard.model, seed) == ("gpt-5", 8) else answer_to(schema, seed + len(heard.model))
        )

    found["jury"] = live((*jury, "--param", "seed=7"), [by_what_was_heard] * 4)
    for what, told in found.items():
        for verdict in told["verdicts"]:
            if what not in ("scored", "jury"):
                verdict.pop("images")
    check("verdicts_live", found)


def test_a_judge_in_python() -> None:
    """The public function, with a scripted judge."""
    case = Case("p1", images={"input": PHOTO, "edited": EDITED}, fields={"instruction": "paint the door"})
    answer = answer_to(brief(*asked("edit-preservation"))["schema"])
    verdict = judge("edit-preservation", case, judge=ScriptedJudge(answer, name="mine"))
    check("verdicts_python", {"verdict": squeezed(json.loads(json.dumps(verdict.to_dict())))}, within=ONE_ULP)


def test_a_calibration() -> None:
    """Learned from the example's ratings, and applied; beside the raw scores, none of which it changes."""
    foreign = EXAMPLES / "foreign-judge"
    answers = runpy.run_path(str(foreign / "answers.py"))["answers"](foreign / "recorded.jsonl")
    found = {"applied": scored(answers[:6], foreign, "--calibration", FILES / "people.json")}
    scored(answers, foreign)
    done = beholder("score", "answers.jsonl", "--rubric", foreign, "--json", code=None)
    Path("verdicts.jsonl").write_text(done.out, "utf-8")
    rated = ("--scores", "verdicts.jsonl", "--ratings", foreign / "ratings.csv", "--cases", foreign / "cases.csv")
    maps = ("--map", "SC=min(edit_success,over_editing)", "--map", "PQ=min(naturalness,artefacts)")
    beholder("calibrate", *rated, *maps, "--try", "offset", "--try", "isotonic", "-o", "people.json")
    learned = json.loads(Path("people.json").read_text("utf-8"))
    learned["made"]["on"] = "DAY"
    for aspect in learned["aspects"].values():
        aspect["scores"] = sorted(aspect["scores"])
    found["learned"] = learned
    agreed = json.loads(beholder("agree", *rated, *maps, "--draws", "200", "--json").out)
    found["agreement"] = agreed["agreements"][0]["criteria"][0]["coefficients"]
    found["keys of an agreement"] = [sorted(agreed), sorted(agreed["agreements"][0])]
    check("calibration", found, within=ONE_ULP)


def test_audits() -> None:
    """What a model says is held against the pixels, and flagged where they contradict it."""
    street = [EXAMPLES / "demo" / name for name in ("before.png", "after.png")]
    found: dict[str, Json] = {}
    for rubric, text in (
        ("edit-preservation", "instruction=make the car red"),
        ("edit-quality", "instruction=x"),
        ("restyle", "style=Pop Art"),
    ):
        words: tuple[str | Path, ...] = (rubric, *street, "--set", text)
        best = answer_to(brief(*words)["schema"])
        for one in best["criteria"].values():
            one["score"] = 7 if rubric.startswith("edit") else 5
            for assertion in one.get("assertions", {}).values():
                assertion["answer"] = "Yes"
        here = ("--judge", MODELS["openai"], "--base-url", PLACES["openai"])
        with wiretap() as tap:
            tap.say(best)
            [verdict] = beholder("judge", *words, *here, "--json", code=None).lines
        tell = _measured if rubric == "edit-preservation" else _gist
        found[f"{rubric} by a model"] = tell(verdict)
        if rubric != "edit-quality":
            [verdict] = beholder("judge", *words, "--json", code=None).lines
            found[f"{rubric} by the instruments"] = tell(verdict)
    check("verdicts_audits", found, within=ONE_ULP, made_with=PIXELS)


def _measured(verdict: Json) -> Json:
    """A verdict with its numbers as numbers, so that they can be compared by their size."""
    return short(steady({key: one for key, one in verdict.items() if key != "answer"}))


def test_the_demo() -> None:
    beholder("demo", "demo", code=None)
    found: dict[str, Json] = {}
    for chapter in ("restyles", "edits", "descriptions"):
        lines = beholder("export", f"demo-{chapter}", "--to", "jsonl", "--ledger", "demo/beholder.db").lines
        found[chapter] = {"keys": " ".join(sorted(lines[0])), "cases": {line["case"]: _gist(line) for line in lines}}
        for line in (
            lines[1::3] + lines[2::3]
        ):  # of a third of them every number; the words of all hold most numbers too
            del found[chapter]["cases"][line["case"]]["measurements"]
        if chapter == "edits":
            found["the first edit in full"] = _measured(lines[0])
        found[f"{chapter}, suite"] = Path(f"demo/suite-{chapter}.yaml").read_text("utf-8")
    check("verdicts_demo", found, within=ONE_ULP, made_with=(*PIXELS, "scikit-image", "scikit-learn"))


def _gist(verdict: Json) -> Json:
    """What a verdict comes to, and the digest of all of its words; numbers are compared by their size."""
    names = ("outcome", "score", "grade", "passed", "total_range")
    words = [one for one in _texts(steady(verdict)) if one]
    return {
        **{name: verdict[name] for name in names if verdict[name] is not None},
        "criteria": {key: one["score"] for key, one in verdict["criteria"].items()},
        "flags": " ".join(flag["flag"] for flag in verdict["flags"]),
        "measurements": {key: _number(one) for key, one in sorted((verdict.get("measurements") or {}).items())},
        "words": f"{len(words)} texts, sha256 {digest(json.dumps(words))[:24]}",
    }


def _number(measurement: Json) -> Json:
    value = measurement.get("value") if isinstance(measurement, dict) else measurement
    return round(value, 10) if isinstance(value, float) else value


def _texts(value: Json) -> list[str]:
    if isinstance(value, dict):
        return [text for key in sorted(value) for text in (key, *_texts(value[key]))]
    if isinstance(value, list):
        return [text for one in value for text in _texts(one)]
    return [value] if isinstance(value, str) else []
