"""A verdict as one flat row. A column is named by its path in the verdict's JSON; what is under `criteria` without that
word, so that a criterion's score is `accuracy.score`; a group of the case is `group.NAME`; what people would say by a
calibration is `ASPECT.calibrated`, with `ASPECT.calibrated_low` and `_high`."""

from __future__ import annotations

from collections.abc import Mapping

from beholder.ledger.reading import Judged

Cell = str | int | float | bool | None

TEXTS = ("rubric", "rubric_version", "setting", "style", "judge", "model", "outcome", "detail")
NUMBERS = ("score", "total", "max_total", "percentage")
USAGE = ("input_tokens", "output_tokens", "cached_tokens")
_USAGE = tuple(f"usage.{name}" for name in USAGE)

KINDS: Mapping[str, type] = {
    "case": str,
    **dict.fromkeys(TEXTS, str),
    **dict.fromkeys(NUMBERS, float),
    "grade": str,
    "passed": bool,
    "score_derived": bool,
    "partial": bool,
    "coverage": float,
    "total_low": float,
    "total_high": float,
    "flags": str,
    "corrections": int,
    "assessment": str,
    **dict.fromkeys(_USAGE, int),
    "cost_usd": float,
    "latency_s": float,
    "attempts": int,
    "reused": bool,
    "brief_digest": str,
}


class Columns:
    """The columns that verdicts need, in order: the fixed ones, and the groups, criteria and calibrated aspects in
    order of appearance."""

    def __init__(self) -> None:
        self._groups: dict[str, type] = {}
        self._criteria: dict[str, type] = {}
        self._calibrated: dict[str, type] = {}

    def add(self, one: Judged) -> None:
        self._groups |= dict.fromkeys((f"group.{name}" for name in one.groups), str)
        self._criteria |= dict.fromkeys((f"{key}.score" for key in one.verdict.criteria), float)
        self._calibrated |= dict.fromkeys((name for key in one.verdict.calibrated for name in _people(key)), float)

    @property
    def kinds(self) -> dict[str, type]:
        """By name, the type of what stands in a column."""
        names = list(KINDS)
        at = names.index("grade")
        first, second = ({name: KINDS[name] for name in part} for part in (names[1:at], names[at:]))
        return {"case": str} | self._groups | first | self._criteria | self._calibrated | second


def flat(one: Judged) -> dict[str, Cell]:
    """The row of a verdict."""
    verdict = one.verdict
    row: dict[str, Cell] = {"case": verdict.case}
    row |= {f"group.{name}": value for name, value in one.groups.items()}
    for name in (*TEXTS, *NUMBERS, "grade", "passed", "score_derived", "partial", "assessment", "latency_s"):
        value = getattr(verdict, name)
        row[name] = str(value) if name == "outcome" else value
    if verdict.coverage:
        row["coverage"] = verdict.coverage.measured / verdict.coverage.of
    if verdict.total_range:
        row["total_low"], row["total_high"] = verdict.total_range
    row |= {f"{key}.score": result.score for key, result in verdict.criteria.items()}
    for key, people in verdict.calibrated.items():
        row |= dict(zip(_people(key), (people.value, people.low, people.high), strict=True))
    row["flags"] = " ".join(dict.fromkeys(flag.flag for flag in verdict.flags))
    row["corrections"] = len(verdict.corrections)
    row |= {f"usage.{name}": verdict.usage.get(name) for name in USAGE}
    row["cost_usd"] = None if verdict.cost_usd is None else float(verdict.cost_usd)
    row |= {"attempts": verdict.attempts, "reused": one.reused, "brief_digest": verdict.brief_digest}
    return row


def _people(aspect: str) -> tuple[str, str, str]:
    return f"{aspect}.calibrated", f"{aspect}.calibrated_low", f"{aspect}.calibrated_high"
