"""Writing an exam into a folder as an ordinary case file, and the suites that ask it.

The same photographs, rubric, seed and size give the same bytes, with the same versions of NumPy and OpenCV. The truth
is in the groups of the cases (`Paper.groups`), which no judge sees.

All papers are asked once; some of them a second time as they were, and in two variants of the rubric that should make
no difference. `order`: the criteria are in reverse order, in the prompt and in the answer's schema; each keeps its
text, its key and the ids of its assertions. `labels`: the images are called Image A, Image B … instead of their own
names, right before each image and wherever the prompt mentions them; their order, and what the prompt says about each,
stay.

Each of these sheets is a run of its own, planned, paid, cached and resumed like any other. The second time costs one
answer a paper: the first is in the ledger.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import msgspec
from msgspec import structs

from beholder.cases.case import Case
from beholder.demo.suite import write_atomically
from beholder.errors import UsageError
from beholder.exam.image_papers import fidelity_papers, preservation_papers, quality_papers, restyle_papers
from beholder.exam.paper import EXAM_VERSION, SIZES, ExamSize, Paper, Photo, encode_png, load_photographs
from beholder.exam.results import AGAIN, ASKED, papers_tag, sheet_tag
from beholder.exam.text_papers import description_papers
from beholder.ledger.ledger import Ledger
from beholder.rubrics.load import PROMPT_FILE, RUBRIC_FILE
from beholder.rubrics.prompt import DEFAULT_PROMPT
from beholder.rubrics.rubric import Rubric
from beholder.runs.execution import check_suite_cases, compute_fingerprint
from beholder.runs.plan import JudgePlan, plan_run
from beholder.runs.suite import Suite, load_suite
from beholder.statistics.data import SOURCE_GROUP

CASES, _OWN_CASES = "cases.jsonl", "own.jsonl"
RECORD = ".beholder-exam.json"  # marks a folder that holds an exam

REPEATED_PAPERS = {"quick": 12, "usual": 28, "full": 60}  # papers that are asked again, by size

PaperGenerator = Callable[[Rubric, Sequence[Photo], ExamSize, int], Iterator[Paper]]

_GENERATORS: Mapping[str, PaperGenerator] = {
    "edit-preservation": preservation_papers,
    "edit-quality": quality_papers,
    "edit-fidelity": fidelity_papers,
    "restyle": restyle_papers,
    "restyle-confidence": restyle_papers,
    "description": description_papers,
}
_DESCRIPTION = "description"


def exam_rubrics() -> tuple[str, ...]:
    """Return the names of the rubrics that have papers."""
    return tuple(_GENERATORS)


def exam_notes(rubric: Rubric, photos: Sequence[Path] = ()) -> tuple[str, ...]:
    """Return what a user of this exam with these photographs should know beforehand, as sentences."""
    if rubric.name == _DESCRIPTION and photos:
        return (
            "The description papers are about the demo's photographs: they need photographs whose facts are known, and "
            "nothing is known about yours.",
        )
    return ()


def write_exam(
    rubric: Rubric, folder: Path, *, photos: Sequence[Path] = (), seed: int = 0, size: str = "usual"
) -> list[Case]:
    """Write pictures and `cases.jsonl` into a folder, which is created if needed.

    Files with the right content are not touched, so that runs on them resume.

    Args:
        rubric: One of `exam_rubrics`.
        folder: New, empty, or with an exam.
        photos: Files and folders; the demo's photographs if empty, and always for `description`.
        seed: Of everything random.
        size: A key of `SIZES`.

    Returns:
        The cases.

    Raises:
        UsageError: The rubric has no papers, the size is unknown, photographs cannot be used, or the folder holds
            anything but an exam.
        SetupError: The demo's photographs are needed and not installed.
    """
    if rubric.name not in _GENERATORS:
        raise UsageError(f"There is no exam for the rubric {rubric.name!r}; there is one for {', '.join(_GENERATORS)}.")
    if size not in SIZES:
        raise UsageError(f"The size of an exam cannot be {size!r}; it is {', '.join(SIZES)}.")
    _check_folder(folder)
    chosen = load_photographs(() if rubric.name == _DESCRIPTION else photos, SIZES[size].photos, seed)
    try:
        cases = _write_papers(rubric, folder, chosen, SIZES[size], seed)
        record = {"exam": EXAM_VERSION, "rubric": rubric.name, "seed": seed, "size": size, "papers": len(cases)}
        write_atomically(folder / RECORD, (json.dumps(record, indent=1) + "\n").encode())
    except OSError as error:
        where = str(error.filename or folder)
        raise UsageError(f"The exam cannot be written: {where!r}: {error.strerror or error}.") from None
    return cases


def _check_folder(folder: Path) -> None:
    """Raise `UsageError` where the folder holds something that is not an exam."""
    try:
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"{str(folder)!r} is a file; name a folder, new or empty, to put the exam into.")
        if folder.exists() and any(folder.iterdir()) and not (folder / RECORD).is_file():
            raise UsageError(f"{str(folder)!r} is not empty and holds no exam; name a folder that is new or empty.")
    except OSError as error:
        raise UsageError(f"{str(folder)!r} cannot be read: {error.strerror or error}.") from None


def _write_papers(rubric: Rubric, folder: Path, photos: Sequence[Photo], size: ExamSize, seed: int) -> list[Case]:
    """Write the papers one after the other, so that only one picture is in memory at a time."""
    # First of all, so that a folder that was left half-way is known as ours.
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / RECORD).exists():
        write_atomically(folder / RECORD, b"{}\n")
    for photo in photos:
        write_atomically(folder / _photo_path(photo.name), encode_png(photo.pixels))
    cases, rows = [], []
    for paper in _GENERATORS[rubric.name](rubric, photos, size, seed):
        places = _write_images(rubric, folder, paper)
        rows.append(json.dumps({"id": paper.id, **places, **paper.fields, "groups": paper.groups}, ensure_ascii=False))
        images = {role: os.path.join(folder, place) for role, place in places.items()}
        cases.append(Case(paper.id, images, dict(paper.fields), paper.groups))
    write_atomically(folder / CASES, "".join(f"{row}\n" for row in rows).encode())
    return cases


def _write_images(rubric: Rubric, folder: Path, paper: Paper) -> dict[str, str]:
    """Write the picture of a paper, and return the paths of its images by role, relative to the folder."""
    *before, last = rubric.roles
    place = _photo_path(paper.source)
    places = dict.fromkeys(before, place)
    if paper.picture is not None:
        ending, data = (
            (".jpg", paper.picture) if isinstance(paper.picture, bytes) else (".png", encode_png(paper.picture))
        )
        place = f"papers/{paper.source}-{paper.name}{ending}"
        write_atomically(folder / place, data)
    return {**places, last: place}


def _photo_path(name: str) -> str:
    return f"photos/{name}.png"


def reverse_criteria(rubric: Rubric) -> Rubric:
    return structs.replace(rubric, criteria=rubric.criteria[::-1])


def relabel_images(rubric: Rubric) -> Rubric:
    """Return the rubric with other names for its images.

    In the prompt a label of one word ("Image") stays: there it is a word like any other.
    """
    stem = "Picture" if any(image.label.startswith("Image ") for image in rubric.images) else "Image"
    asked_first = sorted(rubric.images, key=lambda image: image.role not in rubric.roles)
    names = {image.label: f"{stem} {letter}" for image, letter in zip(asked_first, ascii_uppercase, strict=False)}
    replaced = [f"replace({_quote(old)}, {_quote(new)})" for old, new in names.items() if " " in old]
    prompt = rubric.prompt or f'{{% include "{DEFAULT_PROMPT}" %}}'
    if replaced:
        prompt = f"{{% filter {' | '.join(replaced)} %}}\n{prompt}\n{{% endfilter %}}"
    images = tuple(structs.replace(image, label=names[image.label]) for image in rubric.images)
    return structs.replace(rubric, images=images, prompt=prompt)


VARIANTS: Mapping[str, Callable[[Rubric], Rubric]] = {"order": reverse_criteria, "labels": relabel_images}


def write_variant(rubric: Rubric, folder: Path) -> Path:
    """Write a rubric as a user would (`rubric.yaml`, `prompt.md.j2`), for a suite to name; return the folder."""
    import yaml

    values = msgspec.to_builtins(rubric)
    prompt = values.pop("prompt")
    for never_in_a_file in ("style", "setting"):
        del values[never_in_a_file]
    folder.mkdir(parents=True, exist_ok=True)
    text = yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=120)
    (folder / RUBRIC_FILE).write_text(text, "utf-8", newline="\n")
    if prompt:
        (folder / PROMPT_FILE).write_text(prompt, "utf-8", newline="\n")
    return folder


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class ExamSheet:
    """Papers that are asked in one run. `variant` is empty for all papers, else `again`, `order` or `labels`."""

    variant: str
    suite: Suite


@dataclass(frozen=True, slots=True)
class Exam:
    """The exam in one rubric, in a folder.

    Attributes:
        name: How the rubric was named: its name, or a path.
        cases: The case file.
        repeated_ids: The ids of the papers that are asked again.
        papers: A digest of all papers, to the byte.
    """

    name: str
    rubric: Rubric
    cases: Path
    repeated_ids: tuple[str, ...]
    papers: str

    @property
    def folder(self) -> Path:
        return self.cases.parent


def prepare_exam(
    name: str, rubric: Rubric, folder: Path, *, photos: Sequence[Path] = (), seed: int = 0, size: str = "usual"
) -> Exam:
    """Write the papers of a rubric into a folder, or find them there; arguments as for `write_exam`.

    A user's own rubric gets the papers of a built-in one that takes the same images and texts; what each paper should
    lower is then not known.

    Raises:
        UsageError: No built-in rubric takes the same images and texts; and as `write_exam`.
    """
    if rubric.name in exam_rubrics():
        papers = write_exam(rubric, folder, photos=photos, seed=seed, size=size)
        cases = folder / CASES
    else:
        papers = write_exam(_find_similar_rubric(rubric), folder, photos=photos, seed=seed, size=size)
        cases = folder / _OWN_CASES
        lines = map(json.loads, (folder / CASES).read_text("utf-8").splitlines())
        _write_lines(cases, [_without_aims(line) for line in lines])
    return Exam(
        name, rubric, cases, _choose_repeated(papers, REPEATED_PAPERS[size], seed), _digest_papers(cases, papers)
    )


def make_sheets(exam: Exam, flags: Mapping[str, object]) -> list[ExamSheet]:
    """Return the sheets of an exam, all papers first.

    A rubric with one criterion has no variant `order`, and one without images no `labels`.

    Args:
        exam: As prepared.
        flags: Which judge is asked, and how (see `load_suite`).
    """
    common = {"rubric": exam.name, **flags}
    sheets = [ExamSheet("", _make_suite(exam, "", {**common, "cases": str(exam.cases)}))]
    again = _write_repeated_cases(exam, AGAIN)
    sheets.append(ExamSheet(AGAIN, _make_suite(exam, AGAIN, {**common, "cases": str(again), "samples": 2})))
    for variant, change in VARIANTS.items():
        changed = change(exam.rubric)
        if changed != exam.rubric:
            folder = write_variant(changed, exam.folder / "variants" / variant)
            settings = {**common, "cases": str(_write_repeated_cases(exam, variant)), "rubric": str(folder)}
            sheets.append(ExamSheet(variant, _make_suite(exam, variant, settings)))
    return sheets


def _make_suite(exam: Exam, variant: str, flags: Mapping[str, object]) -> Suite:
    """Make the suite of a sheet. Name and tags are not flags, so that a run that was renamed keeps its name when
    resumed.
    """
    suite = load_suite(None, {"audit": False, "thumbnails": not variant, **flags})
    name = "-".join(filter(None, ("exam", exam.rubric.name, variant)))
    return structs.replace(suite, name=name, tags=(*suite.tags, sheet_tag(variant), papers_tag(exam.papers)))


def _write_repeated_cases(exam: Exam, variant: str) -> Path:
    """Write the case file of the papers that are asked again."""
    path = exam.folder / f"{variant}.jsonl"
    lines = map(json.loads, exam.cases.read_text("utf-8").splitlines())
    chosen = [line for line in lines if line["id"] in exam.repeated_ids]
    _write_lines(path, [{**line, "groups": {**line["groups"], ASKED: variant}} for line in chosen])
    return path


def _choose_repeated(cases: Sequence[Case], count: int, seed: int) -> tuple[str, ...]:
    """Choose the papers to ask again: as evenly over the photographs as possible."""
    rng = random.Random(seed)
    by_source: dict[str, list[str]] = {}
    for case in cases:
        by_source.setdefault(case.groups.get(SOURCE_GROUP, ""), []).append(case.id)
    for papers in by_source.values():
        rng.shuffle(papers)
    rounds = [papers[turn] for turn in range(count) for papers in by_source.values() if turn < len(papers)]
    return tuple(rounds[:count])


def _digest_papers(cases: Path, papers: Sequence[Case]) -> str:
    """Return a digest of the case file and every image."""
    whole = hashlib.sha256(cases.read_bytes())
    for path in sorted({str(image) for case in papers for image in case.images.values()}):
        whole.update(hashlib.sha256(Path(path).read_bytes()).digest())
    return whole.hexdigest()[:8]


def _find_similar_rubric(rubric: Rubric) -> Rubric:
    """Return the built-in rubric whose papers fit a user's own: the same images, and texts that both know."""
    known = {field.name for field in rubric.fields}
    needed = {field.name for field in rubric.fields if field.required}
    takes = []
    for name in exam_rubrics():
        other = Rubric.load(name)
        fields = {field.name for field in other.fields}
        given = {field.name for field in other.fields if field.required}
        if other.roles == rubric.roles and needed <= given and fields <= known:
            return other
        takes.append(f"{' and '.join(other.roles)} with {', '.join(sorted(given))} ({name})")
    raise UsageError(
        f"There are no papers for the rubric {rubric.name!r}, which takes {' and '.join(rubric.roles) or 'no image'} "
        f"with {', '.join(sorted(needed)) or 'no text'}; there are for rubrics that take {'; '.join(takes)}."
    )


def _without_aims(line: Mapping[str, Any]) -> dict[str, Any]:
    return {**line, "groups": {key: value for key, value in line["groups"].items() if key not in ("aims", "spares")}}


def _write_lines(path: Path, lines: Sequence[Mapping[str, object]]) -> None:
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), "utf-8", newline="\n")


async def plan_sheets(sheets: Sequence[ExamSheet], ledger: Ledger | None, *, fresh: bool = False) -> JudgePlan:
    """Plan the calls of the judge for all sheets.

    A paper that is asked twice has its first answer from the first sheet, where it is counted; but not in a `fresh`
    run, which uses no answer from the ledger.
    """
    whole = JudgePlan(sheets[0].suite.judges[0].judge)
    for sheet in sheets:
        checked = check_suite_cases(sheet.suite, ledger)
        whole = _add_plans(whole, (await plan_run(sheet.suite, checked, ledger)).judges[0], 1)
        if sheet.suite.samples > 1 and not fresh:
            first = structs.replace(sheet.suite, samples=1)
            whole = _add_plans(whole, (await plan_run(first, checked, ledger)).judges[0], -1)
    return whole


def find_runs(sheets: Sequence[ExamSheet], ledger: Ledger) -> set[str]:
    """Return the ids of the runs that these sheets would resume."""
    records = [
        ledger.find(compute_fingerprint(sheet.suite, check_suite_cases(sheet.suite, ledger))) for sheet in sheets
    ]
    return {record.id for record in records if record}


def sum_spent(runs: Iterable[str], ledger: Ledger) -> Decimal:
    """Return what runs have cost, and may have cost where a process was killed."""
    return sum(((ledger.run(run).spent_usd or Decimal(0)) + ledger.reserved_usd(run) for run in runs), Decimal(0))


def _add_plans(whole: JudgePlan, more: JudgePlan, sign: int) -> JudgePlan:
    def money(a: Decimal | None, b: Decimal | None) -> Decimal | None:
        return None if a is None or b is None else a + sign * b

    counts = ("calls", "answered", "text_tokens", "image_tokens", "output_low", "output_high")
    unknown = whole.output_expected is None or more.output_expected is None
    return replace(
        whole,
        **{name: getattr(whole, name) + sign * getattr(more, name) for name in counts},
        output_expected=None if unknown else (whole.output_expected or 0) + sign * (more.output_expected or 0),
        money_low=money(whole.money_low, more.money_low),
        money_high=money(whole.money_high, more.money_high),
        money_expected=money(whole.money_expected, more.money_expected),
        learned_from=max(whole.learned_from, more.learned_from),
        rule=more.rule or whole.rule,
    )
