"""`python -m beholder`."""

from __future__ import annotations

from beholder.cli import main

main()
