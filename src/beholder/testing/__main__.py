"""`python -m beholder.testing`: starts the loopback server from a shell, until Ctrl-C.

It answers every question with what its schema allows, so that a suite can be tried without a key and without cost:

    python -m beholder.testing --port 8123 --keyless
    beholder run suite.yaml --judge openai:any --base-url http://127.0.0.1:8123/openai/v1
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Mapping, Sequence
from types import FrameType

from beholder.testing.base import Received, Reply, as_mapping
from beholder.testing.server import JudgeServer


def answer_by_schema(received: Received) -> Mapping[str, object] | str:
    """Return an answer of the form that was asked for; without structured output a text that says so."""
    if received.schema is None:
        return "This server looks at nothing; ask it with structured output, or give it an answer with --answer."
    return as_mapping(_fill(received.schema))


def _fill(schema: Mapping[str, object]) -> object:
    """Return a value that fits a schema, in any provider's dialect."""
    choices, kind = schema.get("enum"), str(schema.get("type", "")).lower()
    if isinstance(choices, list) and choices:
        return choices[len(choices) // 2] if kind in ("integer", "number") else choices[0]
    if kind == "object":
        return {name: _fill(as_mapping(part)) for name, part in as_mapping(schema.get("properties")).items()}
    if kind in ("integer", "number"):
        low, high = schema.get("minimum", 1), schema.get("maximum")
        # The middle: the strength of a choice must not be 0.
        return (low + high) // 2 if isinstance(low, int) and isinstance(high, int) else low
    return {"array": [], "boolean": True}.get(kind, "The loopback server looked at nothing.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until Ctrl-C or SIGTERM. Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m beholder.testing", description="A server on this machine with the providers' protocols."
    )
    parser.add_argument("--port", type=int, default=0, help="the port; a free one unless set")
    parser.add_argument("--answer", help="what every question is answered with; else what its schema allows")
    parser.add_argument("--keyless", action="store_true", help="require no API key")
    given = parser.parse_args(arguments)
    reply: Reply = answer_by_schema if given.answer is None else given.answer

    def end(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):  # a shell's background job begins with SIGINT ignored
        signal.signal(number, end)
    try:
        with JudgeServer(reply, keyless=given.keyless, port=given.port) as server:
            for name, url in (
                ("openai", server.openai_url),
                ("anthropic", server.anthropic_url),
                ("google", server.google_url),
            ):
                print(f"{name:10} {url}", flush=True)
            print("Ctrl-C ends it.", flush=True)
            server.wait()
    except KeyboardInterrupt:
        return 0
    except (OSError, OverflowError) as error:  # the latter: no port has this number
        why = getattr(error, "strerror", None) or error
        print(f"beholder: port {given.port} cannot be used: {why}.", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
