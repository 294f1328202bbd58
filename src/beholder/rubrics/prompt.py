"""Render the texts of a brief: the rubric's system prompt, fenced data, a user's own prompt, the answer schema.

- The template of a system prompt sees the rubric and nothing of the case, so the text is the same for every case (of a
  style), and a case cannot write instructions into it. The rules about data and about the form of the answer are added
  here, also for users' rubrics. `template` renders it.
- Texts of a case are data: they are fenced by marks that no text can forge or close.
- A user's own prompt is sent as it is, with its placeholders `{{name}}` and `{NAME}` filled in one pass; every other
  brace is text. What is filled in is not read again, so a text under test that contains `{{expected_output}}` stays
  that text.
- The answer schema is JSON Schema in neutral form; providers convert it to their own dialects. The order of properties
  is the order in which a model writes: what it observed comes before the score. Nothing that code computes is asked
  for, and questions are named by id.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import cache
from typing import Any

from msgspec import UNSET, Struct

from beholder.errors import Problem, RubricError
from beholder.rubrics import builtin_folder
from beholder.rubrics.rubric import PREFERENCE_SCALE, Assertion, Criterion, Rubric
from beholder.rubrics.template import (
    TemplateFailure,
    find_size_problem,
    find_syntax_problem,
    offers_answer,
    render_foreign_template,
    render_own_template,
    render_shared_template,
)

TOKEN_LENGTH = 16


def make_fence_token(texts: Iterable[str]) -> str:
    """Return a token that is in none of `texts`, derived from them, so that a case always gives the same brief."""
    joined = "\0".join(texts)
    salt = 0
    while True:
        seed = f"{salt}\0{joined}".encode("utf-8", "surrogatepass")
        token = hashlib.sha256(seed).hexdigest()[:TOKEN_LENGTH]
        if token not in joined:
            return token
        salt += 1


def delimit(name: str, text: str, token: str) -> str:
    """Return a text between marks with the token."""
    return f'<data-{token} name="{name}">\n{clean_text(text)}\n</data-{token}>'


def clean_text(text: str) -> str:
    """Return text that can be sent to every provider: half a surrogate pair becomes `?`, a NUL the replacement
    character."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


_PLACEHOLDER = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}|\{([A-Z][A-Z0-9_]*)\}")


def fill_placeholders(prompt: str, values: Mapping[str, str]) -> tuple[str, frozenset[str]]:
    """Replace the placeholders of a prompt.

    Args:
        prompt: A user's own prompt.
        values: What to fill in, by lower-case name.

    Returns:
        The text, and the lower-case names that it used.

    Raises:
        RubricError: With every unknown placeholder and its line.
    """
    used: set[str] = set()
    problems: list[Problem] = []

    def replace(match: re.Match[str]) -> str:
        name = (match.group(1) or match.group(2)).lower()
        if name in values:
            used.add(name)
            return values[name]
        line = prompt.count("\n", 0, match.start()) + 1
        problems.append(Problem(f"{match.group(0)} is unknown here; known are {known}", line=line))
        return ""

    known = ", ".join(_write_placeholder(name) for name in values)
    filled = _PLACEHOLDER.sub(replace, prompt)
    if problems:
        raise RubricError("the prompt", problems)
    return filled, frozenset(used)


def placeholder_values(rubric: Rubric) -> dict[str, str]:
    """Return the values of the placeholders that are about the rubric (a style, its assertions and their number)."""
    values = {
        "image_reference": ", ".join(rubric.image(role).label for role in rubric.roles),
        "image_references": ", ".join(rubric.image(role).label for role in rubric.roles),
    }
    if rubric.style:
        values["style_name"] = rubric.style.style
        values["style_description"] = rubric.style.description
    for criterion in rubric.criteria:
        if criterion.assertions:
            lines = "\n".join(f"{assertion.id}. {assertion.text}" for assertion in criterion.assertions)
            values[f"assertions_{criterion.key}"] = lines
            values[f"{criterion.key}_count"] = str(len(criterion.assertions))
    total = sum(1 for _ in rubric.assertions())
    if total:
        values["total_assertions"] = str(total)
    return values


def _write_placeholder(name: str) -> str:
    return "{" + name.upper() + "}" if name.endswith("_count") or "assertions" in name else "{{" + name + "}}"


DEFAULT_PROMPT, PREFERENCE_PROMPT = "default.md.j2", "preference.md.j2"
RULES_PROMPT, PREFERENCE_RULES_PROMPT = "rules.md.j2", "preference_rules.md.j2"


def render_system_prompt(rubric: Rubric) -> str:
    """Return the whole system message of a rubric. Raises `RubricError` when its prompt cannot be rendered."""
    default, rules_prompt = DEFAULT_PROMPT, RULES_PROMPT
    if rubric.is_preference:
        default, rules_prompt = PREFERENCE_PROMPT, PREFERENCE_RULES_PROMPT
    try:
        if not rubric.prompt:
            text = render_shared_template(default, _template_values(rubric))
        else:
            render = render_own_template if rubric.prompt in _own_prompts() else render_foreign_template
            text = render(rubric.prompt, _template_values(rubric))
        # With values of its own: a template may change those it gets.
        rules = render_shared_template(rules_prompt, _template_values(rubric))
    except TemplateFailure as error:
        where = f"the prompt of {rubric.name}" + (f" ({rubric.setting})" if rubric.setting else "")
        raise RubricError(where, [Problem(f"cannot be rendered: {error}", line=error.line)]) from None
    return f"{text.strip()}\n\n{rules.strip()}\n"


def _template_values(rubric: Rubric) -> dict[str, Any]:
    """Return the variables of a template: the rubric as plain data, with its derived names."""
    plain = _make_plain(rubric)
    plain |= {"name": rubric.name, "roles": rubric.roles, "results_key": rubric.results_key}
    plain["placed_labels"] = list_placed_labels(rubric)
    for criterion, entry in zip(rubric.criteria, plain["criteria"], strict=True):
        entry["name"] = criterion.name
    return {"rubric": plain, "criteria": plain["criteria"], "style": plain["style"], "setting": rubric.setting}


def _make_plain(value: Any) -> Any:
    if isinstance(value, Struct):
        return {name: _make_plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {name: _make_plain(one) for name, one in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(map(_make_plain, value))
    if value is UNSET:
        return False
    return value.value if isinstance(value, Enum) else value


@cache
def _own_prompts() -> frozenset[str]:
    """Return the prompts of the built-in rubrics."""
    return frozenset(file.read_text("utf-8") for file in builtin_folder.glob("*/*.md.j2"))


def find_prompt_problems(rubric: Rubric) -> list[Problem]:
    """Return what is wrong with the size or the syntax of a rubric's own prompt."""
    if problem := find_size_problem(rubric.prompt):
        return [Problem(problem, "prompt")]
    if found := find_syntax_problem(rubric.prompt):
        return [Problem(f"the prompt is no valid template: {found[0]}", line=found[1])]
    return []


def render_data_rules() -> str:
    """Return the rules about fenced data, which are the system message of a user's own prompt."""
    return render_shared_template("data.md.j2", {}).strip() + "\n"


JsonSchema = dict[str, object]

YES, NO, NOT_APPLICABLE = "Yes", "No", "N/A"
CHOICES = ("A", "B", "tie", "both_bad")


def make_answer_schema(rubric: Rubric) -> JsonSchema:
    """Return the JSON Schema of an answer to a rubric with its style applied."""
    properties: dict[str, JsonSchema] = {}
    if rubric.echo:
        properties[rubric.echo] = _text_schema("the case's label, as given")
    if rubric.is_preference:
        choice = _choice_schema(rubric)
        properties["criteria"] = _object_schema({criterion.key: choice for criterion in rubric.criteria})
        return _object_schema({**properties, "overall": choice})
    for finding in rubric.findings:
        properties[finding.key] = {"type": "array", "items": {"type": "string"}, "description": finding.about}
    properties["criteria"] = _object_schema(
        {criterion.key: _criterion_schema(rubric, criterion) for criterion in rubric.criteria}
    )
    if rubric.assessment:
        properties["assessment"] = _text_schema(rubric.assessment)
    if rubric.places:
        properties["places"] = {"type": "array", "items": _place_schema(rubric)}
    return _object_schema(properties)


def estimate_answer_tokens(rubric: Rubric) -> int:
    """Return a generous estimate of the tokens of an answer, for providers that need a limit."""
    assertions = sum(1 for _ in rubric.assertions())
    return 1024 + 96 * assertions + 160 * _count_blocks(rubric) + 256 * len(rubric.findings)


def typical_answer_tokens(rubric: Rubric) -> int:
    """Return the usual number of tokens of an answer, without a model's thoughts: fitted to recorded answers, half of
    them indented (`benchmarks/answer_tokens.py`)."""
    assertions = sum(1 for _ in rubric.assertions())
    assessment = 40 if rubric.assessment else 0
    return 35 * assertions + 47 * _count_blocks(rubric) + 30 * len(rubric.findings) + assessment


def _count_blocks(rubric: Rubric) -> int:
    """Return how many reasons an answer has: one for each criterion, and of a preference one for the whole."""
    return len(rubric.criteria) + rubric.is_preference


def offers_not_applicable(rubric: Rubric, assertion: Assertion) -> bool:
    """Return whether the judge is offered N/A as an answer: by the rubric, or since the assertion has a condition
    (`applies: people`)."""
    return offers_answer(rubric.scoring.not_applicable, assertion.applies)


def list_placed_labels(rubric: Rubric) -> list[str]:
    """Return the labels of the images in which an answer may name places: those of roles that have one image."""
    return [image.label for image in map(rubric.image, rubric.roles) if not image.many]


def _place_schema(rubric: Rubric) -> JsonSchema:
    """Return the schema of a place. Its ends are checked by code: not every provider takes limits of numbers."""
    ends: dict[str, JsonSchema] = {name: {"type": "number"} for name in ("left", "top", "right", "bottom")}
    properties: dict[str, JsonSchema] = {
        "at": _text_schema("id of the assertion, or key of the criterion or list of findings"),
        "image": {"type": "string", "enum": list_placed_labels(rubric)},
        "box": _object_schema(ends),
    }
    return _object_schema(properties)


def _criterion_schema(rubric: Rubric, criterion: Criterion) -> JsonSchema:
    properties: dict[str, JsonSchema] = {}
    reason = {rubric.reason.key: _text_schema(_describe_reason(rubric))}
    score = {} if rubric.scoring.criterion_score == "confidence" else {"score": _score_schema(criterion)}
    if criterion.assertions:
        properties["assertions"] = _object_schema(
            {assertion.id: _assertion_schema(rubric, assertion) for assertion in criterion.assertions}
        )
        properties |= score | reason
    else:
        properties |= reason | score
    return _object_schema(properties)


def _choice_schema(rubric: Rubric) -> JsonSchema:
    """Return the schema of one choice. Its strength is 0 where neither is better: not every provider takes null."""
    return _object_schema(
        {
            rubric.reason.key: _text_schema(_describe_reason(rubric)),
            "choice": {"type": "string", "enum": list(CHOICES)},
            "strength": {"type": "integer", "minimum": 0, "maximum": PREFERENCE_SCALE[1]},
        }
    )


def _assertion_schema(rubric: Rubric, assertion: Assertion) -> JsonSchema:
    answers = [YES, NO, NOT_APPLICABLE] if offers_not_applicable(rubric, assertion) else [YES, NO]
    properties: dict[str, JsonSchema] = {
        "answer": {"type": "string", "enum": answers},
        "evidence": _text_schema("what is seen, and where"),
    }
    if rubric.scoring.criterion_score == "confidence":
        properties["confidence"] = {"type": "integer", "minimum": 1, "maximum": 5}
    return _object_schema(properties)


def _score_schema(criterion: Criterion) -> JsonSchema:
    low, high = criterion.scale
    return {"type": "integer" if criterion.whole else "number", "minimum": low, "maximum": high}


def _describe_reason(rubric: Rubric) -> str:
    if rubric.reason.words:
        return "{}–{} words of specific visual evidence, with its place".format(*rubric.reason.words)
    return "why this choice" if rubric.is_preference else "why this score"


def _text_schema(description: str) -> JsonSchema:
    return {"type": "string", "description": description}


def _object_schema(properties: dict[str, JsonSchema]) -> JsonSchema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
