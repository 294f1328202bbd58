"""Render the texts of a brief: the rubric's system prompt, fenced data, a user's own prompt, the answer schema.

- The template of a system prompt sees the rubric and nothing of the case, so the text is the same for every case (of a
  style), and a case cannot write instructions into it. The rules about data and about the form of the answer are added
  here, also for users' rubrics.
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
from functools import cache
from traceback import extract_tb
from typing import TYPE_CHECKING

from beholder.errors import Problem, RubricError
from beholder.rubrics.rubric import Assertion, Criterion, NotApplicable, Rubric

if TYPE_CHECKING:
    from jinja2.sandbox import SandboxedEnvironment


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


def fill_placeholders(prompt: str, values: Mapping[str, str], source: str = "the prompt") -> tuple[str, frozenset[str]]:
    """Replace the placeholders of a prompt.

    Args:
        prompt: A user's own prompt.
        values: What to fill in, by lower-case name.
        source: What to call the prompt in an error message.

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
        raise RubricError(source, problems)
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


DEFAULT_PROMPT = "default.md.j2"
RULES_PROMPT = "rules.md.j2"

# What expressions in a template may raise, such as {{ 1 / 0 }}.
_TEMPLATE_ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def render_system_prompt(rubric: Rubric) -> str:
    """Return the whole system message of a rubric. Raises `RubricError` when its prompt cannot be rendered."""
    from jinja2 import TemplateError

    environment = _environment()
    values = {"rubric": rubric, "criteria": rubric.criteria, "style": rubric.style, "setting": rubric.setting}
    try:
        template = environment.from_string(rubric.prompt) if rubric.prompt else environment.get_template(DEFAULT_PROMPT)
        return (
            "\n\n".join(part.render(values).strip() for part in (template, environment.get_template(RULES_PROMPT)))
            + "\n"
        )
    except (TemplateError, *_TEMPLATE_ERRORS) as error:
        where = f"the prompt of {rubric.name}" + (f" ({rubric.setting})" if rubric.setting else "")
        reason = getattr(error, "message", None) or str(error) or type(error).__name__
        raise RubricError(where, [Problem(f"cannot be rendered: {reason}", line=_find_prompt_line(error))]) from None


def find_prompt_problems(rubric: Rubric) -> list[Problem]:
    """Return the syntax errors of a rubric's own prompt."""
    from jinja2 import TemplateSyntaxError

    try:
        _environment().parse(rubric.prompt)
    except TemplateSyntaxError as error:
        return [Problem(f"the prompt is no valid template: {error.message}", line=error.lineno)]
    return []


def _find_prompt_line(error: Exception) -> int | None:
    """Return the line of the rubric's own prompt that an error comes from; jinja2 puts it into the traceback."""
    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == "<template>"]
    return lines[-1] if lines else None


def render_data_rules() -> str:
    """Return the rules about fenced data, which are the system message of a user's own prompt."""
    return _environment().get_template("data.md.j2").render().strip() + "\n"


@cache
def _environment() -> SandboxedEnvironment:
    from jinja2 import PackageLoader, StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment

    environment = SandboxedEnvironment(
        loader=PackageLoader("beholder.rubrics", "builtin/_shared"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
    )
    # Users' prompts may use these two names.
    environment.globals["offers_not_applicable"] = offers_not_applicable
    environment.filters["number"] = lambda value: f"{value:g}"
    return environment


JsonSchema = dict[str, object]

YES, NO, NOT_APPLICABLE = "Yes", "No", "N/A"


def make_answer_schema(rubric: Rubric) -> JsonSchema:
    """Return the JSON Schema of an answer to a rubric with its style applied."""
    properties: dict[str, JsonSchema] = {}
    if rubric.echo:
        properties[rubric.echo] = _text_schema("the case's label, as given")
    for finding in rubric.findings:
        properties[finding.key] = {"type": "array", "items": {"type": "string"}, "description": finding.about}
    properties["criteria"] = _object_schema(
        {criterion.key: _criterion_schema(rubric, criterion) for criterion in rubric.criteria}
    )
    if rubric.assessment:
        properties["assessment"] = _text_schema(rubric.assessment)
    return _object_schema(properties)


def estimate_answer_tokens(rubric: Rubric) -> int:
    """Return a generous estimate of the tokens of an answer, for providers that need a limit."""
    assertions = sum(1 for _ in rubric.assertions())
    return 1024 + 96 * assertions + 160 * len(rubric.criteria) + 256 * len(rubric.findings)


def offers_not_applicable(rubric: Rubric, assertion: Assertion) -> bool:
    """Return whether the judge is offered N/A as an answer: by the rubric, or since the assertion has a condition
    (`applies: people`)."""
    rule = rubric.scoring.not_applicable
    return rule is NotApplicable.OFFER or (rule is NotApplicable.ACCEPT and bool(assertion.applies))


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
    return "why this score"


def _text_schema(description: str) -> JsonSchema:
    return {"type": "string", "description": description}


def _object_schema(properties: dict[str, JsonSchema]) -> JsonSchema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
