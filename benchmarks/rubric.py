"""Writes the prompt (a good 6,000 characters) and the answer's schema of the rubric in use, for the peers."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from beholder.rubrics.library import load_all
from beholder.rubrics.rendering import system_text
from beholder.rubrics.schema import answer_schema

if __name__ == "__main__":
    rubric = load_all("edit-preservation")[0].with_setting("online")
    Path(sys.argv[1]).write_text(system_text(rubric))
    Path(sys.argv[2]).write_text(json.dumps(answer_schema(rubric)))
