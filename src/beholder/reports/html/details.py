"""A verdict as the page keeps it: everything but what can be told from the rest, and no empty values."""

from __future__ import annotations

from collections.abc import Mapping

from beholder.ledger.browsing import LEFT_OPEN
from beholder.ledger.reading import Judged
from beholder.reports.html.texts import plain_values

_NEEDLESS = {"rubric_version", "score_derived"}


class Numbered:
    """Texts that come again and again, each kept once and known by its number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers))

    @property
    def texts(self) -> list[str]:
        return list(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)


def state_of(one: Judged) -> str:
    """The outcome, or `left_open`."""
    verdict = one.verdict
    return LEFT_OPEN if verdict.scored and verdict.score is None else str(verdict.outcome)


def detail(
    one: Judged, fields: Mapping[str, object], questions: Numbered, pictures: Mapping[str, int]
) -> dict[str, object]:
    """JSON values with the names of `Verdict.to_dict`, without those that are empty; beside them `groups`, `fields`
    (the texts of the case), `lack`, in each image its `picture` (a number, where the page has one), and in each
    assertion the number of its question."""
    verdict = one.verdict
    values = {key: value for key, value in verdict.to_dict().items() if key not in _NEEDLESS}
    values |= {"groups": dict(one.groups), "fields": dict(fields), "lack": verdict.lack}
    values |= {"reused": one.reused or None, "partial": verdict.partial or None}
    values["criteria"] = {key: _criterion(result, questions) for key, result in _mapping(values["criteria"]).items()}
    values["images"] = [_image(image, pictures) for image in _list(values["images"])]
    found = plain_values({key: value for key, value in values.items() if not _empty(value)})
    assert isinstance(found, dict)
    return found


def shortened(values: dict[str, object], longest: int) -> dict[str, object]:
    """The detail with its long texts cut. Names stay whole: of the case, the judge, criteria and flags."""
    kept = {key: value for key, value in values.items() if key in ("case", "rubric", "judge", "model", "images")}
    rest = {key: plain_values(value, longest) for key, value in values.items() if key not in kept}
    if measurements := rest.get("measurements"):
        rest["measurements"] = {
            key: {part: inner for part, inner in value.items() if part != "sentence"}
            if isinstance(value, dict)
            else value
            for key, value in _mapping(measurements).items()
        }
    return kept | rest


def _criterion(result: object, questions: Numbered) -> dict[str, object]:
    values = {key: value for key, value in _mapping(result).items() if not _empty(value)}
    if assertions := values.get("assertions"):
        values["assertions"] = [
            {
                key: questions.number(str(value)) if key == "question" else value
                for key, value in _mapping(assertion).items()
                if not _empty(value)
            }
            for assertion in _list(assertions)
        ]
    return values


def _image(image: object, pictures: Mapping[str, int]) -> dict[str, object]:
    values = dict(_mapping(image))
    number = pictures.get(str(values["source_digest"]))
    return values if number is None else {**values, "picture": number}


def _empty(value: object) -> bool:
    """A 0 is something, and so is a False."""
    return value is None or value in ("", [], {})


def _mapping(value: object) -> Mapping[str, object]:
    assert isinstance(value, Mapping)
    return value


def _list(value: object) -> list[object]:
    assert isinstance(value, list)
    return value
