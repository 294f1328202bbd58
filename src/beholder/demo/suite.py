"""Write the demo into a folder (pictures, case files, suites, a README), and summarize what a judge made of it.

The demo overwrites only files that it wrote itself; a record in the folder lists them with their digests.

A verdict finds fault with a case when

- `restyle`: its percentage is below `MIN_PERCENTAGE`; where it has none (the offline judge does not answer most
  assertions), when an assertion that was answered is answered No;
- `edit-preservation`: one of the three factors is `MAX_FAULTY_SCORE` or less, the middle of the scale of 7;
- `description`: it did not pass; where there is no score because something was not answered, when it cannot pass.

A verdict that answers nothing at all has no opinion and catches nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from beholder.demo.cases import BAD, DemoSample, DemoSuite, make_descriptions, make_edits, make_restyles
from beholder.demo.drawings import DRAWING_CREDITS, DRAWINGS, load_drawings
from beholder.demo.drawn_cases import make_drawn_edits, make_drawn_restyles
from beholder.demo.photos import CREDITS, Pixels, encode_jpeg, load_photos
from beholder.errors import SetupError, UsageError
from beholder.judges.audit import DISAGREE
from beholder.ledger.types import StoredVerdict
from beholder.verdicts.verdict import Verdict, format_beside, format_count, format_share, round_half_up

RECORD_NAME = ".beholder-demo.json"
LEDGER_NAME = "beholder.db"
MAX_SHOWN = 3  # files listed in an error

MIN_PERCENTAGE = 60  # grade C
MAX_FAULTY_SCORE = 4
PASS_THRESHOLD = 0.7  # the rubric's own threshold
MAX_REASONS = 2  # shown for one case
MAX_LISTED = 4  # missing elements shown for one description

CAUGHT, MISSED, FINE, FALSE_ALARM, NO_OPINION = "caught", "missed", "fine", "false alarm", "no opinion"
# By whether the judge finds fault, and whether the case is bad.
_OUTCOMES = {(True, True): CAUGHT, (True, False): FALSE_ALARM, (False, True): MISSED, (False, False): FINE}

FAULT_RULES = {
    "restyle": f"Found bad: below {MIN_PERCENTAGE} %, or where there is no total, an answered assertion is No.",
    "edit-preservation": "Found bad: unchanged regions · global consistency · identity: any "
    f"{MAX_FAULTY_SCORE} or less.",
    "description": f"Found bad: it did not pass: below {PASS_THRESHOLD}, or with something in it that is not there.",
}


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file completely or not at all. A file that has this content already is not touched, so that runs on it
    resume.
    """
    if path.is_file() and path.read_bytes() == data:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_bytes(data)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def build_demo(folder: str | os.PathLike[str]) -> tuple[DemoSuite, ...]:
    """Write the demo into a folder, which is created if needed. Takes a few seconds.

    It is about photographs that come with the extra `demo`, or without that, about pictures that are drawn here. Files
    with the right content are not touched, so that runs on them resume.

    Returns:
        The suites of the demo.

    Raises:
        UsageError: A file that the demo did not write is in the way (nothing is written then), or the folder cannot be
            written to.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{str(folder)!r} is a file; name a folder, new or old, to put the demo into.")
    try:
        photos = load_photos()
    except SetupError:
        photos = load_drawings()
    suites = make_suites(photos)
    files = _make_files(suites, photos)
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    try:
        for name in _find_outdated(folder, digests):
            write_atomically(folder / name, files[name])
        write_atomically(folder / RECORD_NAME, json.dumps(digests, indent=1).encode())
    except OSError as error:
        raise UsageError(
            f"The demo cannot be written: {str(error.filename or folder)!r}: {error.strerror or error}."
        ) from None
    return suites


def make_suites(photos: Mapping[str, Pixels]) -> tuple[DemoSuite, ...]:
    """Make all samples from the photographs, or from the drawings."""
    if photos.keys() == DRAWINGS.keys():
        return (
            DemoSuite("restyles", "restyle", ("original", "restyled"), tuple(make_drawn_restyles(photos))),
            DemoSuite("edits", "edit-preservation", ("input", "edited"), tuple(make_drawn_edits())),
            DemoSuite(
                "descriptions",
                "description",
                ("image",),
                tuple(make_descriptions("drawn_descriptions.yaml")),
                _DESCRIPTION_GATES,
            ),
        )
    return (
        DemoSuite("restyles", "restyle", ("original", "restyled"), tuple(make_restyles(photos))),
        DemoSuite("edits", "edit-preservation", ("input", "edited"), tuple(make_edits(photos))),
        DemoSuite("descriptions", "description", ("image",), tuple(make_descriptions()), _DESCRIPTION_GATES),
    )


def get_suite_path(folder: Path, suite: DemoSuite) -> Path:
    return folder / f"suite-{suite.name}.yaml"


def _make_files(suites: Sequence[DemoSuite], photos: Mapping[str, Pixels]) -> dict[str, bytes]:
    """Return every file of the demo by its name in the folder."""
    files = {_get_photo_path(name): encode_jpeg(photo) for name, photo in photos.items()}
    for suite in suites:
        rows = [_make_case_row(suite, sample) for sample in suite.samples]
        files[f"{suite.name}.jsonl"] = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
        files[get_suite_path(Path(), suite).name] = _SUITE_TEMPLATE.format(suite=suite, ledger=LEDGER_NAME).encode()
        files |= {
            _get_picture_path(suite, sample): sample.picture_jpeg for sample in suite.samples if sample.picture_jpeg
        }
    files["README.txt"] = _make_readme(drawn=photos.keys() == DRAWINGS.keys()).encode()
    return files


def _make_readme(*, drawn: bool) -> str:
    if drawn:
        return (
            _README.format(what="four pictures", plural="pictures", case="harbor/green-cast") + _DRAWN + DRAWING_CREDITS
        )
    return (
        _README.format(what="seven photographs", plural="photographs", case="motorcycle/blue-cast") + _SHIPPED + CREDITS
    )


def _get_photo_path(name: str) -> str:
    return f"photos/{name}.jpg"


def _get_picture_path(suite: DemoSuite, sample: DemoSample) -> str:
    return f"{suite.name}/{sample.photo_name}-{sample.name}.jpg"


def _make_case_row(suite: DemoSuite, sample: DemoSample) -> dict[str, object]:
    """Return a case with its groups. Groups say which cases are good, for tables; no judge sees them."""
    places = [_get_photo_path(sample.photo_name), _get_picture_path(suite, sample)]
    return {
        "id": sample.id,
        **dict(zip(suite.roles, places, strict=False)),
        **sample.fields,
        "source": sample.photo_name,
        "expected": sample.expected,
        "flaw": sample.flaw or "none",
    }


def _find_outdated(folder: Path, digests: Mapping[str, str]) -> list[str]:
    """Return the files that are missing or differ.

    Raises:
        UsageError: One of them was not written by the demo.
    """
    own = _read_record(folder)
    wanting, foreign = [], []
    for name, digest in digests.items():
        path = folder / name
        if not path.exists():
            wanting.append(name)
        elif not path.is_file():
            foreign.append(name)
        elif (found := hashlib.sha256(path.read_bytes()).hexdigest()) != digest:
            wanting.append(name)
            if found != own.get(name):
                foreign.append(name)
    if foreign:
        more = f" and {len(foreign) - MAX_SHOWN} more" if len(foreign) > MAX_SHOWN else ""
        raise UsageError(
            f"{str(folder)!r} has files in the demo's place that the demo did not write, or that were changed since: "
            f"{', '.join(foreign[:MAX_SHOWN])}{more}. Name another folder, or remove them first."
        )
    return wanting


def _read_record(folder: Path) -> dict[str, str]:
    """Return what the demo wrote here before, by digest; nothing where there is no readable record."""
    try:
        found = json.loads((folder / RECORD_NAME).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


_SUITE_TEMPLATE = """\
# The demo's {suite.name}. No judge is named, so the offline judge answers: it measures, and costs nothing.
# To ask a model instead: beholder run suite-{suite.name}.yaml --judge openai:gpt-5-mini
name: demo-{suite.name}
rubric: {suite.rubric}
cases: {suite.name}.jsonl
ledger: {ledger}
{suite.settings}"""

_DESCRIPTION_GATES = "gates: [hallucinations]    # one thing said that is not there fails a case, whatever its score\n"

_README = """\
A small suite to try Beholder on, written by `beholder demo`.

  photos/                    {what}
  restyles/                  the {plural} in other styles
  edits/                     the {plural} with one thing changed
  *.jsonl                    the cases; `expected` says which are good and which bad, `flaw` what is wrong with them.
                             Both are groups, by which tables are split; no judge is told.
  suite-restyles.yaml        judged by the rubric restyle
  suite-edits.yaml           judged by the rubric edit-preservation
  suite-descriptions.yaml    judged by the rubric description
  beholder.db                the ledger: every run, answer and verdict

Run these in this folder. The offline judge, which measures and asks nobody:

  beholder run suite-edits.yaml

A judge of your own; its key is read from the environment, `plan` says beforehand what it would cost:

  beholder plan suite-edits.yaml --judge openai:gpt-5-mini
  beholder run suite-edits.yaml --judge openai:gpt-5-mini
  beholder run suite-edits.yaml --judge openai:MODEL --base-url http://localhost:8000/v1

All three suites and the table of what was caught and what was missed:

  beholder demo . --judge openai:gpt-5-mini

What came of it:

  beholder runs --ledger beholder.db
  beholder show demo-edits --by expected --ledger beholder.db
  beholder show demo-edits {case} --ledger beholder.db

The restyles, the edits and the descriptions were made for this suite; some are good, some are bad on purpose. The
"""

_SHIPPED = "photographs come with scikit-image (the first five) and scikit-learn (the last two):\n\n"

_DRAWN = """\
pictures are drawn; with photographs in their place: pip install 'beholder[demo]', and another folder.

"""


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What a judge made of one case.

    Attributes:
        case: The id of the case.
        flaw: What is wrong with it; empty where nothing is.
        outcome: `CAUGHT`, `MISSED`, `FINE`, `FALSE_ALARM` or `NO_OPINION`.
        numbers: The verdict in numbers.
        reason: Why the judge found fault, or has no opinion.
    """

    case: str
    flaw: str
    outcome: str
    numbers: str
    reason: str


def summarize_verdict(stored: StoredVerdict) -> DemoResult:
    """Summarize a verdict on a case of the demo, whose groups `expected` and `flaw` say what is known."""
    verdict, groups = stored.verdict, stored.groups
    fault, numbers, reason = _read_opinion(verdict)
    if contradicted := sum(flag.flag == DISAGREE for flag in verdict.flags):
        numbers += f", the pixels disagree ({contradicted})"
    bad = groups.get("expected") == BAD
    outcome = NO_OPINION if fault is None else _OUTCOMES[fault, bad]
    return DemoResult(verdict.case, groups.get("flaw", "") if bad else "", outcome, numbers, reason)


def count_results(results: Iterable[DemoResult]) -> str:
    """Format how many cases were caught, missed and so on."""
    outcomes: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    for result in results:
        outcomes[bool(result.flaw)][result.outcome] += 1
    bad, good = outcomes[True], outcomes[False]
    sentences = (
        [f"{bad[CAUGHT]} of {bad.total()} bad ones caught", f"{bad[MISSED]} missed", *_format_no_opinion(bad)],
        [
            f"{good[FINE]} of {good.total()} good ones found fine",
            format_count(good[FALSE_ALARM], FALSE_ALARM),
            *_format_no_opinion(good),
        ],
    )
    return "; ".join(", ".join(parts) for parts in sentences)


def _format_no_opinion(outcomes: Mapping[str, int]) -> list[str]:
    return [f"{outcomes[NO_OPINION]} without an opinion"] if outcomes[NO_OPINION] else []


def _read_opinion(verdict: Verdict) -> tuple[bool | None, str, str]:
    """Return whether a verdict finds fault (None if it has no opinion), its numbers, and its reason."""
    if not verdict.answered:
        return None, str(verdict.outcome), verdict.detail
    if verdict.rubric == "edit-preservation":
        return _read_factors(verdict)
    if any(result.assertions for result in verdict.criteria.values()):
        return _read_assertions(verdict)
    return _read_description(verdict)


def _read_assertions(verdict: Verdict) -> tuple[bool | None, str, str]:
    answered = [one for result in verdict.criteria.values() for one in result.assertions if one.answer in ("yes", "no")]
    failed = [one for one in answered if one.answer == "no"]
    numbers = f"{len(failed)} No of {len(answered)}"
    if verdict.percentage is not None:
        fault: bool | None = verdict.percentage < MIN_PERCENTAGE
        numbers = f"{format_beside(verdict.percentage, [MIN_PERCENTAGE], 0)} %, {numbers}"
    else:
        fault = bool(failed) if answered else None
    reasons = dict.fromkeys(one.evidence or one.question for one in failed)
    return fault, numbers, _join_reasons(list(reasons))


def _read_factors(verdict: Verdict) -> tuple[bool | None, str, str]:
    scores = {key: result for key, result in verdict.criteria.items() if result.score is not None}
    shown = (
        "–" if result.score is None else f"{round_half_up(result.score):g}" for result in verdict.criteria.values()
    )
    numbers = " · ".join(shown)
    if not scores:
        reasons = dict.fromkeys(result.reason for result in verdict.criteria.values() if result.reason)
        return None, numbers, _join_reasons(list(reasons))
    worst = min(scores.values(), key=lambda result: result.score if result.score is not None else 0)
    fault = worst.score is not None and worst.score <= MAX_FAULTY_SCORE
    return fault, numbers, worst.reason if fault else ""


def _read_description(verdict: Verdict) -> tuple[bool | None, str, str]:
    if verdict.score is not None:
        fault: bool | None = verdict.passed is False
        score = format_share(verdict.score, decisive=verdict.is_decisive)
        numbers = f"{score} {'passed' if verdict.passed else 'failed'}"
    else:
        results = verdict.criteria.values()  # what was not answered counts as perfect
        reached = sum(result.weight * (result.scale[1] if result.score is None else result.score) for result in results)
        best = reached / sum(result.weight for result in results)
        fault = True if best < PASS_THRESHOLD else None
        numbers = f"at best {best:.2f}"
    return fault, numbers, "" if fault is False else _describe_findings(verdict)


def _describe_findings(verdict: Verdict) -> str:
    """Return what was said but is not there; else what is missing; else the reason of the lowest score."""
    invented, missing = (verdict.findings.get(key, ()) for key in ("hallucinations", "missing_elements"))
    if invented:
        return _join_reasons(list(invented))
    if missing:
        more = f" and {len(missing) - MAX_LISTED} more" if len(missing) > MAX_LISTED else ""
        return f"missing: {', '.join(missing[:MAX_LISTED])}{more}"
    scored = [result for result in verdict.criteria.values() if result.score is not None]
    return min(scored, key=lambda result: result.score or 0).reason if scored else verdict.assessment


def _join_reasons(reasons: list[str]) -> str:
    """Join the first reasons, with the number of the others."""
    more = f" (+ {format_count(len(reasons) - MAX_REASONS, 'more reason')})" if len(reasons) > MAX_REASONS else ""
    return " · ".join(reasons[:MAX_REASONS]) + more
