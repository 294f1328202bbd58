"""Probes: add what judges said about a crop of the edit to a verdict, as measurements. No score depends on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from statistics import median

from beholder.rubrics.rubric import PROBED_REGION, Rubric, to_fraction
from beholder.verdicts.jury import JuryMember, sum_calls
from beholder.verdicts.verdict import Box, Flag, Place, Verdict, to_plain_number

PROBE_PREFIX = "probe."  # of the measurements


def add_probe(
    verdict: Verdict,
    rubric: Rubric,
    members: Sequence[JuryMember],
    region: tuple[float, str],
    boxes: Mapping[str, Box] | None = None,
) -> Verdict:
    """Return the verdict with the answers to a probe as measurements, and with what they cost.

    Of several judges or samples an answer is the median, with the words of the one nearest to it. A call without an
    answer is flagged, and the verdict is otherwise as it was.

    Args:
        verdict: The verdict on the case.
        rubric: The questions, as a rubric (`Rubric.make_probe_rubric`).
        members: The conversations about the crops; none if no judge could be asked.
        region: The share of the image that the crop shows, and a sentence on where that is.
        boxes: Where it is, by the role of the image.
    """
    if not members:
        return verdict
    verdicts = [member.verdict for member in members]
    answered = [one for one in verdicts if one.scored]
    failed = [one for one in verdicts if not one.scored]
    flags = [
        Flag("probe_failed", "probe", str(one.outcome), _name_judge(one, len(verdicts)) + one.detail) for one in failed
    ]
    measurements, places = dict(verdict.measurements), list(verdict.places or ())
    if answered and verdict.answered:
        share, sentence = region
        measurements[f"{PROBE_PREFIX}{PROBED_REGION}"] = _make_reading(round(share, 4), "share", sentence)
        places += [Place(f"{PROBE_PREFIX}{PROBED_REGION}", (box,), role) for role, box in (boxes or {}).items()]
        for criterion in rubric.criteria:
            results = [one.criteria[criterion.key] for one in answered]
            scores = [to_fraction(one.score) for one in results if one.score is not None]
            value = median(scores)
            nearest = min(results, key=lambda one: abs(to_fraction(one.score or 0) - value))
            plain, unit = to_plain_number(Fraction(value)), f"of {criterion.scale[1]:g}"
            said = f"{criterion.name}: {plain:g} {unit}. {nearest.reason}".strip()
            measurements[f"{PROBE_PREFIX}{criterion.key}"] = _make_reading(plain, unit, said)
    # A call without any answer has no known cost, which must not make that of the others unknown.
    calls = sum_calls([verdict, *(one for one in verdicts if one.scored or one.cost_usd is not None)])
    return replace(
        verdict,
        flags=(*verdict.flags, *flags),
        measurements=measurements,
        places=tuple(places) or None,
        attempts=verdict.attempts + sum(one.attempts for one in verdicts),
        **{key: calls[key] for key in ("usage", "cost_usd", "latency_s")},
    )


def list_probe_sentences(verdict: Verdict) -> list[str]:
    """Return what a verdict says of the crop of the edit: where it is, and the answers."""
    readings = [one for name, one in verdict.measurements.items() if name.startswith(PROBE_PREFIX)]
    return [str(one["sentence"]) for one in readings if isinstance(one, Mapping) and one.get("sentence")]


def flag_not_probed(verdict: Verdict, why: str) -> Verdict:
    """Return the verdict with a flag that says why no judge was asked about a crop."""
    return replace(verdict, flags=(*verdict.flags, Flag("not_probed", "probe", why=why)))


def _make_reading(value: float, unit: str, sentence: str) -> dict[str, object]:
    return {"value": value, "unit": unit, "sentence": sentence}


def _name_judge(verdict: Verdict, count: int) -> str:
    return f"{verdict.judge}: " if count > 1 else ""
