"""Rubrics, styles, and the briefs that are made from them."""

from __future__ import annotations

from pathlib import Path

builtin_folder = Path(__file__).parent / "builtin"
styles_folder = Path(__file__).parent / "styles"
