"""Label Studio: a project is blind and valid for its own SDK, and what people answer there comes in as ratings."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image
from support.hosts import python_host
from support.preferences import judge_by, pair

import beholder
from beholder import Run, UsageError
from beholder.images.image import PreparedImage, Sizing
from beholder.images.prepare import prepare_image
from beholder.integrations import label_studio
from beholder.integrations.label_studio import export_project, import_project
from beholder.ledger.ledger import Ledger
from beholder.testing.base import Fault
from beholder.testing.server import JudgeServer

SECRETS = ("model-a", "model-b", "photo", ".png", "instruments", "scripted")
VALIDATE = """
import json, sys
from label_studio_sdk.label_interface import LabelInterface

interface = LabelInterface(open(sys.argv[1]).read())
interface.validate()
for task in json.load(open(sys.argv[2])):
    assert interface.validate_task({"data": task["data"]})
    for annotation in task.get("annotations", []):
        # An answer has the form of a prediction, and what validates whole annotations is broken in this version.
        wrong = interface.validate_prediction({"result": annotation["result"]}, return_errors=True)
        assert not wrong, wrong

"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run whose cases, files and groups name the models under test."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(5)
    exif = Image.Exif()
    cases = []
    for at in range(6):
        pixels = random.integers(0, 255, (2100, 64, 3), np.uint8)
        model = f"model-{'ab'[at % 2]}"
        exif[0x0131] = model  # the software that made it
        Image.fromarray(pixels).save(f"photo-{at}.png", exif=exif)
        names = {"input": f"photo-{at}.png", "edited": f"photo-{at}.png"}
        cases.append({"id": f"{model}/{at}", **names, "instruction": "Make the car red & <big>.", "model": model})
    return beholder.run(rubric="edit-preservation", cases=cases, judge="instruments", ledger="a.db")


@pytest.fixture
def pairs(tmp_path: Path) -> Run:
    cases = [pair(200, 60 + at, f"pair-{at}") for at in range(8)]
    for case in cases:
        for role, data in case.images.items():
            assert isinstance(data, bytes)
            (tmp_path / f"{case.id}-{role}.png").write_bytes(data)
    cases = [replace(one, images={role: tmp_path / f"{one.id}-{role}.png" for role in one.images}) for one in cases]
    return beholder.run(rubric="edit-preference", cases=cases, judge=judge_by(), ledger=tmp_path / "pairs.db")


def validate(config: Path, tasks: Path) -> None:
    python = python_host("label-studio-sdk", "label-studio-sdk==2.1.2")
    done = subprocess.run([python, "-c", VALIDATE, config, tasks], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def load(path: Path) -> list[dict[str, Any]]:
    loaded = json.loads(path.read_text("utf-8"))
    assert isinstance(loaded, list)
    return loaded


def label(folder: Path, tasks: list[dict[str, Any]], answers: Mapping[str, object], rater: object = 1) -> Path:
    """What Label Studio exports when somebody has answered all tasks with these values, by the title of the control."""
    config = ElementTree.parse(folder / "config.xml").getroot()
    header, results = "", []
    for element in config:
        if element.tag == "Header":
            header = element.attrib["value"]
        for title, value in answers.items():
            if element.tag in ("Rating", "Number", "Choices") and title in header:
                kind = element.tag.lower()
                given = [value] if kind == "choices" else value
                result = {"from_name": element.attrib["name"], "to_name": element.attrib["toName"], "type": kind}
                results.append({**result, "value": {kind: given}})
    assert len(results) >= len(answers)
    comment = {
        "from_name": "comment",
        "to_name": results[0]["to_name"],
        "type": "textarea",
        "value": {"text": ["fine"]},
    }
    for number, task in enumerate(tasks):
        task["id"] = number
        task["annotations"] = [{"id": number, "completed_by": rater, "result": [*results, comment]}]
    file = folder / "export.json"
    file.write_text(json.dumps(tasks))
    return file


def test_a_project_is_blind_and_each_rater_has_an_order(run: Run, tmp_path: Path) -> None:
    written = export_project(run, tmp_path / "project", raters=["Ana", "Bo"])
    ana, bo = (load(path) for path in written)
    assert [path.name for path in written] == ["tasks-Ana.json", "tasks-Bo.json"]
    assert {task["data"]["case"] for task in ana} == {task["data"]["case"] for task in bo}
    assert ana != bo
    for path in (tmp_path / "project").rglob("*"):
        if path.suffix in (".json", ".xml"):
            text = path.read_text("utf-8").replace(".png", "", text_count(path))
            assert [secret for secret in SECRETS if secret in text] == []
        assert not path.name.startswith("photo")
    for task in ana:
        image = task["data"]["image_input"]
        assert image.startswith("/data/local-files/?d=project/images/")
        data = (tmp_path / image.removeprefix("/data/local-files/?d=")).read_bytes()
        assert b"model-" not in data  # which the files have in their metadata
        assert Image.open(BytesIO(data)).size == (64, 2100)  # as large as the file is
    with pytest.raises(UsageError, match="not an empty folder"):
        export_project(run, tmp_path / "project")


def test_a_case_that_nobody_can_see_is_left_out(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[bytes] = []

    def count(data: bytes, sizing: Sizing) -> PreparedImage:
        decoded.append(data)
        return prepare_image(data, sizing)

    monkeypatch.setattr(label_studio, "prepare_image", count)
    (tmp_path / "photo-2.png").unlink()
    for tasks in export_project(run, tmp_path / "project", raters=["Ana", "Bo"]):
        assert len(load(tasks)) == 5
    assert len(decoded) == 5  # each once, for all raters
    assert "An image of 'model-a/2' cannot be copied into the project" in caplog.text
    for photo in tmp_path.glob("photo-*.png"):
        photo.unlink()
    for _ in range(2):  # nothing is in the way of the second try
        with pytest.raises(UsageError, match=r"No case can be rated\. An image of 'model-a/0' cannot be copied"):
            export_project(run, tmp_path / "empty")
    assert not (tmp_path / "empty").exists()
    with pytest.raises(UsageError, match=r"Two raters would have the file 'tasks-a-b.json'"):
        export_project(run, tmp_path / "empty", raters=["a b", "a/b"])


def text_count(path: Path) -> int:
    """Our own names of images end so, and no other."""
    return path.read_text("utf-8").count("/images/")


def test_answers_come_in_as_ratings(run: Run, tmp_path: Path) -> None:
    [tasks] = export_project(run, tmp_path / "project")
    validate(tmp_path / "project" / "config.xml", tasks)
    criteria = list(next(run.verdicts()).criteria)
    export = label(tmp_path / "project", load(tasks), {"1 to 7": 6}, rater={"id": 3, "email": "ana@example.org"})
    validate(tmp_path / "project" / "config.xml", export)
    assert import_project(run, export).raters == {"ana@example.org": 6}
    with Ledger.open(tmp_path / "a.db") as ledger:
        from beholder.reviews.ratings import read_review_ratings

        ratings = read_review_ratings(ledger, run.id)
    assert all((ratings[key].values == 6).all() for key in criteria)


def test_votes_on_pairs_are_of_the_candidate_that_was_shown_there(pairs: Run, tmp_path: Path) -> None:
    [tasks] = export_project(pairs, tmp_path / "project", raters="Ana")
    loaded = load(tasks)
    lefts = {(tmp_path / task["data"]["image_left"].partition("?d=")[2]).read_bytes() for task in loaded}
    assert len(lefts) > 1, "both candidates are on the left in some tasks"
    validate(tmp_path / "project" / "config.xml", tasks)
    export = label(tmp_path / "project", loaded, {"Overall": "Left"})
    validate(tmp_path / "project" / "config.xml", export)
    assert import_project(pairs, export).raters == {"rater 1": 8}
    beholder.export_ratings(pairs, tmp_path / "votes.csv")
    rows = [line.split(",") for line in (tmp_path / "votes.csv").read_text().splitlines()[1:]]
    assert {(row[3], row[4]) for row in rows} == {("first", "given"), ("second", "swapped")}


def test_what_was_skipped_is_unanswered_and_what_is_foreign_is_refused(run: Run, tmp_path: Path) -> None:
    [tasks] = export_project(run, tmp_path / "project")
    export = label(tmp_path / "project", load(tasks), {"1 to 7": 6})
    loaded = load(export)
    for task in loaded[1:]:
        task["annotations"][0]["was_cancelled"] = True
    export.write_text(json.dumps(loaded))
    assert import_project(run, export).raters == {"rater 1": 1}
    loaded[0]["annotations"][0]["result"][0]["value"] = {"rating": 9}
    export.write_text(json.dumps(loaded))
    named = re.escape(str(export))
    with pytest.raises(UsageError, match=rf"^'{named}', task 0: \w+ goes from 1 to 7, not 9\.0\.$"):
        import_project(run, export)
    loaded[0]["annotations"][0]["result"][0]["value"] = {"rating": 6}
    twice = [{**loaded[0], "annotations": loaded[0]["annotations"] * 2}]
    export.write_text(json.dumps(twice))
    with pytest.raises(UsageError, match=rf"^'{named}', task 0: rater 1 has rated it twice; delete one annotation"):
        import_project(run, export)
    export.write_text(json.dumps(loaded[1:]))
    with pytest.raises(UsageError, match=rf"^'{named}' holds no rating"):
        import_project(run, export)
    loaded[0]["data"]["case"] = "another"
    export.write_text(json.dumps(loaded))
    with pytest.raises(UsageError, match="not of this run"):
        import_project(run, export)
    export.write_text("{}")
    with pytest.raises(UsageError, match=r"no rating|no JSON export"):
        import_project(run, export)


RUBRIC = """
rubric: shop-photo
images: [{role: photo, label: "The photograph"}]
criteria:
  - key: light
    question: Is the light even?
    scale: [0, 1]
    whole: false
    assertions:
      - Are the shadows soft?
      - {text: Is the label readable?, applies: a label}
"""


def test_numbers_and_assertions_are_asked_and_come_in(run: Run, tmp_path: Path) -> None:
    (tmp_path / "rubric.yaml").write_text(RUBRIC)
    cases = [{"id": f"p{at}", "photo": f"photo-{at}.png"} for at in range(3)]
    with JudgeServer(Fault.refusal("No."), keyless=True) as server:  # people may rate what no judge would
        rubric, place = str(tmp_path / "rubric.yaml"), server.openai_url
        own = beholder.run(rubric=rubric, cases=cases, judge="openai:m", base_url=place, ledger="own.db")
    [tasks] = export_project(own, tmp_path / "project")
    validate(tmp_path / "project" / "config.xml", tasks)
    answers = {"Is the light even? (0 to 1)": 0.25, "shadows": "No", "readable": "Yes"}
    export = label(tmp_path / "project", load(tasks), answers)
    loaded = load(export)
    [open_] = [one for one in loaded[0]["annotations"][0]["result"] if one["value"] == {"choices": ["Yes"]}]
    open_["value"] = {"choices": ["N/A"]}
    export.write_text(json.dumps(loaded))
    validate(tmp_path / "project" / "config.xml", export)
    assert import_project(own, export).raters == {"rater 1": 3}
    beholder.export_ratings(own, tmp_path / "ratings.csv")
    rows = (tmp_path / "ratings.csv").read_text().splitlines()
    # N/A leaves the assertion open, and so its criterion, as on our own review page.
    assert sorted(row.partition(",rater 1,")[2] for row in rows[1:]) == [
        *["light,0.25"] * 2,
        *["light_1,0"] * 3,
        *["light_2,1"] * 2,
        *["score,0.25"] * 2,
    ]


def test_the_sdk_finds_a_wrong_answer(run: Run, tmp_path: Path) -> None:
    [tasks] = export_project(run, tmp_path / "project")
    export = label(tmp_path / "project", load(tasks), {"1 to 7": 9})
    with pytest.raises(AssertionError):
        validate(tmp_path / "project" / "config.xml", export)
