"""The typer application with all commands; it loads every command module, so these stay light at import."""

from __future__ import annotations

import typer

from beholder.cli import (
    agree,
    calibrate,
    compare,
    demo,
    doctor,
    estimate,
    judge,
    measure,
    qualify,
    report,
    rubrics,
    run,
    runs,
    show,
)
from beholder.cli.compare import history
from beholder.cli.judge import score
from beholder.cli.report import view
from beholder.cli.rubrics import styles_app
from beholder.cli.run import collect, init, plan
from beholder.cli.runs import ledger_app
from beholder.cli.show import export, ratings_app

app = typer.Typer(
    name="beholder",
    help="Judges images with evidence: AI restyles, image edits, and what an assistant said about an image.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("judge")(judge.judge)
app.command("score")(score)
app.command("demo")(demo.demo)
app.command("measure")(measure.measure)
app.command("init")(init)
app.command("plan")(plan)
app.command("run")(run.run)
app.command("collect")(collect)
app.add_typer(runs.app, name="runs")
app.add_typer(ledger_app, name="ledger")
app.command("show")(show.show)
app.command("export")(export)
app.command("report")(report.report)
app.command("view")(view)
app.add_typer(ratings_app, name="ratings")
app.command("agree")(agree.agree)
app.command("compare")(compare.compare)
app.command("history")(history)
app.command("calibrate")(calibrate.calibrate)
app.command("estimate")(estimate.estimate)
app.command("qualify")(qualify.qualify)
app.command("doctor")(doctor.doctor)
app.add_typer(rubrics.app, name="rubrics")
app.add_typer(styles_app, name="styles")


@app.callback(invoke_without_command=True)
def _beholder(version: bool = typer.Option(False, "--version", help="Print the version and stop.")) -> None:
    if version:
        from beholder import __version__

        typer.echo(f"beholder {__version__}")
        raise typer.Exit
