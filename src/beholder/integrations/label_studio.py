"""Label Studio: a blind rating project made of a run, and its JSON export as ratings of people.

A project is a folder: `config.xml` (the labeling interface), `tasks.json` (or `tasks-NAME.json` for each rater) and
`images/`. Cases and images have opaque names. The order of the tasks, and of a run of pairs the sides, are shuffled for
each rater. Nothing has to be kept to read the answers: the names are hashes of what the ledger knows.
"""

from __future__ import annotations

import csv
import hashlib
import json
import logging
import random
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

from beholder.api.run import Run
from beholder.api.score import import_ratings
from beholder.cases.case import CANDIDATES, Case
from beholder.errors import ImageError, UsageError
from beholder.images.image import ImageSource, PreparedImage, Sizing
from beholder.images.prepare import prepare_image
from beholder.images.source import is_remote, read_image
from beholder.ledger.ledger import Ledger, LedgerLike
from beholder.ledger.types import RunRecord
from beholder.reviews.ratings import RatingsImport, load_column_names
from beholder.reviews.sheet import ReviewSheet, build_sheet
from beholder.reviews.votes import LEFT, OVERALL, RIGHT, winner_on
from beholder.rubrics.brief import GIVEN, SWAPPED
from beholder.rubrics.rubric import Criterion
from beholder.statistics.data import ColumnKind

_log = logging.getLogger(__name__)

LOCAL_FILES = "/data/local-files/?d="  # how Label Studio addresses a file of its local storage
COMMENT = "comment"
_ANSWERS = {"Yes": "1", "No": "0"}
NOT_APPLICABLE = "N/A"
_SIDES = {"Left": LEFT, "Right": RIGHT, "Tie": "tie", "Both bad": "both_bad"}
FULL_SIZE = Sizing(max_side=None, max_bytes=None)


@dataclass(frozen=True)
class RatingControl:
    """A control of the interface: the aspect that it rates, its kind (rating, number or choices) and its words."""

    aspect: str
    kind: str
    title: str
    scale: tuple[float, float] = (0, 1)
    choices: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return a name for the control; a hash keeps those apart that differ in punctuation only."""
        return f"{re.sub(r'[^A-Za-z0-9]+', '_', self.aspect)}_{_digest(self.aspect)[:4]}"


def export_project(
    run: str | Run,
    folder: str | Path,
    *,
    raters: str | Sequence[str] = (),
    prefix: str = LOCAL_FILES,
    ledger: LedgerLike = None,
) -> list[Path]:
    """Write a project for Label Studio, in which people rate the cases of a run without seeing a judge or a model.

    A case is left out, and that is logged, if an image of it cannot be read or is at a remote address, which may tell
    raters what it is.

    Args:
        run: The run: a `Run`, or its name, id, `latest` …: see `Run.load`.
        folder: A new or empty folder.
        raters: A file of tasks for each of them, in an order of its own; by default one for all.
        prefix: What stands before `NAME/images/…` in the address of an image, where NAME is that of the folder.
        ledger: The ledger of a run that is given by name.

    Returns:
        The files of tasks.

    Raises:
        UsageError: The folder is not empty, or no case can be rated. Then nothing is written.
    """
    loaded = run if isinstance(run, Run) else Run.load(run, ledger)
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{str(folder)!r} is not an empty folder; name another one for the project.")
    names = ([raters] if isinstance(raters, str) else list(raters)) or [""]
    files = [folder / _name_tasks(rater) for rater in names]
    if twice := next((file.name for file in files if files.count(file) > 1), None):
        raise UsageError(f"Two raters would have the file {twice!r}; give them names that differ more.")
    with loaded.open() as opened:
        record = opened.run(loaded.id)
        questions = _list_controls(opened, record)
        cases = list(opened.cases(record.id))
        if not cases:
            raise UsageError(f"The run {record.id} has no verdict yet, and so no case to rate.")
        copies: dict[ImageSource, str] = {}  # in the folder, by image: each is decoded once for all raters
        left_out: dict[str, str] = {}
        for case in cases:
            try:
                copies |= _copy_images(_make_sheet(opened, record, case, GIVEN), case, folder, copies)
            except UsageError as error:
                left_out[case.id] = str(error)
        cases = [case for case in cases if case.id not in left_out]
        if not cases:
            raise UsageError(f"No case can be rated. {next(iter(left_out.values()))}")
        for problem in left_out.values():
            _log.warning("beholder: a case is left out of the project. %s", problem)
        folder.mkdir(parents=True, exist_ok=True)
        place = f"{prefix}{folder.resolve().name}"
        for rater, file in zip(names, files, strict=True):
            tasks = [_make_task(opened, record, case, rater, copies, place) for case in cases]
            _shuffler(record.id, rater).shuffle(tasks)
            file.write_text(json.dumps(tasks, ensure_ascii=False, indent=1), "utf-8")
    keys = list(dict.fromkeys(key for task in tasks for key in task["data"]))
    (folder / "config.xml").write_text(make_config(keys, questions), "utf-8")
    return files


def import_project(run: str | Run, path: str | Path, *, ledger: LedgerLike = None) -> RatingsImport:
    """Take Label Studio's JSON export of a project as ratings of people, one review for each who labeled.

    What was skipped, canceled or answered with N/A is unanswered.

    Args:
        run: The run that the project was made of.
        path: The JSON export.
        ledger: The ledger of a run that is given by name.

    Raises:
        UsageError: The file is no such export, or a task is not of this run. Then nothing is written.
    """
    loaded = run if isinstance(run, Run) else Run.load(run, ledger)
    with loaded.open() as opened:
        record = opened.run(loaded.id)
        questions = {question.name: question for question in _list_controls(opened, record)}
        known = {
            _opaque_id(record.id, id_, order): (id_, order)
            for id_ in opened.case_ids(record.id)
            for order in (GIVEN, SWAPPED)
        }
    rows = list(_read_export(Path(path), known, questions, pairs=record.is_preference))
    if not rows:
        raise UsageError(f"{str(path)!r} holds no rating: nobody has labeled a task, or all were skipped.")
    header = ("case", "rater", "aspect", *(("winner", "order") if record.is_preference else ("score",)))
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / Path(path).with_suffix(".csv").name
        with file.open("w", newline="", encoding="utf-8") as opened_file:
            csv.writer(opened_file).writerows([header, *rows])
        try:
            return import_ratings(loaded, file)
        except UsageError as error:
            raise UsageError(str(error).replace(str(file), str(path))) from None


def make_config(keys: Sequence[str], questions: Sequence[RatingControl]) -> str:
    """Return the labeling interface for tasks with these keys."""
    view = Xml.Element("View")
    images = [key for key in keys if key.startswith("image_")]
    shown = Xml.SubElement(view, "View", style="display: flex; gap: 1em")
    for key in images:
        box = Xml.SubElement(shown, "View", style="flex: 1")
        Xml.SubElement(box, "Header", value=key.removeprefix("image_").replace("_", " "))
        Xml.SubElement(box, "Image", name=key, value=f"${key}", zoom="true")
    for key in keys:
        if key.startswith("text_"):
            Xml.SubElement(view, "Header", value=key.removeprefix("text_").replace("_", " "))
            Xml.SubElement(view, "Text", name=key, value=f"${key}")
    target = images[0] if images else next(key for key in keys if key.startswith("text_"))
    for question in questions:
        Xml.SubElement(view, "Header", value=question.title)
        common: dict[str, str] = {"name": question.name, "toName": target}
        low, high = question.scale
        if question.kind == "choices":
            control = Xml.SubElement(view, "Choices", {**common, "choice": "single", "showInline": "true"})
            for choice in question.choices:
                Xml.SubElement(control, "Choice", value=choice)
        elif question.kind == "rating":
            Xml.SubElement(view, "Rating", {**common, "maxRating": f"{high:g}"})
        else:
            Xml.SubElement(view, "Number", {**common, "min": f"{low:g}", "max": f"{high:g}"})
    Xml.SubElement(view, "TextArea", name=COMMENT, toName=target, placeholder="Anything else? (not imported)", rows="2")
    Xml.indent(view)
    return Xml.tostring(view, encoding="unicode") + "\n"


def _list_controls(ledger: Ledger, record: RunRecord) -> list[RatingControl]:
    """Return what people are asked: criteria, and their assertions where all cases have the same ones."""
    names = load_column_names(ledger, record)
    questions = []
    for rubric in record.load_rubrics().values():
        several = len(record.rubrics) > 1
        if record.is_preference:
            for key, title in [*((one.key, one.title or one.key) for one in rubric.criteria), (OVERALL, "Overall")]:
                questions.append(RatingControl(key, "choices", f"{title}: which is better?", choices=tuple(_SIDES)))
            continue
        for criterion in rubric.criteria:
            aspect = names((ColumnKind.CRITERION, rubric.name, criterion.key))
            low, high = (float(end) for end in criterion.scale)
            stars = criterion.whole and low == 1  # stars begin at one, and none given is no answer
            title = f"{rubric.name}: " * several + _title(criterion)
            questions.append(RatingControl(aspect, "rating" if stars else "number", title, (low, high)))
            for assertion in criterion.with_assertion_ids().assertions if not rubric.styles else ():
                aspect = names((ColumnKind.ASSERTION, "", assertion.id))
                answers = (*_ANSWERS, NOT_APPLICABLE)
                questions.append(RatingControl(aspect, "choices", assertion.text, choices=answers))
    return questions


def _title(criterion: Criterion) -> str:
    low, high = criterion.scale
    return f"{criterion.question or criterion.title or criterion.key} ({low:g} to {high:g})"


def _name_tasks(rater: str) -> str:
    safe = re.sub(r"[^\w-]+", "-", rater)
    return f"tasks-{safe}.json" if rater else "tasks.json"


def _make_sheet(ledger: Ledger, record: RunRecord, case: Case, order: str) -> ReviewSheet:
    verdicts = [stored.verdict for stored in ledger.stored_verdicts(record.id, case=case.id)]
    return build_sheet(record, case, verdicts, _opaque_id(record.id, case.id, order), order)


def _make_task(
    ledger: Ledger, record: RunRecord, case: Case, rater: str, copies: Mapping[ImageSource, str], place: str
) -> dict[str, dict[str, str]]:
    swapped = record.is_preference and _shuffler(record.id, rater, case.id).random() < 0.5
    sheet = _make_sheet(ledger, record, case, SWAPPED if swapped else GIVEN)
    data = {"case": sheet.label}
    for key, source in _name_images(sheet, case):
        data[key] = f"{place}/{copies[source]}"
    for name, value in sheet.fields:
        data[f"text_{name}"] = value if isinstance(value, str) else "\n".join(value)
    return {"data": data}


def _name_images(sheet: ReviewSheet, case: Case) -> Iterator[tuple[str, ImageSource]]:
    """Yield the images of a case in their order on the screen, each with its key in the data of the task."""
    sides = iter(("left", "right"))
    for role in dict.fromkeys(sheet.roles):
        sources = case.sources(role)
        title = next(sides) if role in CANDIDATES else role
        for number, source in enumerate(sources, start=1):
            yield f"image_{title}" + (f"_{number}" if len(sources) > 1 else ""), source


def _copy_images(
    sheet: ReviewSheet, case: Case, folder: Path, known: Mapping[ImageSource, str]
) -> dict[ImageSource, str]:
    """Copy the images of a case that are not `known` into the folder, all or none. Returns the names of the copies."""
    new = {source for _, source in _name_images(sheet, case)} - known.keys()
    images = {source: _read_copy(source, case) for source in new}
    copies = {}
    for source, image in images.items():
        copies[source] = f"images/{image.digest[:16]}.{image.media_type.removeprefix('image/')}"
        (folder / "images").mkdir(parents=True, exist_ok=True)
        (folder / copies[source]).write_bytes(image.data)
    return copies


def _read_copy(source: ImageSource, case: Case) -> PreparedImage:
    if isinstance(source, str) and is_remote(source):
        raise UsageError(f"An image of {case.id!r} is at a remote address, which may tell raters what it is.")
    try:
        # As a judge gets it: metadata may name the model, or the place where a photograph was taken.
        return prepare_image(read_image(source), FULL_SIZE)
    except ImageError as error:
        raise UsageError(f"An image of {case.id!r} cannot be copied into the project: {error}.") from None


def _read_export(
    path: Path, known: Mapping[str, tuple[str, str]], questions: Mapping[str, RatingControl], *, pairs: bool
) -> Iterator[tuple[str, ...]]:
    """Yield rows of ratings, or of votes, from a JSON export. Raises `UsageError`, which names the task."""
    rated: set[tuple[str, str, str]] = set()
    try:
        tasks = json.loads(path.read_text("utf-8"))
        for task in tasks:
            label = task["data"]["case"]
            if label not in known:
                raise UsageError(f"{str(path)!r} has a task {label!r} that is not of this run.")
            case, order = known[label]
            name = f"{str(path)!r}, task {task.get('id', label)}"
            for annotation in task["annotations"]:
                if annotation.get("was_cancelled"):
                    continue
                for result in annotation["result"]:
                    question = questions.get(result["from_name"])
                    value = "" if question is None else _read_value(question, result["value"], order, pairs=pairs)
                    if question is None or not value:
                        continue
                    row = (case, _name_rater(annotation["completed_by"]), question.aspect)
                    low, high = question.scale
                    if question.kind != "choices" and not low <= float(value) <= high:
                        raise UsageError(f"{name}: {question.aspect} goes from {low:g} to {high:g}, not {value}.")
                    if row in rated:
                        raise UsageError(
                            f"{name}: {row[1]} has rated it twice; delete one annotation, and export again."
                        )
                    rated.add(row)
                    yield (*row, value, order) if pairs else (*row, value)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise UsageError(f"{str(path)!r} is no JSON export of Label Studio: {type(error).__name__}, {error}.") from None


def _read_value(question: RatingControl, value: Mapping[str, Any], order: str, *, pairs: bool) -> str:
    if question.kind == "choices":
        choice = str(value["choices"][0])
        return winner_on(_SIDES[choice], order) if pairs else _ANSWERS.get(choice, "")
    return repr(float(value[question.kind]))


def _name_rater(completed_by: object) -> str:
    """Return who labeled: an export has their number, or with all details their address."""
    if isinstance(completed_by, Mapping):
        return str(completed_by.get("email") or completed_by["id"])
    return f"rater {completed_by}"


def _opaque_id(run: str, case: str, order: str) -> str:
    return _digest(f"{run}\0{case}\0{order}")[:16]


def _shuffler(*parts: str) -> random.Random:
    return random.Random(_digest("\0".join(parts)))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
