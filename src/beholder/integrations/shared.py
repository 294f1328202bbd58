"""What adapters share: ids of cases, verdicts as Markdown and in short, the options of a suite, `GraderConfig`.

A `GraderConfig` is how a host that starts a process for each case says what is judged by whom.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from beholder.api.options import OptionsLike
    from beholder.rubrics.rubric import Rubric
    from beholder.runs.suite import Suite
    from beholder.verdicts.verdict import CriterionResult, Verdict

_MARKDOWN = re.compile(r"([\\`*_\[\]<>|!#~])")
_MAX_QUOTED = 600  # characters of what a judge said


def fit_id(text: str) -> str:
    """Return the name that a host has for a case as an id: printable, and not too long. The end is kept, which differs
    more often than the beginning."""
    from beholder.cases.case import MAX_ID

    id_ = "".join(sign if sign.isprintable() else "?" for sign in text) or "case"
    if len(id_) <= MAX_ID:
        return id_
    digest = hashlib.sha256(id_.encode()).hexdigest()[:8]
    return f"…{id_[len(id_) - MAX_ID + 11 :]} {digest}"


def criterion_share(result: CriterionResult) -> float | None:
    """Return where the score of a criterion lies on its scale, 0–1; `None` where it has none."""
    low, high = result.scale
    return None if result.score is None else float((result.score - low) / (high - low))


def describe_criterion(result: CriterionResult) -> str:
    """Return why a criterion has its score: its reason, or the evidence of what was answered No."""
    return result.reason or "; ".join(
        f"{one.question} {one.evidence}".strip() for one in result.assertions if one.answer == "no"
    )


def show_score(result: CriterionResult) -> str:
    """Return the score of a criterion for people: `6 of 7`, `no score`."""
    return "no score" if result.score is None else f"{result.score:.4g} of {result.scale[1]:g}"


def verdict_summary(verdict: Verdict, run_id: str | None) -> dict[str, object]:
    """Return what a host keeps beside the score as metadata: where the verdict is found, who gave it, on what.

    Images are there by their digests only: hosts store metadata as it is, and show it.
    """
    summary: dict[str, object] = {
        "run": run_id,
        "case": verdict.case,
        "rubric": verdict.rubric,
        "rubric_version": verdict.rubric_version,
        "judge": verdict.judge,
        "model": verdict.model,
        "outcome": str(verdict.outcome),
        "score": verdict.score,
        "passed": verdict.passed,
        "grade": verdict.grade,
        "cost_usd": None if verdict.cost_usd is None else float(verdict.cost_usd),
        "brief_digest": verdict.brief_digest,
        "images": [{"role": one.role, "digest": one.source_digest} for one in verdict.images],
        "flags": [flag.flag for flag in verdict.flags],
    }
    return {name: value for name, value in summary.items() if value not in (None, "", [])}


def verdict_markdown(verdict: Verdict) -> str:
    """Return a verdict as Markdown: its score, a table of its criteria, and what failed or is flagged.

    What a judge said is quoted as plain text: nothing in it becomes a link, an image or HTML.
    """
    return "\n".join(_list_markdown(verdict))


def _list_markdown(verdict: Verdict) -> Iterator[str]:
    who = f"{_quote(verdict.judge)}, {verdict.rubric} {verdict.rubric_version}"
    if verdict.score is None:
        yield f"**No score**: {_quote(verdict.missing_score_reason)} ({who})"
    else:
        grades = [f"grade {verdict.grade}"] if verdict.grade else []
        grades += [] if verdict.passed is None else ["passed" if verdict.passed else "did not pass"]
        winner = verdict.preference.winner if verdict.preference is not None else None
        score = f"{verdict.score:.4g}" if winner is None else winner.replace("_", " ")
        yield f"**{', '.join([score, *grades])}** ({who})"
    if verdict.criteria:
        yield from ("", "| criterion | score | why |", "|---|---|---|")
    for key, one in verdict.criteria.items():
        score = (one.choice or "no answer").replace("_", " ") if verdict.preference is not None else show_score(one)
        yield f"| {_quote(key.replace('_', ' '))} | {score} | {_quote(describe_criterion(one))} |"
    notes = [f"{key.replace('_', ' ')}: {item}" for key, items in verdict.findings.items() for item in items]
    notes += [verdict.assessment] if verdict.assessment else []
    marks = [(one.at, one.why) for one in verdict.corrections] + [(one.at, one.why) for one in verdict.flags]
    notes += [f"{at}: {why}" if at else why for at, why in marks if why]
    if notes:
        yield ""
    yield from (f"- {_quote(note)}" for note in dict.fromkeys(notes))


def _quote(text: str) -> str:
    short = " ".join(text.split())
    short = short if len(short) <= _MAX_QUOTED else f"{short[: _MAX_QUOTED - 1]}…"
    return _MARKDOWN.sub(r"\\\1", short)


def suite_options(suite: Suite) -> dict[str, object]:
    """Return what a suite sets of the options of a session. Its judges, and the scoring of its rubrics, are made from
    the suite itself."""
    from beholder.api.options import Options

    # Paths in a suite are relative to its file.
    files = {"prompt": None, "calibration": suite.calibration_path(), "styles": list(map(str, suite.style_folders()))}
    options: dict[str, object] = {"prompt_text": suite.prompt_text()}
    for one in fields(Options):
        if one.name in files:
            options[one.name] = files[one.name]
        elif one.name not in ("prompt_text", "threshold", "gates", "not_applicable"):
            place = suite.limits if hasattr(suite.limits, one.name) else suite
            if hasattr(place, one.name):
                options[one.name] = getattr(place, one.name)
    return list_options(options)


def list_options(given: OptionsLike) -> dict[str, object]:
    """Return the options that are set, of a mapping or of `Options`. Raises `UsageError`."""
    from beholder.api.options import Options

    made, usual = Options.of(given), Options()
    return {
        one.name: getattr(made, one.name) for one in fields(made) if getattr(made, one.name) != getattr(usual, one.name)
    }


def parse_pairs(given: object, what: str) -> Mapping[str, str]:
    """Return pairs that a mapping, or texts such as `input=user[0]`, say.

    Raises:
        UsageError: They say something else; `what` names them.
    """
    from beholder.errors import UsageError

    if given is None:
        return {}
    if isinstance(given, str):
        given = given.split(",")
    if isinstance(given, list | tuple) and all(isinstance(one, str) and "=" in one for one in given):
        given = dict(one.split("=", 1) for one in given)
    if not isinstance(given, Mapping) or not all(isinstance(one, str) for pair in given.items() for one in pair):
        raise UsageError(f"{what} says which is which, as {{name: place}} or name=place, and {given!r:.80} does not.")
    return {name.strip(): place.strip() for name, place in given.items()}


GRADER_KEYS = (
    *("rubric", "judge", "images", "fields", "roots", "threshold", "samples", "budget", "ledger", "name", "options"),
)
GRADER_LEDGER = "beholder.db"

_DATA = re.compile(r"data:image/[\w.+-]+;base64,[A-Za-z0-9+/=]+")
_MARKDOWN_IMAGE = re.compile(r"!\[[^\]]*\]\(\s*<?([^)>\s]+)")
_MAX_PATH = 4096


@dataclass(frozen=True)
class GraderConfig:
    """How a host that starts a process for each case says what is judged by whom. All processes share one run in a
    ledger, and with it answers and budget.

    Attributes:
        values: The values of `GRADER_KEYS` that are given.
        where: What messages call the place that has them.
    """

    values: Mapping[str, Any]
    where: str

    @classmethod
    def read(cls, values: object, where: str) -> Self:
        """Return the configuration. Raises `UsageError` for unknown keys, and if no rubric is named."""
        from beholder.api.options import suggest_name
        from beholder.errors import UsageError

        given = values if isinstance(values, Mapping) else {}
        for key in given:
            if key not in GRADER_KEYS:
                raise UsageError(f"{where} has {key!r}, which is no key of it; {suggest_name(key, GRADER_KEYS)}")
        if not isinstance(given.get("rubric"), str):
            raise UsageError(f"{where} needs a rubric, such as `rubric: edit-preservation`.")
        return cls(given, where)

    def load_rubric(self) -> Rubric:
        """Return the rubric; of several the first, which `judge` refuses with a sentence."""
        from beholder.api.options import Options

        return Options.of(self._options()).load_rubrics(self.values["rubric"])[0]

    def places(self, key: str, known: Sequence[str], pattern: re.Pattern[str], allowed: str) -> dict[str, str]:
        """Return where `images` or `fields` (`key`) are, as it says.

        Raises:
            UsageError: A name is not in `known`, or a place does not match.
        """
        from beholder.errors import UsageError

        pairs = dict(parse_pairs(self.values.get(key), f"`{key}` of {self.where}"))
        for name, place in pairs.items():
            if name not in known or not pattern.fullmatch(place):
                raise UsageError(
                    f"`{key}` of {self.where} says that {name} is {place!r}; there are {', '.join(known) or 'none'}, "
                    f"and each is {allowed}."
                )
        return pairs

    def find_output_image(self, image: str, *folders: str) -> str:
        """Return an image that an output names, whose text may be a model's: no file but one below the working folder,
        `folders`, or the `roots` that the configuration names. Addresses are left to `options.allow_remote`.

        Raises:
            UsageError: It is another file, or no image.
        """
        from beholder.images.source import is_remote
        from beholder.integrations.file_access import FileAccess

        if is_remote(image):
            return image
        given = self.values.get("roots") or ()
        allowed = (os.getcwd(), *folders, *([given] if isinstance(given, str) else given))
        roots = tuple(Path(os.path.realpath(Path(folder).expanduser())) for folder in allowed)
        return FileAccess(roots, f"images of an output (`roots` of {self.where})").find_image(image)

    def judge(self, inputs: Mapping[str, object], host: str) -> tuple[Verdict, str | None]:
        """Judge a case, and return the verdict and the id of the run.

        Raises:
            UsageError: Something of the configuration or the inputs is wrong.
        """
        from beholder.api.session import Session

        values = self.values
        ledger = values.get("ledger", GRADER_LEDGER)
        with Session(
            values.get("judge"),
            ledger=ledger,
            name=values.get("name") or (None if ledger is None else self._name_run(host)),
            budget=values.get("budget"),
            samples=values.get("samples", 1),
            options=self._options(),
        ) as session:
            return session.judge(values["rubric"], **inputs), session.run_id

    def _options(self) -> dict[str, Any]:
        threshold = self.values.get("threshold")
        return {**(self.values.get("options") or {}), **({} if threshold is None else {"threshold": threshold})}

    def _name_run(self, host: str) -> str:
        """Return a name that is the same for all cases of one evaluation, whose process started this one."""
        setup = {key: value for key, value in self.values.items() if key not in ("rubric", "images", "fields", "roots")}
        digest = hashlib.sha256(json.dumps(setup, sort_keys=True, default=str).encode()).hexdigest()[:6]
        return f"{host}-{time.strftime('%y%m%d')}-{os.getppid()}-{digest}"


def list_images(text: str, more: re.Pattern[str] | None = None) -> list[str]:
    """Return the images in a text, in order: data URIs, what `more` finds, targets of Markdown images; or the one path
    or address that the text is."""
    text = text.strip()
    patterns = [pattern for pattern in (_DATA, more) if pattern is not None]
    inside = sorted((match.start(), match.group()) for pattern in patterns for match in pattern.finditer(text))
    if inside:
        return [image for _, image in inside]
    if named := _MARKDOWN_IMAGE.findall(text):
        return list(named)
    is_short = 0 < len(text) < _MAX_PATH and text.isprintable()
    is_address = text.startswith(("http://", "https://", "file://"))
    return [text] if is_short and (is_address or Path(text).is_file()) else []
