"""`beholder init`: a suite to start from."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from beholder.errors import UsageError


def init(
    file: Annotated[Path, typer.Argument(help="The file to write.")] = Path("suite.yaml"),
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of a suite; write nothing.")] = False,
) -> None:
    """Write a commented suite to start from."""
    if schema:
        from beholder.runs.suite_file import schema as suite_schema

        typer.echo(json.dumps(suite_schema(), indent=2, ensure_ascii=False))
        return
    start = files("beholder.runs").joinpath("start_suite.yaml").read_text("utf-8")
    try:
        with file.open("x", encoding="utf-8") as new:
            new.write(start.replace("THIS-FILE", str(file)))
    except FileExistsError:
        raise UsageError(f"{str(file)!r} exists already; name another file, or remove it first.") from None
    except OSError as error:
        raise UsageError(f"{str(file)!r} cannot be written: {error.strerror or error}.") from None
    typer.echo(f"Wrote {file}. Say there what is judged and by whom, then: beholder plan {file}")
