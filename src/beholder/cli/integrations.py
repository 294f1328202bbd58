"""The commands that serve other programs.

- `beholder log`: log a run to an experiment tracker
"""

from __future__ import annotations

from typing import Annotated

import typer

from beholder.cli.options import LedgerOption, RunArgument


def log(
    run: RunArgument = "latest",
    to: Annotated[str, typer.Option(help="Where to: mlflow or wandb.")] = "mlflow",
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
