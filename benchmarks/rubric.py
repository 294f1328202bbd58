"""Writes the prompt (a good 6,000 characters) and the answer's schema of the rubric in use, for the peers."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from beholder.rubrics.load import load_rubrics
from beholder.rubrics.prompt import make_answer_schema, render_system_prompt

if __name__ == "__main__":
    rubric = load_rubrics("edit-preservation")[0].with_setting("online")
    Path(sys.argv[1]).write_text(render_system_prompt(rubric))
    Path(sys.argv[2]).write_text(json.dumps(make_answer_schema(rubric)))
