"""What several commands take: `name=value` pairs, and a rubric with its scoring changed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from beholder.cases import FieldValue
from beholder.errors import UsageError
from beholder.rubrics.model import Gate, NotApplicable, Rubric


def pairs(values: Iterable[str], option: str) -> list[tuple[str, str]]:
    """`NAME=VALUE` arguments, split. Raises `UsageError` for one that has no name or no `=`."""
    split = []
    for value in values:
        name, equals, rest = value.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"{option} takes NAME=VALUE, and {value!r} is not of this form.")
        split.append((name.strip(), rest))
    return split


def fields(texts: Iterable[str], files: Iterable[str]) -> dict[str, FieldValue]:
    """The fields given with --set and --set-file; a name that is given several times is a list."""
    given = pairs(texts, "--set")
    given += [(name, _read(path)) for name, path in pairs(files, "--set-file")]
    gathered: dict[str, tuple[str, ...]] = {}
    for name, text in given:
        gathered[name] = (*gathered.get(name, ()), text)
    return {name: values[0] if len(values) == 1 else values for name, values in gathered.items()}


def params(values: Iterable[str]) -> dict[str, object]:
    """Model parameters: a value that is JSON (a number, true, an object) is taken as such, any other as text."""
    from beholder.judges.model import parse_param

    return dict(parse_param(value) for value in values)


def rescored(rubric: Rubric, threshold: float | None, gates: Iterable[str], not_applicable: str | None) -> Rubric:
    """The rubric with the threshold, gates and treatment of N/A that flags ask for."""
    if threshold is not None:
        if not 0 <= threshold <= 1:
            raise UsageError(f"--threshold is between 0 and 1, and {threshold} is not.")
        rubric = rubric.with_scoring(threshold=threshold)
    for gate in gates:
        known = [finding.key for finding in rubric.findings]
        if gate not in known:
            raise UsageError(f"{rubric.name} has no finding {gate!r} to gate on; it has {', '.join(known) or 'none'}.")
        rubric = rubric.with_scoring(gates=(*rubric.scoring.gates, Gate(finding=gate)))
    if not_applicable is not None:
        try:
            rubric = rubric.with_scoring(not_applicable=NotApplicable(not_applicable))
        except ValueError:
            allowed = ", ".join(NotApplicable)
            raise UsageError(f"--not-applicable is one of {allowed}, not {not_applicable!r}.") from None
    return rubric


def text_file(path: Path, what: str) -> str:
    """The text of a file that the user named."""
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UsageError(f"{what} {str(path)!r} cannot be read: {reason}.") from None


def _read(path: str) -> str:
    return text_file(Path(path), "The file").removesuffix("\n")
