"""The commands that serve other programs.

- `beholder grade agentv`: a grader for AgentV
"""

from __future__ import annotations

import sys

import typer

from beholder.errors import BeholderError
from beholder.reports.text import print_text

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
