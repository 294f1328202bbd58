"""A user's own prompt file: it runs as it is, with its placeholders filled in one pass.

`{{name}}` and `{NAME}` are placeholders; every other brace is text. What is filled in is never read again, so a text
under test that contains `{{expected_output}}` stays that text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from beholder.errors import Problem, RubricError
from beholder.rubrics.model import Rubric

_PLACEHOLDER = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}|\{([A-Z][A-Z0-9_]*)\}")


def fill(prompt: str, values: Mapping[str, str], source: str = "the prompt") -> tuple[str, frozenset[str]]:
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

    known = ", ".join(_written(name) for name in values)
    filled = _PLACEHOLDER.sub(replace, prompt)
    if problems:
        raise RubricError(source, problems)
    return filled, frozenset(used)


def rubric_values(rubric: Rubric) -> dict[str, str]:
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


def _written(name: str) -> str:
    return "{" + name.upper() + "}" if name.endswith("_count") or "assertions" in name else "{{" + name + "}}"
