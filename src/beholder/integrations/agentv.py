"""The grader for AgentV: `command: [beholder, grade, agentv]` of an assertion.

AgentV starts the command for each case and hands it the case as JSON. The answer has the keys of both contracts that
are published: `score` and `assertions` (4.x), `pass`, `reason` and `checks` (5.x).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beholder.integrations.grader import GraderConfig, list_images
from beholder.integrations.shared import criterion_share, describe_criterion, pick_image, show_score, verdict_summary

if TYPE_CHECKING:
    from beholder.rubrics.rubric import Rubric
    from beholder.verdicts.verdict import Verdict

USUAL_THRESHOLD = 0.8  # AgentV's own

_IMAGE_PLACE = re.compile(r"(input|output)(?:\[(\d+)\])?|metadata\.(.+)|workspace/(.+)")
_IMAGE_PLACES = "input[0], output[0], metadata.KEY or workspace/PATH"
_TEXT_PLACE = re.compile(r"input|output|criteria|expected_output|metadata\.(.+)")
_TEXT_PLACES = "input, output, criteria, expected_output or metadata.KEY"
_USUAL_IMAGES = {
    "input": "input[0]",
    "original": "input[0]",
    "image": "input[0]",
    "edited": "output[0]",
    "restyled": "output[0]",
}
_USUAL_TEXTS = {"instruction": "input", "input": "input", "output": "output", "expected_output": "expected_output"}


def grade(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Judge a case of AgentV.

    Args:
        payload: What AgentV writes to a grader's stdin. Its `config`, which has the other keys of the assertion, says
            how it is judged: `rubric`, `judge`, `images` and `fields` (where they are), `threshold`, `samples`,
            `budget`, `ledger`, `name`, `options`.

    Returns:
        What a grader writes to stdout. The score is 0 where a gate failed: AgentV 4.x passes a case by its score alone.

    Raises:
        UsageError: The case or the configuration cannot be used.
        JudgeUnavailable: There is no score.
    """
    from beholder.errors import JudgeUnavailable, UsageError

    if not isinstance(payload, Mapping):
        raise UsageError(f"A case of AgentV is a JSON object, and this is a {type(payload).__name__}.")
    config = GraderConfig.read(payload.get("config"), "the assertion")
    rubric = config.load_rubric()
    verdict, run_id = config.judge(_find_inputs(config, rubric, payload), "agentv")
    if verdict.score is None:
        raise JudgeUnavailable(f"no score: {verdict.missing_score_reason}", verdict)
    threshold = USUAL_THRESHOLD if rubric.scoring.threshold is None else float(rubric.scoring.threshold)
    gates = verdict.failed_gates
    said = [f"{verdict.rubric} {verdict.score:.4g} by {verdict.judge}", *(f"gate {key}" for key in gates)]
    checks = list(_list_checks(verdict, threshold))
    shown = [{"text": one["text"], "passed": one["pass"], "evidence": one["reason"]} for one in checks]
    return {
        "score": 0.0 if gates else verdict.score,
        "assertions": shown,
        "pass": verdict.score >= threshold if verdict.passed is None else verdict.passed,
        "reason": ", ".join(said),
        "checks": checks,
        "details": {"beholder": verdict_summary(verdict, run_id)},
    }


def grade_text(text: str) -> str:
    """Judge a case of AgentV as a grader does: JSON in, JSON out; see `grade`. Raises `UsageError` for other texts."""
    from beholder.errors import UsageError

    try:
        payload = json.loads(text)
    except ValueError as error:
        raise UsageError(f"AgentV writes a case as JSON to stdin, and this is none: {error}.") from None
    return json.dumps(grade(payload), ensure_ascii=False)


def _list_checks(verdict: Verdict, threshold: float) -> Iterator[dict[str, Any]]:
    """Yield a failed check for each gate that failed, and a check for each assertion of the rubric; for a criterion
    without assertions whether it reaches the threshold on its own scale."""
    for key in verdict.failed_gates:
        why = "; ".join(flag.why for flag in verdict.flags if flag.flag == "gate" and flag.at == key)
        yield {"id": f"gate.{key}", "text": f"gate {key}", "pass": False, "reason": why}
    for key, result in verdict.criteria.items():
        for one in result.assertions:
            if one.answer in ("yes", "no"):
                yield {"id": one.id, "text": one.question, "pass": one.answer == "yes", "reason": one.evidence}
        share = criterion_share(result)
        if not result.assertions and share is not None:
            text, why = f"{key} {show_score(result)}", describe_criterion(result)
            yield {"id": key, "text": text, "pass": share >= threshold, "reason": why, "score": share}


def _find_inputs(config: GraderConfig, rubric: Rubric, payload: Mapping[str, Any]) -> dict[str, object]:
    roles, names = [one.role for one in rubric.images], [one.name for one in rubric.fields]
    metadata: Mapping[str, Any] = payload.get("metadata") or {}
    places = {role: place for role, place in _USUAL_IMAGES.items() if role in roles}
    places |= {name: place for name, place in _USUAL_TEXTS.items() if name in names and name not in roles}
    places |= {name: f"metadata.{name}" for name in (*roles, *names) if name in metadata}
    places |= config.places("images", roles, _IMAGE_PLACE, _IMAGE_PLACES)
    texts = {name: place for name, place in places.items() if name in names and name not in roles}
    texts |= config.places("fields", names, _TEXT_PLACE, _TEXT_PLACES)
    inputs: dict[str, object] = {
        role: _find_image(config, role, place, payload) for role, place in places.items() if role in roles
    }
    return inputs | {name: text for name, place in texts.items() if (text := _find_text(place, payload))}


def _find_image(config: GraderConfig, role: str, place: str, payload: Mapping[str, Any]) -> object:
    from beholder.errors import UsageError

    matched = _IMAGE_PLACE.fullmatch(place)
    assert matched is not None  # as was checked
    side, number, key, path = matched.groups()
    if path is not None:
        if not payload.get("workspace_path"):
            raise UsageError(f"The image {role!r} should be in the workspace ({place}), and the case has none.")
        return config.find_output_image(str(Path(payload["workspace_path"]) / path), payload["workspace_path"])
    if key is not None:
        value = (payload.get("metadata") or {}).get(key)
        if not isinstance(value, str) or not value:
            raise UsageError(f"The image {role!r} should be in the metadata as {key!r}, and that is {value!r:.60}.")
        return value
    if side == "input":
        found = list(_list_images(payload.get("input")))
    else:
        found = list(_list_images([one for one in payload.get("messages") or () if one.get("role") == "assistant"]))
        found = found or list_images(_read_output(payload))
    image = pick_image(found, int(number or 0), role, place, f"the {side}")
    if side == "input":
        return image.removeprefix("file://")
    workspace = payload.get("workspace_path")
    return config.find_output_image(image, *([workspace] if workspace else ()))


def _list_parts(messages: object) -> Iterator[Mapping[str, Any]]:
    """Yield the parts of messages; a text that is no list of parts is one."""
    for message in messages if isinstance(messages, list) else []:
        content = message.get("content") if isinstance(message, Mapping) else None
        if isinstance(content, str):
            yield {"type": "text", "text": content}
        yield from (part for part in content if isinstance(part, Mapping)) if isinstance(content, list) else ()


def _list_images(messages: object) -> Iterator[str]:
    for part in _list_parts(messages):
        source = part.get("path") or part.get("source") or part.get("value")
        if part.get("type") == "image" and isinstance(source, str):
            yield source


def _join_texts(messages: object) -> str:
    if isinstance(messages, str):
        return messages
    texts = (part.get("text") or part.get("value") for part in _list_parts(messages) if part.get("type") == "text")
    return "\n".join(text for text in texts if isinstance(text, str))


def _read_output(payload: Mapping[str, Any]) -> str:
    """Return the text of the output, which is in a file of its own where it is long."""
    output = payload.get("output")
    if output is None and payload.get("output_path"):
        try:
            output = json.loads(Path(payload["output_path"]).read_text("utf-8"))
        except (OSError, ValueError):  # then there is none
            output = None
    return _join_texts(output) if isinstance(output, str | list) else ""


def _find_text(place: str, payload: Mapping[str, Any]) -> object:
    if place == "output":
        return _read_output(payload)
    if place.startswith("metadata."):
        value = (payload.get("metadata") or {}).get(place.partition(".")[2])
        return value if value is None or isinstance(value, str | list) else str(value)
    return _join_texts(payload.get(place))
