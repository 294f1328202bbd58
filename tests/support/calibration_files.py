"""A calibration as its file holds it."""

from __future__ import annotations

from typing import Any


def file_values(**changes: Any) -> dict[str, Any]:
    """A small calibration of one aspect, fitted for a judge and a rubric that do not matter."""
    aspect = {
        "scale": [0.0, 1.0],
        "raw": "quality",
        "interval": {"holds": 0.8, "low": -0.2, "high": 0.1},
        "inputs": [
            {"name": "quality", "median": 5.0, "missing": 0.0},
            {"name": "A1", "median": 1.0, "missing": 0.2},
        ],
        "map": {
            "kind": "linear",
            "intercept": 0.5,
            "means": [5.0, 0.5],
            "scales": [5.0, 1.0],
            "weights": [0.4, 0.2],
        },
        "scores": {"cases": 100},
    }
    made = {"judges": ["openai:gpt-5-mini"], "rubrics": {"mine": "1.0"}}
    values = {"kind": "beholder calibration", "format": 1, "made": made, "aspects": {"looks": aspect | changes}}
    return values
