"""The command line: one module per command; what is heavy is imported inside the command that needs it.

Exit codes: 0; 1 a threshold was missed; 2 wrong use; 3 something has no score.
"""

from __future__ import annotations

import io
import os
import sys

from beholder.errors import BeholderError

EXIT_THRESHOLD, EXIT_USAGE, EXIT_UNSCORED = 1, 2, 3


def main() -> None:
    """The entry point: an error of the user's is one plain sentence, never a traceback."""
    # Before NumPy is loaded: our products are many and small, and threads that wait for each other took twice the CPU
    # and, on a busy machine, forty times as long.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from beholder.cli.app import app

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a verdict that was paid for is not lost to a terminal's alphabet
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
    except BrokenPipeError:  # `beholder … | head` is no mistake
        sys.stderr.close()
        sys.exit(0)
