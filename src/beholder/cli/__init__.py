"""The command line: commands parse flags, call the API and print.

Heavy modules are imported inside the commands.

Exit codes: 0; 1 a threshold was missed; 2 wrong use; 3 something has no score; 4 a gate could not be decided; 70 an
error in Beholder itself; 130 interrupted; 141 nobody read the output to its end.
"""

from __future__ import annotations

import errno
import io
import os
import sys
import traceback
from contextlib import suppress
from typing import NoReturn

from beholder.errors import BeholderError

EXIT_THRESHOLD, EXIT_USAGE, EXIT_UNSCORED, EXIT_UNDECIDED = 1, 2, 3, 4
EXIT_CRASH, EXIT_INTERRUPTED, EXIT_CLOSED_PIPE = 70, 130, 141  # EX_SOFTWARE of sysexits.h; 128 + SIGINT, SIGPIPE


def main() -> None:
    """Run the command line: a user's error is one sentence on stderr, our own a traceback and how to report it."""
    # Before NumPy is loaded: our matrix products are many and small; with several threads they took twice the CPU time
    # and, on a busy machine, forty times as long.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without the characters must not lose a verdict
            stream.reconfigure(errors="replace")
    try:
        from beholder.cli.app import app

        app(prog_name="beholder")
    except BeholderError as error:
        from beholder.cli.app import was_logged
        from beholder.reports.text import printable

        _exit_with("" if was_logged(error) else f"beholder: {printable(str(error), lines=True)}", EXIT_USAGE)
    except KeyboardInterrupt:
        _exit_with("beholder: interrupted", EXIT_INTERRUPTED)
    except SystemExit as stop:
        # typer exits with 1, which is our code for a missed threshold, where the output is closed or an EOFError rises.
        swallowed = stop.__context__
        if isinstance(swallowed, BrokenPipeError):
            sys.exit(EXIT_CLOSED_PIPE)
        if swallowed is not None and isinstance(swallowed.__cause__, EOFError):
            _report_crash(swallowed.__cause__)
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:  # what was printed goes to a file
            _exit_with("beholder: the disk is full: not everything could be written.", EXIT_USAGE)
        _report_crash(error)


def _exit_with(text: str, code: int) -> NoReturn:
    """Print a text, if any, to stderr and exit. Output that cannot be written or nobody reads changes no exit code."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if text and stream is sys.stderr:
                print(text, file=stream)
            stream.flush()
        except (OSError, ValueError):  # Python would try again at its end, and exit with a code of its own
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(code)


def _report_crash(error: BaseException) -> NoReturn:
    from beholder import __version__
    from beholder.ledger.encoding import redact_values
    from beholder.plugins import find_blamed_plugin
    from beholder.providers.endpoint import find_secrets
    from beholder.providers.payload import redact_whole
    from beholder.reports.text import printable

    shown = redact_whole("".join(traceback.format_exception(error)), find_secrets())
    lines = printable(str(redact_values(shown)), lines=True)
    ours = f"in Beholder {__version__}, and not yours; please report it as an issue"
    plugin = find_blamed_plugin(error)
    where = f"in the plug-in {plugin}, not in Beholder {__version__}; please report it to its authors"
    _exit_with(
        f"{lines}\nbeholder: this is an error {printable(where) if plugin else ours}, with the command, the lines "
        "above and what `beholder doctor` prints, without keys and private data.",
        EXIT_CRASH,
    )
