"""Printing of verdicts and briefs, and the exit code for verdicts."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum

import typer

from beholder.cli import EXIT_THRESHOLD, EXIT_UNSCORED
from beholder.errors import UsageError
from beholder.reports.text import printable
from beholder.rubrics.brief import Brief, TextBlock
from beholder.rubrics.rubric import Rubric, to_fraction
from beholder.verdicts.verdict import Verdict


class OutputFormat(StrEnum):
    """Format of a printed verdict."""

    CARD = "card"
    JSON = "json"
    SEED = "seed"

    @classmethod
    def of(cls, name: str) -> OutputFormat:
        try:
            return cls(name)
        except ValueError:
            raise UsageError(f"--format is one of {', '.join(cls)}, not {name!r}.") from None


def show_spinner(text: str) -> AbstractContextManager[object]:
    """Show a spinner on stderr; nothing where stderr is no terminal."""
    if not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True, emoji=False).status(text)


def print_verdicts(judged: Sequence[tuple[Verdict, Rubric]], form: OutputFormat, *, full: bool = False) -> None:
    """Print verdicts, each with its rubric in the style and setting that was used."""
    for verdict, rubric in judged:
        if form is OutputFormat.JSON:
            typer.echo(json.dumps({**verdict.to_dict(), "answer": verdict.answer}, ensure_ascii=False))
        elif form is OutputFormat.SEED:
            print_seed(verdict, rubric)
        else:
            print_card(verdict, full=full)


def print_seed(verdict: Verdict, rubric: Rubric) -> None:
    """Print the published JSON on one line; say on stderr why an unscored or partly abstaining verdict has none."""
    from beholder.verdicts.seed_format import explain_no_seed, to_seed_format

    if not verdict.scored:
        why = printable(verdict.detail)
        print(f"beholder: {verdict.case!r} is {verdict.outcome} and has no seed format: {why}", file=sys.stderr)
    elif why := explain_no_seed(verdict):
        print(f"beholder: {verdict.case!r} {why}; use --json.", file=sys.stderr)
    else:
        typer.echo(json.dumps(to_seed_format(verdict, rubric), ensure_ascii=False))


def print_card(verdict: Verdict, *, full: bool = False) -> None:
    from rich.console import Console

    from beholder.reports.cards import render_verdict

    Console(highlight=False).print(render_verdict(verdict, full=full))


def verdicts_exit_code(
    verdicts: Sequence[Verdict], fail_under: float | None = None, *, strict: bool = False, seed: bool = False
) -> int:
    """Return the exit code: 1 for a missed threshold, else 3 for a missing score, else 0.

    Args:
        verdicts: The verdicts.
        fail_under: Least score × 100.
        strict: A case that did not pass counts as a missed threshold.
        seed: A verdict without a seed format counts as a missing score.
    """
    from beholder.verdicts.seed_format import explain_no_seed

    if fail_under is not None and 0 < fail_under <= 1:
        raise UsageError(f"--fail-under is on a scale to 100; for a score of {fail_under:g} say {fail_under * 100:g}.")
    scores = [to_fraction(verdict.score) for verdict in verdicts if verdict.score is not None]
    if fail_under is not None and any(score * 100 < to_fraction(fail_under) for score in scores):
        return EXIT_THRESHOLD
    if strict and any(verdict.passed is False for verdict in verdicts):
        return EXIT_THRESHOLD
    scored = [verdict.score is not None and not (seed and explain_no_seed(verdict)) for verdict in verdicts]
    return 0 if all(scored) else EXIT_UNSCORED


def brief_to_dict(brief: Brief) -> dict[str, object]:
    """Return a brief as JSON values, without the bytes of its images."""
    content = [
        {"text": part.text}
        if isinstance(part, TextBlock)
        else {
            "role": part.role,
            "label": part.label,
            "media_type": part.image.media_type,
            "width": part.image.width,
            "height": part.image.height,
            "bytes": len(part.image.data),
            "digest": part.image.digest,
            "scaled": part.image.scaled,
            "notes": list(part.image.notes),
        }
        for part in brief.content
    ]
    return {
        "rubric": brief.rubric,
        "rubric_version": brief.rubric_version,
        "setting": brief.setting,
        "brief_digest": brief.digest,
        "label": brief.label,
        "system": brief.system,
        "content": content,
        "schema": brief.schema,
    }


def print_brief(brief: Brief) -> None:
    """Print a brief as a judge would get it."""
    typer.echo(f"── brief {brief.digest[:12]} · {brief.rubric} {brief.rubric_version} ── system\n")
    typer.echo(printable(brief.system, lines=True))
    typer.echo("── user\n")
    for part in brief.content:
        if isinstance(part, TextBlock):
            typer.echo(printable(part.text, lines=True))
        else:
            image = part.image
            notes = "".join(f", {note}" for note in image.notes)
            size = f"{image.media_type}, {image.width}×{image.height}, {len(image.data):,} bytes{notes}"
            typer.echo(f"{printable(part.label)}\n[{part.role}: {size}, sha256 {image.digest[:12]}]\n")
    typer.echo("\n── schema of the answer\n")
    typer.echo(json.dumps(brief.schema, indent=1) if brief.schema else "none: the prompt says itself what it wants")
