"""The same rubric in another dress: what a judge should not mind.

`order`: the criteria stand in reverse order, in the prompt and in the answer's schema; each keeps its words, its key
and the ids of its assertions. `labels`: the images are called Image A, Image B … in place of their own names, right
before each image and wherever the prompt speaks of them; their order, and what the prompt says each one is, stay.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from string import ascii_uppercase

import msgspec
from msgspec import structs

from beholder.rubrics.library import PROMPT_FILE, RUBRIC_FILE
from beholder.rubrics.model import Rubric
from beholder.rubrics.rendering import DEFAULT_PROMPT


def in_reverse_order(rubric: Rubric) -> Rubric:
    return structs.replace(rubric, criteria=rubric.criteria[::-1])


def with_other_labels(rubric: Rubric) -> Rubric:
    """The rubric with other names for its images. In the prompt a name of one word ("Image") stays: there it is a
    word like any other."""
    stem = "Picture" if any(image.label.startswith("Image ") for image in rubric.images) else "Image"
    asked_first = sorted(rubric.images, key=lambda image: image.role not in rubric.roles)
    names = {image.label: f"{stem} {letter}" for image, letter in zip(asked_first, ascii_uppercase, strict=False)}
    replaced = [f"replace({_quoted(old)}, {_quoted(new)})" for old, new in names.items() if " " in old]
    prompt = rubric.prompt or f'{{% include "{DEFAULT_PROMPT}" %}}'
    if replaced:
        prompt = f"{{% filter {' | '.join(replaced)} %}}\n{prompt}\n{{% endfilter %}}"
    images = tuple(structs.replace(image, label=names[image.label]) for image in rubric.images)
    return structs.replace(rubric, images=images, prompt=prompt)


VARIANTS: Mapping[str, Callable[[Rubric], Rubric]] = {"order": in_reverse_order, "labels": with_other_labels}


def write_rubric(rubric: Rubric, folder: Path) -> Path:
    """Writes a rubric down as a user would (`rubric.yaml`, `prompt.md.j2`), so that a run can name it; the folder."""
    import yaml

    values = msgspec.to_builtins(rubric)
    prompt = values.pop("prompt")
    for never_in_a_file in ("style", "setting"):
        del values[never_in_a_file]
    folder.mkdir(parents=True, exist_ok=True)
    text = yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=120)
    (folder / RUBRIC_FILE).write_text(text, "utf-8")
    if prompt:
        (folder / PROMPT_FILE).write_text(prompt, "utf-8")
    return folder


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
