"""Draws docs/verdict.svg, the picture in the README, from the demo's recorded answer: `make pictures`."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from beholder.judges.recorded import Rescorer, read_recorded
from beholder.reports.cards import render_verdict
from beholder.rubrics.load import load_rubric

ROOT = Path(__file__).parents[1]

# Rich's own format fetches a font from the network; this one takes what the reader's machine has.
SVG = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g></g></svg>
"""


def main() -> None:
    recorded = next(read_recorded(ROOT / "examples" / "demo" / "restyle.jsonl"))
    verdict, _ = Rescorer(load_rubric("restyle")).verdict(recorded)
    console = Console(record=True, width=96, file=io.StringIO(), force_terminal=True)
    console.print(render_verdict(verdict))
    (ROOT / "docs" / "verdict.svg").write_text(
        console.export_svg(title="beholder", code_format=SVG, unique_id="verdict"), "utf-8"
    )


if __name__ == "__main__":
    main()
