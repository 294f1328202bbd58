"""The commands that serve other programs.

- `beholder mcp`: an MCP server for agents
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from beholder.cli.options import LedgerOption, parse_params
from beholder.errors import UsageError


def mcp(
    root: Annotated[
        list[Path] | None, typer.Option(help="A folder whose images a client may name; else the client's roots.")
    ] = None,
    judge: Annotated[
        list[str] | None, typer.Option(help="Who judges: PROVIDER:MODEL. Without it, instruments, which are free.")
    ] = None,
    budget: Annotated[float | None, typer.Option(help="US dollars that are never passed.")] = None,
    samples: Annotated[int, typer.Option(help="How often each judge is asked.")] = 1,
    rubric: Annotated[list[Path] | None, typer.Option(help="A rubric of your own, beside the built-in ones.")] = None,
    name: Annotated[str, typer.Option(help="What the run is called; it is continued.")] = "mcp",
    base_url: Annotated[str | None, typer.Option(help="Where a compatible server answers.")] = None,
    key_variable: Annotated[str | None, typer.Option(help="The environment variable that holds the key.")] = None,
    param: Annotated[list[str] | None, typer.Option(help="A model parameter: NAME=VALUE.")] = None,
    price_input: Annotated[float | None, typer.Option(help="US dollars for a million input tokens.")] = None,
    price_output: Annotated[float | None, typer.Option(help="US dollars for a million output tokens.")] = None,
    ledger: LedgerOption = None,
) -> None:
    """Serve agents over MCP (stdio): judge, compare, measure, rubrics, runs, show, look."""
    from beholder.integrations.mcp import serve

    options: dict[str, object] = {"base_url": base_url, "key_variable": key_variable}
    options["params"] = parse_params(param or ())
    prices = {"input": price_input, "output": price_output}
    if given := {name: price for name, price in prices.items() if price is not None}:
        if len(given) < 2:
            raise UsageError("--price-input and --price-output go together; give both.")
        options["price"] = given
    serve(
        judge or None,
        root=root or (),
        rubric=rubric or (),
        ledger=ledger,
        name=name,
        budget=budget,
        samples=samples,
        options=options,
    )
