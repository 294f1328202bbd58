"""A run as something to compare: its scores, its grades, and what made it; and what two runs were made with unlike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from beholder.statistics.comparison.comparing import Graded
from beholder.statistics.data import Scores
from beholder.statistics.reading import scores_of_verdicts
from beholder.verdicts.model import Verdict

if TYPE_CHECKING:
    from beholder.ledger import Ledger, RunRecord
    from beholder.ledger.reading import Judged

_ASKED = {
    "judges": "The judges differ",
    "setting": "The setting differs",
    "samples": "The number of samples differs",
    "threshold": "The threshold differs",
    "gates": "The gates differ",
    "not_applicable": "What is not applicable differs",
    "max_side": "The largest side of images differs",
    "detail": "The detail of images differs",
    "styles": "The styles differ",
    "fields": "The texts for all cases differ",
}
"""What a suite says of how cases are judged, beside rubric and prompt."""


_LONGEST = 120  # characters of a value in a sentence


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """A run, read once. `grades` are by rubric and case; `models` counts verdicts by the model's name as the provider
    gave it."""

    record: RunRecord
    scores: Scores
    verdicts: int
    grades: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    models: Mapping[str, int] = field(default_factory=dict)


def read_run(ledger: Ledger, run: str) -> Told:
    """`run` as in `Ledger.run`. Its verdicts are gone through once."""
    record = ledger.run(run)
    grades: dict[str, dict[str, str]] = {}
    models: Counter[str] = Counter()
    count = 0

    def seen(judged: Iterable[Judged]) -> Iterator[tuple[Verdict, Mapping[str, str]]]:
        nonlocal count
        for one in judged:
            verdict = one.verdict
            count += 1
            if verdict.grade is not None:
                grades.setdefault(verdict.rubric, {})[verdict.case] = verdict.grade
            models.update([verdict.model] if verdict.model else ())
            yield verdict, one.groups

    scores = scores_of_verdicts(f"{record.name} ({record.id})", seen(ledger.judged(record.id)))
    return Told(record, scores, count, grades, models)


def graded(before: Told, after: Told) -> list[Graded]:
    """The grades of each rubric that gave some in both runs, in the order of the rubric; of a rubric that is not kept,
    or whose grades differ, none."""
    rubrics = [name for name in before.grades if name in after.grades]
    found = []
    for name in rubrics:
        order = _order(before.record, name)
        if order and order == _order(after.record, name):
            title = "grade" if len(rubrics) == 1 else f"{name}.grade"
            found.append(Graded(title, order, before.grades[name], after.grades[name]))
    return found


def differences(before: Told, after: Told) -> list[str]:
    """What makes two runs unlike beside the build under test, each as a sentence for people: rubrics, judges, prompts,
    settings, versions, models, and runs that are not whole."""
    said = []
    old, new = before.record, after.record
    for name, first, second in _rubrics(old, new):
        if first is None or second is None:
            said.append(f"Only {(old if second is None else new).name} was judged by the rubric {name}.")
        elif first.get("version") != second.get("version"):
            said.append(f"The rubric {name} is version {first.get('version')}, then {second.get('version')}.")
        elif first != second:
            said.append(f"The rubric {name} is not the same in both runs, though its version is.")
    for key, differs in _ASKED.items():
        if _words(old.suite.get(key)) != _words(new.suite.get(key)):
            said.append(f"{differs}: {_short(old.suite.get(key))} before, {_short(new.suite.get(key))} now.")
    if old.prompt != new.prompt:
        said.append("The prompts differ.")
    if set(before.models) != set(after.models):
        said.append(
            f"Other models answered: {_short(sorted(before.models))} before, {_short(sorted(after.models))} now."
        )
    first_version, second_version = old.versions.get("beholder"), new.versions.get("beholder")
    if first_version != second_version:
        said.append(f"Beholder was version {first_version}, then {second_version}.")
    said += [
        f"{one.scores.name} is {one.record.state}: it has {one.verdicts:,} of {one.record.total:,} verdicts."
        for one in (before, after)
        if one.verdicts < one.record.total
    ]
    return said


def _rubrics(
    old: RunRecord, new: RunRecord
) -> Iterator[tuple[str, Mapping[str, object] | None, Mapping[str, object] | None]]:
    first, second = ({str(one.get("rubric")): one for one in record.rubrics} for record in (old, new))
    for name in dict.fromkeys((*first, *second)):
        yield name, first.get(name), second.get(name)


def _order(record: RunRecord, rubric: str) -> tuple[str, ...]:
    """A rubric's grades, the best first: the order in which it is written."""
    for one in record.rubrics:
        scoring = one.get("scoring")
        if one.get("rubric") == rubric and isinstance(scoring, Mapping):
            return tuple(str(grade["grade"]) for grade in scoring.get("grades", ()))
    return ()


def _short(value: object) -> str:
    text = _words(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _words(value: object) -> str:
    """A value of a suite for people: a judge by its name, with what else is said of it in brackets."""
    if value is None or value in ([], {}, ()):
        return "none"
    if isinstance(value, Mapping):
        rest = [f"{str(key).replace('_', ' ')} {_words(inner)}" for key, inner in value.items() if key != "judge"]
        if "judge" not in value:
            return ", ".join(rest)
        return f"{value['judge']} ({', '.join(rest)})" if rest else str(value["judge"])
    if isinstance(value, list | tuple):
        return ", ".join(_words(one) for one in value)
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)
