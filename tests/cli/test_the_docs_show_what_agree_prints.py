"""The sample outputs of `agree` in docs/statistics.md have the headings, notes and sentences that it prints today.

The data behind them is not part of the project, so that their numbers are not compared.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

DOCS = Path(__file__).parents[2] / "docs" / "statistics.md"
NUMBER = re.compile(r"(?<![\w.])-?\d[\d,.]*\d|(?<![\w.])-?\d")
# What ends the table, and what the last sentences begin with; conclusions differ from data to data.
FIXED = (
    "Ranking:",
    "criterion ",
    "Distance:",
    "Same answer",
    "People among",
    "Over the",
    "Scores on",
    "Intervals are",
    "Inferred by name",
)


def forms(text: str) -> set[str]:
    """The headings, notes and fixed sentences, without numbers and line breaks."""
    lines: list[str] = []
    for line in text.splitlines():
        begins = line.startswith((*FIXED, "Rated, but", "Of "))
        if begins or not line.strip() or re.match(r"\S+ {2,}|\S+: ", line) or not lines:
            lines.append(line)
        else:
            lines[-1] += f" {line}"
    flat = (" ".join(line.split()) for line in lines if line.startswith(FIXED))
    return {re.sub(r"(nearer to|further from) people\.$", "… people.", NUMBER.sub("#", line)) for line in flat}


def samples() -> list[str]:
    return re.findall(r"```text\nbeholder agree.*?\n\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize("sample", [0, 1])
def test_the_forms_of_the_sample_are_printed(sample: int, folder: Path, run: Any) -> None:
    random = np.random.default_rng(0)
    names = ("SC", "PQ") if sample == 0 else ("texture_detail", "color_lighting", "alignment")
    judged, top = (names, 1) if sample == 0 else (("texture_and_detail", "color_and_lighting", "alignment"), 7)
    ratings, scores, cases = ["case,rater,aspect,score"], ["case,judge,aspect,score"], ["id,source"]
    for case in range(60):
        cases.append(f"c{case},{f'photo {case // 2}' if sample == 0 else f'own {case}'}")
        for name, answer in zip(names, judged, strict=True):
            worth = random.uniform(0, 1)
            ratings += [
                f"c{case},{rater},{name},{np.clip(round(2 * worth + random.normal(0, 0.3)) / 2, 0, 1) * top}"
                for rater in "abc"
            ]
            said = np.clip(worth + random.normal(0, 0.3), 0, 1)
            scores.append(f"c{case},GPT-4o,{answer},{round(said * (10 if sample == 0 else top))}")
    for file, rows in {"ratings.csv": ratings, "scores.csv": scores, "cases.csv": cases}.items():
        (folder / file).write_text("\n".join(rows) + "\n", "utf-8")
    grouped = "--cases cases.csv" if sample == 0 else ""
    done = run(f"agree --scores scores.csv --ratings ratings.csv {grouped}")
    assert done.code == 0, done.err
    shown, printed = forms(samples()[sample]), forms(done.out)
    fixed = {line for line in shown if not line.startswith("Over the")}
    assert len(fixed) >= 6
    assert fixed <= printed, fixed - printed
