"""The commands, gathered."""

from __future__ import annotations

import typer

from beholder.cli import (
    agree,
    calibrate,
    collect,
    compare,
    demo,
    doctor,
    estimate,
    export,
    history,
    init,
    judge,
    ledger,
    measure,
    plan,
    qualify,
    ratings,
    report,
    rubrics,
    run,
    runs,
    score,
    show,
    styles,
    view,
)

app = typer.Typer(
    name="beholder",
    help="Judges images with evidence: AI restyles, image edits, and what an assistant said about an image.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("judge")(judge.judge)
app.command("score")(score.score)
app.command("demo")(demo.demo)
app.command("measure")(measure.measure)
app.command("init")(init.init)
app.command("plan")(plan.plan)
app.command("run")(run.run)
app.command("collect")(collect.collect)
app.add_typer(runs.app, name="runs")
app.add_typer(ledger.app, name="ledger")
app.command("show")(show.show)
app.command("export")(export.export)
app.command("report")(report.report)
app.command("view")(view.view)
app.add_typer(ratings.app, name="ratings")
app.command("agree")(agree.agree)
app.command("compare")(compare.compare)
app.command("history")(history.history)
app.command("calibrate")(calibrate.calibrate)
app.command("estimate")(estimate.estimate)
app.command("qualify")(qualify.qualify)
app.command("doctor")(doctor.doctor)
app.add_typer(rubrics.app, name="rubrics")
app.add_typer(styles.app, name="styles")


@app.callback(invoke_without_command=True)
def _beholder(version: bool = typer.Option(False, "--version", help="Print the version and stop.")) -> None:
    if version:
        from beholder import __version__

        typer.echo(f"beholder {__version__}")
        raise typer.Exit
