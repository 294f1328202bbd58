"""The command line: commands parse flags, call the API and print.

Heavy modules are imported inside the commands.

Exit codes: 0; 1 a threshold was missed; 2 wrong use; 3 something has no score.
"""

from __future__ import annotations

import io
import os
import sys

from beholder.errors import BeholderError

EXIT_THRESHOLD, EXIT_USAGE, EXIT_UNSCORED = 1, 2, 3


def main() -> None:
    """Run the command line: an error of the user is one sentence on stderr, never a traceback."""
    # Before NumPy is loaded: our matrix products are many and small; with several threads they took twice the CPU time
    # and, on a busy machine, forty times as long.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from beholder.cli.app import app

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without the characters must not lose a verdict
            stream.reconfigure(errors="replace")
    try:
        app(prog_name="beholder")
    except BeholderError as error:
        from beholder.reports.text import printable

        print(f"beholder: {printable(str(error), lines=True)}", file=sys.stderr)
        sys.exit(EXIT_USAGE)
    except KeyboardInterrupt:
        print("beholder: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # `beholder … | head` is no error
        sys.stderr.close()
        sys.exit(0)
