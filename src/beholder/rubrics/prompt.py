"""Texts of a case are data. A fence around them that no text can forge or close.

A user's own prompt file: it runs as it is, with its placeholders filled in one pass.

`{{name}}` and `{NAME}` are placeholders; every other brace is text. What is filled in is never read again, so a text
under test that contains `{{expected_output}}` stays that text.

From a rubric to the text of its system message.

A template sees the rubric and nothing of the case, so the text is the same for every case (of a style) and a case
cannot speak with the rubric's voice. What every judge is told about data and about the answer's form is added here,
to users' rubrics too.

The form of our compact answer, as JSON Schema in neutral form; wires turn it into each provider's own.

The order of properties is the order in which a model writes: what it observed comes before the score. Nothing that
code computes is asked for, and questions are named by id.
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
    """A token that stands in none of `texts`. It follows from them, so the same case always gives the same brief."""
    joined = "\0".join(texts)
    salt = 0
    while True:
        seed = f"{salt}\0{joined}".encode("utf-8", "surrogatepass")
        token = hashlib.sha256(seed).hexdigest()[:TOKEN_LENGTH]
        if token not in joined:
            return token
        salt += 1


def delimit(name: str, text: str, token: str) -> str:
    """`text` between marks that carry the token."""
    return f'<data-{token} name="{name}">\n{clean_text(text)}\n</data-{token}>'


def clean_text(text: str) -> str:
    """Text that every wire can carry: half a surrogate pair becomes `?`, a NUL the replacement character."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


_PLACEHOLDER = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}|\{([A-Z][A-Z0-9_]*)\}")


def fill_placeholders(prompt: str, values: Mapping[str, str], source: str = "the prompt") -> tuple[str, frozenset[str]]:
    """The prompt with its placeholders replaced, and the (lower-case) names that it used.

    Raises `RubricError` that names every unknown placeholder with its line and lists the known ones.
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
    """What the placeholders that speak of the rubric stand for (a style, its assertions, how many there are)."""
    values = {
        "image_reference": ", ".join(rubric.image(role).label for role in rubric.roles),
        "image_references": ", ".join(rubric.image(role).label for role in rubric.roles),
    }
    if rubric.style:
        values["style_name"] = rubric.style.style
        values["style_description"] = rubric.style.description
    for criterion in rubric.criteria:
        if criterion.assertions:
            lines = "\n".join(f"{one.id}. {one.text}" for one in criterion.assertions)
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

# what a template's own arithmetic may raise, such as {{ 1 / 0 }}
_TEMPLATE_ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def render_system_prompt(rubric: Rubric) -> str:
    """The whole system message. Raises `RubricError` when the prompt cannot be rendered."""
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
        said = getattr(error, "message", None) or str(error) or type(error).__name__
        raise RubricError(where, [Problem(f"cannot be rendered: {said}", line=_find_prompt_line(error))]) from None


def find_prompt_problems(rubric: Rubric) -> list[Problem]:
    """What keeps a rubric's own prompt from being rendered: its syntax."""
    from jinja2 import TemplateSyntaxError

    try:
        _environment().parse(rubric.prompt)
    except TemplateSyntaxError as error:
        return [Problem(f"the prompt is no valid template: {error.message}", line=error.lineno)]
    return []


def _find_prompt_line(error: Exception) -> int | None:
    """The line of the rubric's own prompt that an error comes from; jinja2 puts it into the traceback."""
    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == "<template>"]
    return lines[-1] if lines else None


def render_data_rules() -> str:
    """What a judge is told about delimited data, for a prompt that is a user's own."""
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
    environment.globals["offers_not_applicable"] = offers_not_applicable
    environment.filters["number"] = lambda value: f"{value:g}"
    return environment


JsonSchema = dict[str, object]

YES, NO, NOT_APPLICABLE = "Yes", "No", "N/A"


def make_answer_schema(rubric: Rubric) -> JsonSchema:
    """The schema of an answer to `rubric`, whose style (if it takes one) has been applied."""
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
    """A generous guess at the tokens of an answer, for providers that want a limit."""
    assertions = sum(1 for _ in rubric.assertions())
    return 1024 + 96 * assertions + 160 * len(rubric.criteria) + 256 * len(rubric.findings)


def offers_not_applicable(rubric: Rubric, assertion: Assertion) -> bool:
    """An assertion with a condition (`applies: people`) has to have an answer where the condition is not met."""
    wanted = rubric.scoring.not_applicable
    return wanted is NotApplicable.OFFER or (wanted is NotApplicable.ACCEPT and bool(assertion.applies))


def _criterion_schema(rubric: Rubric, criterion: Criterion) -> JsonSchema:
    properties: dict[str, JsonSchema] = {}
    reason = {rubric.reason.key: _text_schema(_describe_reason(rubric))}
    score = {} if rubric.scoring.criterion_score == "confidence" else {"score": _score_schema(criterion)}
    if criterion.assertions:
        properties["assertions"] = _object_schema(
            {one.id: _assertion_schema(rubric, one) for one in criterion.assertions}
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
