"""Briefs made from real rubrics and made-up pictures."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from beholder.cases.case import Case, FieldValue
from beholder.images.image import PreparedImage
from beholder.rubrics.brief import Brief, Composer, TextBlock
from beholder.rubrics.rubric import Rubric

FIELDS: dict[str, dict[str, FieldValue]] = {
    "restyle": {"style": "Anime"},
    "restyle-confidence": {"style": "Anime"},
    "description": {"input": "What is there?", "output": "A cat.", "expected_output": "A dog."},
}


@pytest.fixture(scope="session")
def seeds(shared: Path) -> dict[str, str]:
    """The three prompts of the origin, by the rubric that came from each."""
    found = {path.name[:3]: path.read_text("utf-8") for path in (shared / "seeds").glob("*.txt")}
    return {"restyle": found["000"], "description": found["002"], "edit-preservation": found["003"]}


@pytest.fixture(scope="session")
def picture() -> Callable[[bytes], PreparedImage]:
    def make(data: bytes) -> PreparedImage:
        digest = hashlib.sha256(data).hexdigest()
        return PreparedImage(data, "image/png", 8, 8, digest, digest, 8, 8, "png")

    return make


@pytest.fixture(scope="session")
def compose(picture: Callable[[bytes], PreparedImage]) -> Callable[..., Brief]:
    """`compose("restyle", fields=…, prompt=…, setting=…, images={role: bytes}, id=…)`; what is not given is made up."""

    def make(
        rubric: str | Rubric,
        *,
        fields: Mapping[str, FieldValue] | None = None,
        images: Mapping[str, bytes] | None = None,
        id: str = "p12",
        prompt: str | None = None,
        setting: str = "",
    ) -> Brief:
        rubric = Rubric.load(rubric) if isinstance(rubric, str) else rubric
        composer = Composer(rubric, prompt=prompt, setting=setting)
        given = FIELDS.get(rubric.name, {"instruction": "Remove the dog."}) if fields is None else fields
        case = Case(id, fields=given)
        pictures = {role: picture(role.encode()) for role in composer.rubric_for(case).roles}
        return composer.compose(case, pictures | {role: picture(data) for role, data in (images or {}).items()})

    return make


@pytest.fixture(scope="session")
def user_text() -> Callable[[Brief], str]:
    """All texts of the user message, one after the other."""
    return lambda brief: "\n".join(part.text for part in brief.content if isinstance(part, TextBlock))


@pytest.fixture
def rubric_file(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str, name: str = "mine.yaml") -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    return write
