"""The assertion for promptfoo, `get_assert`.

`from beholder.integrations.promptfoo import get_assert` is the whole file that an assertion names:
`assert: [{type: python, value: file://beholder_assert.py}]`.

promptfoo starts a Python process for each assertion. They share a run in a ledger, and with it answers and budget.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beholder.integrations.grader import GraderConfig, list_images
from beholder.integrations.shared import criterion_share, explain_criterion, pick_image, verdict_summary

if TYPE_CHECKING:
    from beholder.rubrics.rubric import Rubric
    from beholder.verdicts.verdict import Verdict

_BLOB = re.compile(r"promptfoo://blob/([0-9a-f]{64})", re.IGNORECASE)
_IMAGE_PLACE = re.compile(r"output(?:\[(\d+)\])?|vars\.(.+)")
_TEXT_PLACE = re.compile(r"output|prompt|vars\.(.+)")
_USUAL_TEXTS = {"output": "output", "input": "prompt", "instruction": "prompt"}


def get_assert(output: Any, context: Mapping[str, Any]) -> dict[str, Any]:
    """Judge what a provider made, for an assertion of promptfoo.

    Args:
        output: What the provider returned.
        context: What promptfoo knows of the test. `config` of the assertion says how it is judged: `rubric`, `judge`,
            `images` and `fields` (where they are), `threshold`, `samples`, `budget`, `ledger`, `name`, `options`.

    Returns:
        A grading result: the score from 0 to 1, a named score for each criterion, and the reasons. Without a score it
        does not pass, and `metadata.graderError` tells it from one that is too low.

    Raises:
        JudgeUnavailable: There is no score, and the test has a `not-python` assertion: promptfoo would turn "did not
            pass" into a pass, but not an exception.
    """
    from beholder.errors import BeholderError, JudgeUnavailable

    verdict = None
    try:
        config = GraderConfig.read(context.get("config"), "config of the assertion")
        rubric = config.load_rubric()
        verdict, run_id = config.judge(_find_inputs(config, rubric, output, context), "promptfoo")
        if verdict.score is not None:
            return _to_result(verdict, run_id, *_judge_pass(context, verdict, rubric))
        reason = verdict.missing_score_reason
    except BeholderError as error:
        reason = str(error)
    if _has_inverse(context):
        raise JudgeUnavailable(f"no score: {reason}", verdict)
    metadata: dict[str, Any] = {"graderError": True}
    if verdict is not None:
        metadata["beholder"] = verdict_summary(verdict, run_id)
    return {"pass": False, "score": 0, "reason": f"no score: {reason}", "metadata": metadata}


def _find_inputs(config: GraderConfig, rubric: Rubric, output: Any, context: Mapping[str, Any]) -> dict[str, object]:
    """Return images and texts by name: from where the configuration says; else from the variable of that name; else the
    one image that is missing is the output."""
    roles, names = [one.role for one in rubric.images], [one.name for one in rubric.fields]
    given: Mapping[str, Any] = context.get("vars") or {}
    places = {name: f"vars.{name}" for name in (*roles, *names) if name in given}
    images = config.places("images", roles, _IMAGE_PLACE, "output, output[1] or vars.NAME")
    places |= {**images, **config.places("fields", names, _TEXT_PLACE, "output, prompt or vars.NAME")}
    missing = [role for role in roles if role not in places]
    if len(missing) == 1 and not rubric.settings:
        places[missing[0]] = "output"
    for name in names:
        if name not in places and name in _USUAL_TEXTS:
            places[name] = _USUAL_TEXTS[name]
    inputs: dict[str, object] = {}
    for name, place in places.items():
        found = (
            _find_image(config, name, place, output, context) if name in roles else _find_text(place, output, context)
        )
        if found not in (None, ""):
            inputs[name] = found
    return inputs


def _find_text(place: str, output: Any, context: Mapping[str, Any]) -> object:
    if place == "output":
        return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
    value = context.get("prompt") if place == "prompt" else (context.get("vars") or {}).get(place[5:])
    return value if value is None or isinstance(value, str | list) else json.dumps(value, ensure_ascii=False)


def _find_image(config: GraderConfig, role: str, place: str, output: Any, context: Mapping[str, Any]) -> object:
    from beholder.errors import UsageError

    if place.startswith("vars."):
        value = (context.get("vars") or {}).get(place[5:])
        if not isinstance(value, str) or not value:
            raise UsageError(f"The image {role!r} should be the variable {place[5:]!r}, and that is {value!r:.60}.")
        return _resolve_image(value)
    found = _list_output_images(output, context)
    number = int(place[7:-1] or 0) if "[" in place else 0
    image = _resolve_image(pick_image(found, number, role, place, "the output"))
    return image if isinstance(image, Path) else config.find_output_image(image)


def _list_output_images(output: Any, context: Mapping[str, Any]) -> list[str]:
    """Return the images of an output: as the provider listed them, else those in its text, which may be one path."""
    response = context.get("providerResponse")
    listed = response.get("images") if isinstance(response, Mapping) else None
    found = []
    for one in listed or ():
        reference = one.get("blobRef") or {}
        data = one.get("data") or (reference.get("uri") if isinstance(reference, Mapping) else reference)
        if isinstance(data, str):
            is_bare = not data.startswith(("data:", "promptfoo:", "http:", "https:", "file:"))
            found.append(f"data:{one.get('mimeType') or 'image/png'};base64,{data}" if is_bare else data)
    if found or not isinstance(output, str):
        return found
    return list_images(output, _BLOB)


def _resolve_image(value: str) -> str | Path:
    """Return an image as a case takes it: promptfoo's own address of a stored image becomes the file that has it."""
    if matched := _BLOB.fullmatch(value):
        digest = matched[1].lower()
        folder = Path(os.environ.get("PROMPTFOO_CONFIG_DIR") or Path.home() / ".promptfoo")
        return folder / "blobs" / digest[:2] / digest[2:4] / digest
    return value.removeprefix("file://")


def _judge_pass(context: Mapping[str, Any], verdict: Verdict, rubric: Rubric) -> tuple[bool, float]:
    """Return whether the verdict passes, and the threshold for its criteria: 0 where only gates can fail. Where nothing
    says what is too low it is wrong use, since nothing could fail.

    Raises:
        UsageError: There is no threshold.
    """
    from beholder.errors import UsageError

    given = [one for one in _list_assertions(context) if one.get("threshold") is not None]
    own = [one["threshold"] for one in given if one.get("type") != "assert-set"]
    own += [] if rubric.scoring.threshold is None else [rubric.scoring.threshold]
    if verdict.passed is None and not given:
        raise UsageError(
            f"{verdict.rubric} has no threshold, so nothing can fail: add `threshold: 0.8` to the assertion or its "
            "config."
        )
    # promptfoo itself compares the score with the threshold of the assertion.
    return verdict.passed is not False, max(own or [one["threshold"] for one in given], default=0.0)


def _has_inverse(context: Mapping[str, Any]) -> bool:
    return any(one.get("type") == "not-python" for one in _list_assertions(context))


def _list_assertions(context: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the assertions of the test that have this configuration, and the sets that they are in. Others say nothing
    of this one: the `threshold` of `latency` is a time."""
    test = context.get("test")
    for one in (test.get("assert") or ()) if isinstance(test, Mapping) else ():
        own = [part for part in (one, *(one.get("assert") or ())) if part.get("config") == context.get("config")]
        yield from (one, *own) if own else ()


def _to_result(verdict: Verdict, run_id: str | None, passed: bool, threshold: float) -> dict[str, Any]:
    """Return the grading result; its parts are each criterion, by the threshold of the whole, and gates that failed."""
    whys = {flag.at: flag.why for flag in verdict.flags if flag.flag == "gate"}
    gates = [f"gate {key}: {whys[key]}" for key in verdict.failed_gates]
    shares = {key: share for key, one in verdict.criteria.items() if (share := criterion_share(one)) is not None}
    lines = [explain_criterion(key, one) for key, one in verdict.criteria.items()]
    usage = verdict.usage
    spent = {"prompt": usage.get("input_tokens") or 0, "completion": usage.get("output_tokens") or 0}
    return {
        "pass": passed,
        "score": verdict.score,
        "reason": "\n".join([f"{verdict.rubric} {verdict.score:.4g} by {verdict.judge}", *gates, *lines]),
        "namedScores": shares,
        "componentResults": [
            *({"pass": False, "score": 0, "reason": gate} for gate in gates),
            *(
                {"pass": shares[key] >= threshold, "score": shares[key], "reason": line}
                for key, line in zip(verdict.criteria, lines, strict=True)
                if key in shares
            ),
        ],
        "tokensUsed": {**spent, "total": sum(spent.values())},
        "metadata": {"beholder": verdict_summary(verdict, run_id)},
    }
