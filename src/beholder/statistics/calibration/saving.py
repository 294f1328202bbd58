"""A calibration as a document: the maps that help, with the pedigree that lets a reader judge them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from beholder.statistics.calibration.choosing import Result
from beholder.statistics.calibration.holding import HOLDS
from beholder.statistics.calibration.task import Fitted, Task
from beholder.verdicts.calibrating import FORMAT, KIND, AspectMap, Input, aspect_to_dict


def document(results: Sequence[Result], made: Mapping[str, object]) -> dict[str, Any]:
    """The maps of all results that help, as JSON values. `made` says where they come from: `judges` and `rubrics` (by
    name their version) are what a verdict must have for them to be applied."""
    aspects = {
        task.aspect: aspect_to_dict(aspect_map(result, task))
        for result in results
        if result.helps
        for task in result.tasks
    }
    return {"kind": KIND, "format": FORMAT, "made": dict(made), "aspects": aspects}


def aspect_map(result: Result, task: Task) -> AspectMap:
    """The map that was chosen for an aspect, as it is applied."""
    fitted: Fitted = result.fitted[task.aspect]
    inputs = tuple(
        Input(fitted.names[place], median, missing)
        for place, median, missing in zip(
            fitted.usable.places, fitted.usable.medians, fitted.usable.missing, strict=True
        )
    )
    low, high = result.errors[task.aspect]
    return AspectMap(
        task.aspect, task.scale, task.raw.name, inputs, fitted.map, low, high, HOLDS, scores_of(result, task)
    )


def scores_of(result: Result, task: Task) -> dict[str, Any]:
    """How all candidates did, and on what, as JSON values."""
    return {
        "cases": len(task.cases),
        "raters": len(task.ratings.raters),
        "groups": len(set(task.numbers.tolist())),
        "together_with": [one.aspect for one in result.tasks if one is not task],
        "chosen": result.chosen,
        "by": str(result.by),
        "helps": result.helps,
        "why": result.why,
        "learned_makers": result.learned_makers,
        "makers": result.makers,
        "left_out": dict(result.fitted[task.aspect].usable.left_out) if result.fitted else {},
        "rows": {name: row.to_dict() for name, row in result.rows.items()},
        "maker_unseen": {name: row.to_dict() for name, row in result.unseen.items()},
        "neither_maker_nor_photograph_seen": {name: row.to_dict() for name, row in result.neither.items()},
        "intervals": result.told,
    }


def text_of(values: object, depth: int = 0) -> str:
    """JSON laid out for people: what is short, and every list of numbers, on one line."""
    flat = json.dumps(values, ensure_ascii=False, allow_nan=False)
    nested = isinstance(values, dict) or (isinstance(values, list) and any(isinstance(one, dict) for one in values))
    if len(flat) <= 100 or not nested:
        return flat
    inner = "  " * (depth + 1)
    if isinstance(values, dict):
        lines = [
            f"{inner}{json.dumps(key, ensure_ascii=False)}: {text_of(one, depth + 1)}" for key, one in values.items()
        ]
        return "{\n" + ",\n".join(lines) + "\n" + "  " * depth + "}"
    assert isinstance(values, list)
    return "[\n" + ",\n".join(f"{inner}{text_of(one, depth + 1)}" for one in values) + "\n" + "  " * depth + "]"
