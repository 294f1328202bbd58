"""Recorded numbers of a foreign judge as answers for `beholder score`.

    python answers.py recorded.jsonl [JUDGE] > answers.jsonl

Reads lines like {"case": "c1", "judge": "gpt", "aspect": "SC", "scores": [9, 8]}. Numbers are taken in order, as many
as there are: what is missing or too much is left to `beholder score`, which calls such an answer invalid.
"""

import json
import sys
from pathlib import Path

CRITERIA = {"SC": ("edit_success", "over_editing"), "PQ": ("naturalness", "artefacts")}


def answers(recorded: Path, judge: str = "") -> list[dict]:
    """One for each case and judge, in the order they appear; with `judge` of that one alone."""
    found: dict[tuple[str, str], dict] = {}
    for line in recorded.read_text("utf-8").splitlines():
        row = json.loads(line)
        if judge in ("", row["judge"]):
            scores = row["scores"] if isinstance(row["scores"], list) else [row["scores"]]
            names = [*CRITERIA[row["aspect"]], *(f"{row['aspect']} {n}" for n in range(3, 1 + len(scores)))]
            given = {name: {"score": score} for name, score in zip(names, scores, strict=False)}
            found.setdefault((row["case"], row["judge"]), {}).update(given)
    return [{"case": case, "judge": who, "answer": {"criteria": said}} for (case, who), said in found.items()]


if __name__ == "__main__":
    for answer in answers(Path(sys.argv[1]), *sys.argv[2:3]):
        print(json.dumps(answer))
