"""The typer application with all commands; it loads every command module, so these stay light at import."""

from __future__ import annotations

import logging
import os
import sys
from collections import Counter
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperCommand

from beholder.cli import arena, calibrate, checks, integrations, judge, rubrics, run, runs, show
from beholder.cli.integrations import grade_app, log
from beholder.cli.judge import score
from beholder.cli.rubrics import demo, styles_app
from beholder.cli.run import collect, init, plan
from beholder.cli.runs import ledger_app
from beholder.cli.show import export, ratings_app, report, view
from beholder.cli.statistics import agree, compare, estimate, history
from beholder.errors import BeholderError, UsageError
from beholder.plugins import OVERRIDE_VARIABLE

app = typer.Typer(
    name="beholder",
    help="Judges images with evidence: AI restyles, image edits, and what an assistant said about an image.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("judge")(judge.judge)
app.command("score")(score)
app.command("demo")(demo)
app.command("measure")(checks.measure)
app.command("init")(init)
app.command("plan")(plan)
app.command("run")(run.run)
app.command("collect")(collect)
app.add_typer(runs.app, name="runs")
app.add_typer(ledger_app, name="ledger")
app.command("show")(show.show)
app.command("export")(export)
app.command("report")(report)
app.command("log")(log)
app.command("view")(view)
app.add_typer(ratings_app, name="ratings")
app.command("agree")(agree)
app.command("compare")(compare)
app.command("history")(history)
app.command("calibrate")(calibrate.calibrate)
app.command("estimate")(estimate)
app.add_typer(arena.app, name="arena")
app.add_typer(grade_app, name="grade")
app.command("qualify")(checks.qualify)
app.command("doctor")(checks.doctor)
app.add_typer(rubrics.app, name="rubrics")
app.add_typer(styles_app, name="styles")
app.command("mcp")(integrations.mcp)


class _StrictCommand(TyperCommand):
    """A command that refuses a second --rubric or --cases, of which click would use the last: as --judge takes several,
    one may think that these do. Of other options the last one counts, as in most programs."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _, _, given = self.make_parser(ctx).parse_args(args=list(args))
        for option, count in Counter(given).items():
            if count > 1 and option.name in ("rubric", "cases") and not getattr(option, "multiple", False):
                raise UsageError(f"--{option.name} is given {count} times and takes one value; run once for each.")
        return super().parse_args(ctx, args)


for _commands in (app, *(group.typer_instance for group in app.registered_groups)):
    for _command in _commands.registered_commands if _commands else ():
        _command.cls = _StrictCommand


class _StderrHandler(logging.StreamHandler[TextIO]):
    """Writes records to what `sys.stderr` is at that time: a progress bar puts another stream there.

    Attributes:
        last_error: The error in the last record that had one.
    """

    last_error: BeholderError | None = None

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)
        for value in record.args if isinstance(record.args, tuple) else ():
            if isinstance(value, BeholderError):
                self.last_error = value

    def format(self, record: logging.LogRecord) -> str:
        from beholder.reports.text import printable

        return printable(super().format(record), lines=True)


_handler = _StderrHandler()


def was_logged(error: BeholderError) -> bool:
    """Return whether stderr already has this error: a run that it ends logs it at once, and raises it at its end."""
    return error is _handler.last_error


def configure_logging(verbose: int) -> None:
    """Log warnings to stderr; with `verbose` 1 also info, with 2 also debug records, with time and module."""
    level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)]
    form = "%(asctime)s %(levelname)s %(name)s: %(message)s" if verbose else "%(message)s"
    _handler.setLevel(level)
    _handler.setFormatter(logging.Formatter(form))
    logger = logging.getLogger("beholder")
    logger.setLevel(level if verbose else logging.NOTSET)
    logger.addHandler(_handler)


@app.callback(invoke_without_command=True)
def _beholder(
    version: bool = typer.Option(False, "--version", help="Print the version and stop."),
    verbose: int = typer.Option(
        0,
        "-v",
        "--verbose",
        count=True,
        show_default=False,
        help="Log to stderr when runs begin and end; -vv: every request and retry too.",
    ),
    override: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", show_default=False, help="Let a plug-in replace what is built in under this name."
        ),
    ] = None,
) -> None:
    configure_logging(verbose)
    if override:
        from beholder.rubrics.load import check_overrides

        check_overrides(override)
        os.environ[OVERRIDE_VARIABLE] = ",".join(override)
    if version:
        from beholder import __version__

        typer.echo(f"beholder {__version__}")
        raise typer.Exit
