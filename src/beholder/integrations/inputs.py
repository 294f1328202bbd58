"""Find the inputs of a rubric in what a host hands over: mappings with names, and one output without a name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from beholder.errors import UsageError
from beholder.rubrics.rubric import Rubric
from beholder.runs.suite import derive_case_schema


def find_inputs(rubric: Rubric, places: Iterable[object]) -> dict[str, object]:
    """Return the images and texts that the rubric declares, by name, from the mappings among `places`; of several that
    have one, the last counts."""
    known = list_inputs(rubric)
    found: dict[str, object] = {}
    for place in places:
        if isinstance(place, Mapping):
            found |= {str(name): value for name, value in place.items() if name in known and value is not None}
    return found


def list_inputs(rubric: Rubric) -> frozenset[str]:
    """Return the names of all images and texts that the rubric may have."""
    schema = derive_case_schema([rubric], "")
    return frozenset((*(role for roles in schema.roles for role in roles), *schema.required, *schema.optional))


def choose_output(rubric: Rubric, output: str | None, given: Iterable[str], how: str, hint: str = "") -> str:
    """Return the name of the one input that is judged: `output`, or what the rubric needs and is not `given`.

    Args:
        rubric: The rubric.
        output: What the caller said.
        given: The names of the other inputs.
        how: How a caller says it, for messages: `scorer(…, output=…)`.
        hint: What else may help, for messages.

    Raises:
        UsageError: The rubric has no such input, or it is not clear which one is meant.
    """
    known, others = list_inputs(rubric), frozenset(given)
    if output is not None:
        if output not in known:
            raise UsageError(f"{rubric.name} has no input {output!r}; it has {', '.join(sorted(known))}.")
        return output
    schema = derive_case_schema([rubric], "")
    lacking: list[set[str]] = [{*roles, *schema.required} - others for roles in schema.roles]
    single = {name for names in lacking if len(names) == 1 for name in names}
    if len(single) != 1:
        least: set[str] = min(lacking, key=len)
        missing = ", ".join(sorted(least))
        why = f"{missing} are missing; give all but one, or" if missing else "nothing that it needs is missing;"
        choice = ", ".join(sorted(known - others or known))
        raise UsageError(
            f"Which input of {rubric.name} is judged is not clear: {why} say {how} with one of {choice}.{hint}"
        )
    [found] = single
    return found
