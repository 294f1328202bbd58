"""What several commands take: `name=value` pairs, parameters, text files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from beholder.cases import FieldValue
from beholder.errors import UsageError
from beholder.rubrics.rescoring import rescored as rescored  # the commands take it from here


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


def text_file(path: Path, what: str) -> str:
    """The text of a file that the user named."""
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UsageError(f"{what} {str(path)!r} cannot be read: {reason}.") from None


def _read(path: str) -> str:
    return text_file(Path(path), "The file").removesuffix("\n")
