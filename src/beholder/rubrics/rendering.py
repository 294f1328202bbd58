"""From a rubric to the text of its system message.

A template sees the rubric and nothing of the case, so the text is the same for every case (of a style) and a case
cannot speak with the rubric's voice. What every judge is told about data and about the answer's form is added here,
to users' rubrics too.
"""

from __future__ import annotations

from functools import cache
from traceback import extract_tb
from typing import TYPE_CHECKING

from beholder.errors import Problem, RubricError
from beholder.rubrics.model import Rubric
from beholder.rubrics.schema import offers_not_applicable

if TYPE_CHECKING:
    from jinja2.sandbox import SandboxedEnvironment

DEFAULT_PROMPT = "default.md.j2"
RULES = "rules.md.j2"

# what a template's own arithmetic may raise, such as {{ 1 / 0 }}
_COMPUTED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def system_text(rubric: Rubric) -> str:
    """The whole system message. Raises `RubricError` when the prompt cannot be rendered."""
    from jinja2 import TemplateError

    environment = _environment()
    values = {"rubric": rubric, "criteria": rubric.criteria, "style": rubric.style, "setting": rubric.setting}
    try:
        template = environment.from_string(rubric.prompt) if rubric.prompt else environment.get_template(DEFAULT_PROMPT)
        return "\n\n".join(part.render(values).strip() for part in (template, environment.get_template(RULES))) + "\n"
    except (TemplateError, *_COMPUTED) as error:
        where = f"the prompt of {rubric.name}" + (f" ({rubric.setting})" if rubric.setting else "")
        said = getattr(error, "message", None) or str(error) or type(error).__name__
        raise RubricError(where, [Problem(f"cannot be rendered: {said}", line=_line(error))]) from None


def prompt_problems(rubric: Rubric) -> list[Problem]:
    """What keeps a rubric's own prompt from being rendered: its syntax."""
    from jinja2 import TemplateSyntaxError

    try:
        _environment().parse(rubric.prompt)
    except TemplateSyntaxError as error:
        return [Problem(f"the prompt is no valid template: {error.message}", line=error.lineno)]
    return []


def _line(error: Exception) -> int | None:
    """The line of the rubric's own prompt that an error comes from; jinja2 puts it into the traceback."""
    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == "<template>"]
    return lines[-1] if lines else None


def data_rules() -> str:
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
