"""The demo as a folder: pictures, case files, suites, and a page that says what to do with them.

What the demo wrote it may write again; anything else is left alone. A record in the folder tells the two apart.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from beholder.demo.files import write
from beholder.demo.model import Chapter, Pixels, Sample
from beholder.errors import UsageError

RECORD = ".beholder-demo.json"
LEDGER = "beholder.db"
SHOWN = 3  # of the files that are in the way


def build(folder: Path) -> tuple[Chapter, ...]:
    """Writes the demo into a folder, which is made if need be, and returns what it is made of. Takes a few seconds.

    A file that is as it should be is not touched, so a run on it goes on. Raises `UsageError`, before anything is
    written, where something that is not the demo's is in the way; `SetupError` where the photographs are missing.
    """
    from beholder.demo.photos import photos

    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{str(folder)!r} is a file; name a folder, new or old, to put the demo into.")
    shots = photos()
    chapters = made_of(shots)
    files = _files(chapters, shots)
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    try:
        for name in _wanting(folder, digests):
            write(folder / name, files[name])
        write(folder / RECORD, json.dumps(digests, indent=1).encode())
    except OSError as error:
        raise UsageError(
            f"The demo cannot be written: {str(error.filename or folder)!r}: {error.strerror or error}."
        ) from None
    return chapters


def made_of(shots: Mapping[str, Pixels]) -> tuple[Chapter, ...]:
    """All samples, made from the photographs."""
    from beholder.demo.descriptions import descriptions
    from beholder.demo.edits import edits
    from beholder.demo.restyles import restyles

    return (
        Chapter("restyles", "restyle", ("original", "restyled"), tuple(restyles(shots))),
        Chapter("edits", "edit-preservation", ("input", "edited"), tuple(edits(shots))),
        Chapter("descriptions", "description", ("image",), tuple(descriptions()), _GATE),
    )


def suite_path(folder: Path, chapter: Chapter) -> Path:
    return folder / f"suite-{chapter.name}.yaml"


def _files(chapters: Sequence[Chapter], shots: Mapping[str, Pixels]) -> dict[str, bytes]:
    """Every file of the demo by its name in the folder."""
    from beholder.demo.files import jpeg
    from beholder.demo.photos import CREDITS

    files = {_photo(name): jpeg(photo) for name, photo in shots.items()}
    for chapter in chapters:
        rows = [_row(chapter, sample) for sample in chapter.samples]
        files[f"{chapter.name}.jsonl"] = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
        files[suite_path(Path(), chapter).name] = _SUITE.format(chapter=chapter, ledger=LEDGER).encode()
        files |= {_picture(chapter, sample): sample.picture for sample in chapter.samples if sample.picture}
    files["README.txt"] = (_README + CREDITS).encode()
    return files


def _photo(name: str) -> str:
    return f"photos/{name}.jpg"


def _picture(chapter: Chapter, sample: Sample) -> str:
    return f"{chapter.name}/{sample.photo}-{sample.name}.jpg"


def _row(chapter: Chapter, sample: Sample) -> dict[str, object]:
    """A case with its groups; which of them are good is for tables only, no judge is told."""
    places = [_photo(sample.photo), _picture(chapter, sample)]
    return {
        "id": sample.id,
        **dict(zip(chapter.roles, places, strict=False)),
        **sample.fields,
        "source": sample.photo,
        "expected": sample.expected,
        "flaw": sample.flaw or "none",
    }


def _wanting(folder: Path, digests: Mapping[str, str]) -> list[str]:
    """The files that are not there yet, or not as they should be. Raises `UsageError` for those that are not ours."""
    own = _record(folder)
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
        more = f" and {len(foreign) - SHOWN} more" if len(foreign) > SHOWN else ""
        raise UsageError(
            f"{str(folder)!r} has files in the demo's place that the demo did not write, or that were changed since: "
            f"{', '.join(foreign[:SHOWN])}{more}. Name another folder, or remove them first."
        )
    return wanting


def _record(folder: Path) -> dict[str, str]:
    """What the demo wrote here before, by digest; nothing where there is no record that can be read."""
    try:
        found = json.loads((folder / RECORD).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


_SUITE = """\
# The demo's {chapter.name}. No judge is named, so the offline judge answers: it measures, and costs nothing.
# To ask a model instead: beholder run suite-{chapter.name}.yaml --judge openai:gpt-5-mini
name: demo-{chapter.name}
rubric: {chapter.rubric}
cases: {chapter.name}.jsonl
ledger: {ledger}
{chapter.settings}"""

_GATE = "gates: [hallucinations]    # one thing said that is not there fails a case, whatever its score\n"

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
