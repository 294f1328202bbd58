"""The commands that serve other programs.

- `beholder mcp`: an MCP server for agents
- `beholder log`: log a run to an experiment tracker
- `beholder grade agentv`: a grader for AgentV
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from beholder.cli.options import LedgerOption, RunArgument, complete_words, parse_params
from beholder.errors import BeholderError, UsageError
from beholder.reports.text import print_text


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


def log(
    run: RunArgument = "latest",
    to: Annotated[
        str, typer.Option(help="Where to: mlflow or wandb.", autocompletion=complete_words("mlflow", "wandb"))
    ] = "mlflow",
    project: Annotated[
        str | None, typer.Option(help="The experiment of MLflow, or the project of Weights & Biases.")
    ] = None,
    images: Annotated[int, typer.Option(min=0, help="How many verdicts have images in the table, worst first.")] = 200,
    ledger: LedgerOption = None,
) -> None:
    """Log a run to an experiment tracker: metrics, a table with images, and the report."""
    from beholder.api.run import Run
    from beholder.integrations.trackers import log_run

    logged = log_run(Run.load(run, ledger), to=to, project=project, images=images)
    typer.echo(f"logged to {to}: run {logged}")


grade_app = typer.Typer(help="Grade cases for other tools, which run these commands.", no_args_is_help=True)


@grade_app.command("agentv")
def agentv() -> None:
    """Grade a case of AgentV: `command: [beholder, grade, agentv]` of an assertion. JSON from stdin, JSON to stdout.

    Exit codes: 0; 1 there is no score, and stderr says why.
    """
    from beholder.integrations.agentv import grade_text

    try:
        typer.echo(grade_text(sys.stdin.read()))
    except BeholderError as error:
        print_text(f"beholder: {error}", error=True)
        raise typer.Exit(1) from None
