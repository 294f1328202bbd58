"""Tokens of an answer in our compact format and in the format of the published prompt, on recorded answers.

    pip install bpe-openai && python benchmarks/answer_tokens.py [FOLDER]

The same observations are written in both formats and counted with OpenAI's `o200k_base`, as models print JSON under
constrained output (no spaces) and otherwise (two spaces of indentation). The answers are those of `../shared/data`, and
for descriptions, which have none there, those of `examples/demo`.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

from bpe_openai import get_encoding

import beholder
from beholder.rubrics.prompt import estimate_answer_tokens

if TYPE_CHECKING:
    from beholder import Verdict
    from beholder.rubrics.rubric import Rubric

HERE = Path(__file__).parents[1]
SOURCES = {
    "acrue/acrue_v2_scores.json": "restyle",
    "acrue/acrue_v3_storybook.json": "restyle-confidence",
    "edit-factors/answers_category_wise.jsonl": "edit",
}
DEMO = {"examples/demo/description.jsonl": "description"}


def write_compact(verdict: Verdict, rubric: Rubric) -> dict[str, object]:
    """Return the answer that our schema asks for, in its order."""
    answer: dict[str, object] = {one.key: list(verdict.findings.get(one.key, [])) for one in rubric.findings}
    answer["criteria"] = {key: _write_criterion(verdict, rubric, key) for key in verdict.criteria}
    if rubric.assessment:
        answer["assessment"] = verdict.assessment
    return answer


def _write_criterion(verdict: Verdict, rubric: Rubric, key: str) -> dict[str, object]:
    criterion = verdict.criteria[key]
    score = {} if rubric.scoring.criterion_score == "confidence" else {"score": criterion.score}
    reason = {rubric.reason.key: criterion.reason}
    if not criterion.assertions:
        return {**reason, **score}
    assertions = {}
    for one in criterion.assertions:
        assertions[one.id] = {"answer": one.answer, "evidence": one.evidence}
        if one.confidence is not None:
            assertions[one.id]["confidence"] = one.confidence
    return {"assertions": assertions, **score, **reason}


def read_pairs(data: Path) -> Iterator[tuple[str, int, Mapping[str, object], Mapping[str, object]]]:
    """Yield the rubric, its generous estimate, and each scored answer in both formats."""
    named = [(data / name, rubric) for name, rubric in SOURCES.items()]
    named += [(HERE / name, rubric) for name, rubric in DEMO.items()]
    for path, name in named:
        for verdict, rubric in beholder.score(path, name).with_rubrics():
            if verdict.outcome == "scored":
                seed = verdict.to_seed(rubric)
                yield rubric.name, estimate_answer_tokens(rubric), write_compact(verdict, rubric), seed


def main() -> None:
    """Print the table of docs/runs.md."""
    data = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent / "shared" / "data"
    encode = get_encoding("o200k_base").encode
    counts: defaultdict[str, list[tuple[int, ...]]] = defaultdict(list)
    for rubric, estimate, *answers in read_pairs(data):
        texts = [json.dumps(one, ensure_ascii=False, **style) for style in (DENSE, SPACED) for one in answers]
        counts[rubric].append((estimate, *(len(encode(text)) for text in texts)))
    print("| rubric | answers | compact | published | compact, indented | published, indented | estimate |")
    print("|---|---|---|---|---|---|---|")
    for rubric, rows in counts.items():
        estimate, *means = (round(mean(column)) for column in zip(*rows, strict=True))
        print(f"| `{rubric}` | {len(rows)} | {' | '.join(map(str, means))} | {estimate} |")


DENSE = {"separators": (",", ":")}
SPACED = {"indent": 2}

if __name__ == "__main__":
    main()
