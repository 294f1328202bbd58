"""Rubrics, styles, and the briefs that are made from them.

- `rubric`: a rubric and its parts; `validate`: checks beyond the types of its values
- `load`: built-in rubrics and styles, those of plugins, and those of a user
- `yaml_files`: YAML files read into typed values, with the line of every problem
- `prompt`: the texts of a brief; `brief`: what a judge is asked about one case
- `builtin/`, `styles/`: the files of the built-in rubrics and styles
"""

from __future__ import annotations

from pathlib import Path

builtin_folder = Path(__file__).parent / "builtin"
styles_folder = Path(__file__).parent / "styles"
