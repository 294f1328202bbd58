"""The demo as a folder: pictures, case files, suites, and a page that says what to do with them.

What the demo wrote it may write again; anything else is left alone. A record in the folder tells the two apart.

What a judge made of the demo: which of the bad ones it caught and why, which it missed, and where it cried wolf.

A verdict finds fault with a case when
- `restyle`: its percentage is below `LEAST_PERCENTAGE`; where it has none (the offline judge leaves most assertions
  open), when an assertion that was answered is answered No;
- `edit-preservation`: one of the three factors is `FAULTY_FACTOR` or less, the middle of the scale of 7;
- `description`: it did not pass; where some of it was left open and there is no score, when it cannot pass.
A verdict that answers nothing at all has no opinion, which is not a catch.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from beholder.demo.cases import BAD, DemoSample, DemoSuite
from beholder.demo.photos import Pixels
from beholder.errors import UsageError
from beholder.judges.audit import DISAGREE
from beholder.ledger.types import StoredVerdict
from beholder.verdicts.verdict import CriterionResult, Verdict, format_count, round_half_up


def write_atomically(path: Path, data: bytes) -> None:
    """All of it or nothing. A file that holds it already is not touched, so that a run on it goes on."""
    if path.is_file() and path.read_bytes() == data:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_bytes(data)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


RECORD_NAME = ".beholder-demo.json"
LEDGER_NAME = "beholder.db"
MAX_SHOWN = 3  # of the files that are in the way


def build_demo(folder: Path) -> tuple[DemoSuite, ...]:
    """Writes the demo into a folder, which is made if need be, and returns what it is made of. Takes a few seconds.

    A file that is as it should be is not touched, so a run on it goes on. Raises `UsageError`, before anything is
    written, where something that is not the demo's is in the way; `SetupError` where the photographs are missing.
    """
    from beholder.demo.photos import load_photos

    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{str(folder)!r} is a file; name a folder, new or old, to put the demo into.")
    photos = load_photos()
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
    """All samples, made from the photographs."""
    from beholder.demo.cases import make_descriptions, make_edits, make_restyles

    return (
        DemoSuite("restyles", "restyle", ("original", "restyled"), tuple(make_restyles(photos))),
        DemoSuite("edits", "edit-preservation", ("input", "edited"), tuple(make_edits(photos))),
        DemoSuite("descriptions", "description", ("image",), tuple(make_descriptions()), _DESCRIPTION_GATES),
    )


def get_suite_path(folder: Path, suite: DemoSuite) -> Path:
    return folder / f"suite-{suite.name}.yaml"


def _make_files(suites: Sequence[DemoSuite], photos: Mapping[str, Pixels]) -> dict[str, bytes]:
    """Every file of the demo by its name in the folder."""
    from beholder.demo.photos import CREDITS, encode_jpeg

    files = {_get_photo_path(name): encode_jpeg(photo) for name, photo in photos.items()}
    for suite in suites:
        rows = [_make_case_row(suite, sample) for sample in suite.samples]
        files[f"{suite.name}.jsonl"] = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
        files[get_suite_path(Path(), suite).name] = _SUITE_TEMPLATE.format(suite=suite, ledger=LEDGER_NAME).encode()
        files |= {
            _get_picture_path(suite, sample): sample.picture_jpeg for sample in suite.samples if sample.picture_jpeg
        }
    files["README.txt"] = (_README + CREDITS).encode()
    return files


def _get_photo_path(name: str) -> str:
    return f"photos/{name}.jpg"


def _get_picture_path(suite: DemoSuite, sample: DemoSample) -> str:
    return f"{suite.name}/{sample.photo_name}-{sample.name}.jpg"


def _make_case_row(suite: DemoSuite, sample: DemoSample) -> dict[str, object]:
    """A case with its groups; which of them are good is for tables only, no judge is told."""
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
    """The files that are not there yet, or not as they should be. Raises `UsageError` for those that are not ours."""
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
    """What the demo wrote here before, by digest; nothing where there is no record that can be read."""
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

  photos/                    seven photographs
  restyles/                  the photographs in other styles
  edits/                     the photographs with one thing changed
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
  beholder show demo-edits motorcycle/blue-cast --ledger beholder.db

The restyles, the edits and the descriptions were made for this suite; some are good, some are bad on purpose. The
photographs come with scikit-image (the first five) and scikit-learn (the last two):

"""


MIN_PERCENTAGE = 60  # grade C
MAX_FAULTY_SCORE = 4
PASS_THRESHOLD = 0.7  # the rubric's own threshold
MAX_REASONS = 2  # that are told of one case
MAX_LISTED = 4  # of what is missing in a description

CAUGHT, MISSED, FINE, FALSE_ALARM, NO_OPINION = "caught", "missed", "fine", "false alarm", "no opinion"

FAULT_RULES = {
    "restyle": f"Found bad: below {MIN_PERCENTAGE} %, or where there is no total, an answered assertion is No.",
    "edit-preservation": f"Found bad: unchanged regions · global consistency · identity: any {MAX_FAULTY_SCORE} or less.",
    "description": f"Found bad: it did not pass: below {PASS_THRESHOLD}, or with something in it that is not there.",
}


@dataclass(frozen=True, slots=True)
class DemoResult:
    """One case: what is wrong with it (empty: nothing), what became of it, what was said in numbers, and why."""

    case: str
    flaw: str
    outcome: str
    numbers: str
    reason: str


def summarize_verdict(judged: StoredVerdict) -> DemoResult:
    """A verdict on a case of the demo, in words. Its groups `expected` and `flaw` say what is known."""
    verdict, groups = judged.verdict, judged.groups
    fault, said, why = _read_opinion(verdict)
    if contradicted := sum(flag.flag == DISAGREE for flag in verdict.flags):
        said += f", the pixels disagree ({contradicted})"
    bad = groups.get("expected") == BAD
    mark = NO_OPINION if fault is None else (CAUGHT if bad else FALSE_ALARM) if fault else (MISSED if bad else FINE)
    return DemoResult(verdict.case, groups.get("flaw", "") if bad else "", mark, said, why)


def count_results(all_told: Iterable[DemoResult]) -> str:
    """How many were caught and how many were not: nothing is left out."""
    marks: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    for one in all_told:
        marks[bool(one.flaw)][one.outcome] += 1
    bad, good = marks[True], marks[False]
    sentences = (
        [f"{bad[CAUGHT]} of {bad.total()} bad ones caught", f"{bad[MISSED]} missed", *_format_no_opinion(bad)],
        [
            f"{good[FINE]} of {good.total()} good ones found fine",
            format_count(good[FALSE_ALARM], FALSE_ALARM),
            *_format_no_opinion(good),
        ],
    )
    return "; ".join(", ".join(parts) for parts in sentences)


def _format_no_opinion(marks: Mapping[str, int]) -> list[str]:
    return [f"{marks[NO_OPINION]} without an opinion"] if marks[NO_OPINION] else []


def _read_opinion(verdict: Verdict) -> tuple[bool | None, str, str]:
    """Whether a verdict finds fault (`None`: it has no opinion), its numbers, and its reason."""
    if not verdict.scored:
        return None, str(verdict.outcome), verdict.detail
    if verdict.rubric == "edit-preservation":
        return _read_factors(verdict)
    if any(result.assertions for result in verdict.criteria.values()):
        return _read_assertions(verdict)
    return _read_description(verdict)


def _read_assertions(verdict: Verdict) -> tuple[bool | None, str, str]:
    answered = [one for result in verdict.criteria.values() for one in result.assertions if one.answer in ("yes", "no")]
    failed = [one for one in answered if one.answer == "no"]
    said = f"{len(failed)} No of {len(answered)}"
    if verdict.percentage is not None:
        fault: bool | None = verdict.percentage < MIN_PERCENTAGE
        said = f"{round_half_up(verdict.percentage, 0):.0f} %, {said}"
    else:
        fault = bool(failed) if answered else None
    reasons = dict.fromkeys(one.evidence or one.question for one in failed)
    return fault, said, _join_reasons(list(reasons))


def _read_factors(verdict: Verdict) -> tuple[bool | None, str, str]:
    scores = {key: result for key, result in verdict.criteria.items() if result.score is not None}
    said = " · ".join(_format_score(result) for result in verdict.criteria.values())
    if not scores:
        return (
            None,
            said,
            _join_reasons(list(dict.fromkeys(one.reason for one in verdict.criteria.values() if one.reason))),
        )
    worst = min(scores.values(), key=lambda result: result.score if result.score is not None else 0)
    fault = worst.score is not None and worst.score <= MAX_FAULTY_SCORE
    return fault, said, worst.reason if fault else ""


def _read_description(verdict: Verdict) -> tuple[bool | None, str, str]:
    if verdict.score is not None:
        fault: bool | None = verdict.passed is False
        said = f"{round_half_up(verdict.score):.2f} {'passed' if verdict.passed else 'failed'}"
    else:
        best = _compute_best_score(verdict)
        fault = True if best < PASS_THRESHOLD else None
        said = f"at best {best:.2f}"
    return fault, said, "" if fault is False else _describe_findings(verdict)


def _describe_findings(verdict: Verdict) -> str:
    """What was said and is not there; else what is there and was not said; else the reason of the lowest score."""
    invented, missing = (verdict.findings.get(key, ()) for key in ("hallucinations", "missing_elements"))
    if invented:
        return _join_reasons(list(invented))
    if missing:
        more = f" and {len(missing) - MAX_LISTED} more" if len(missing) > MAX_LISTED else ""
        return f"missing: {', '.join(missing[:MAX_LISTED])}{more}"
    scored = [result for result in verdict.criteria.values() if result.score is not None]
    return min(scored, key=lambda result: result.score or 0).reason if scored else verdict.assessment


def _compute_best_score(verdict: Verdict) -> float:
    """The score if everything that was left open were perfect."""
    results = verdict.criteria.values()
    reached = sum(result.weight * (result.scale[1] if result.score is None else result.score) for result in results)
    return reached / sum(result.weight for result in results)


def _format_score(result: CriterionResult) -> str:
    return "–" if result.score is None else f"{round_half_up(result.score):g}"


def _join_reasons(reasons: list[str]) -> str:
    """The first reasons, and how many more there are."""
    more = f" (+ {format_count(len(reasons) - MAX_REASONS, 'more reason')})" if len(reasons) > MAX_REASONS else ""
    return " · ".join(reasons[:MAX_REASONS]) + more
