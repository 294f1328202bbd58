"""A rubric applied to cases: their briefs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from msgspec import structs

from beholder.cases import Case, FieldValue
from beholder.errors import CaseError, Problem, RubricError
from beholder.images.model import PreparedImage
from beholder.rubrics.brief import Brief, Picture, Text
from beholder.rubrics.delimiting import clean, delimited, fence
from beholder.rubrics.library import find_style
from beholder.rubrics.model import Field, Rubric
from beholder.rubrics.prompts import fill, rubric_values
from beholder.rubrics.rendering import data_rules, system_text
from beholder.rubrics.schema import Schema, answer_schema, answer_tokens


@dataclass(frozen=True)
class _Applied:
    """What all cases of one setting and style share; rendered once."""

    rubric: Rubric
    system: str
    schema: Schema | None

    @cached_property
    def seal(self) -> tuple[hashlib._Hash, bytes]:
        """What the digests of all its briefs begin with, hashed, and what they end with: most of their text."""
        rubric = self.rubric
        before = _dumped([rubric.name, rubric.version, rubric.setting, self.system])[:-1] + b", "
        return hashlib.sha256(before), b", " + _dumped(self.schema) + b"]"


class Composer:
    """Makes the briefs of one rubric, in our words or in a user's own `prompt`.

    `setting` chooses among the rubric's settings; without it, a case's images decide. `style_folders` hold a user's
    own styles.
    """

    def __init__(
        self, rubric: Rubric, *, prompt: str | None = None, setting: str = "", style_folders: Sequence[Path] = ()
    ) -> None:
        if setting and setting not in rubric.settings:
            allowed = ", ".join(rubric.settings) or "none"
            raise CaseError(f"{rubric.name} has no setting {setting!r}; it has {allowed}.")
        if prompt is not None and not prompt.strip():
            raise CaseError("The prompt is empty: it should say what the judge is to do.")
        self.rubric = rubric
        self._prompt = prompt
        self._setting = setting
        self._style_folders = tuple(style_folders)
        self._applied: dict[tuple[str, str, bool], _Applied] = {}
        self._fits: dict[tuple[tuple[str, ...], tuple[str, ...]], str] = {}
        self._filled = [field.name for field in rubric.fields if field.required and not field.may_be_empty]

    def rubric_for(self, case: Case) -> Rubric:
        """The rubric as this case meets it: its setting chosen, its style's assertions in place."""
        return self._apply(case).rubric

    def rubric_in(self, style: str = "") -> Rubric:
        """The rubric without any case: in this composer's setting (or its first), with the assertions of `style`."""
        return self._settle(self._setting or fitting_setting(self.rubric, ()), style).rubric

    def compose(self, case: Case, images: Mapping[str, PreparedImage] | None) -> Brief:
        """The brief of a case whose images (by role) are prepared. Raises `CaseError` when it does not fit.

        `None` in place of the images makes a brief without any, for a judge that needs none.
        """
        applied = self._apply(case)
        rubric = applied.rubric
        roles = () if images is None else rubric.roles
        images = images or {}
        missing = [role for role in roles if role not in images]
        if missing:
            raise CaseError(f"The case {case.id!r} lacks the image {_quoted(missing)} that {rubric.name} needs.")
        pictures = tuple(Picture(role, rubric.image(role).label, images[role]) for role in roles)
        content = self._own_content(rubric, case, pictures) if self._prompt else _content(rubric, case, pictures)
        return replace(_sealed(applied, content), fields=dict(case.fields), criteria=rubric.criteria)

    def _apply(self, case: Case) -> _Applied:
        setting = self._checked(case)
        if not self.rubric.styles:
            return self._settle(setting)
        described = not _blank(case.fields.get("style_description", ()))
        return self._settle(setting, _one(case.fields["style"]), described=described)

    def _checked(self, case: Case) -> str:
        """The setting of a case that fits. Of those with the same names the first is looked at closely; the others
        differ in what is empty. Raises `CaseError`."""
        names = tuple(case.fields), tuple(case.images)
        setting = self._fits.get(names)
        if setting is None or any(_blank(case.fields[name]) for name in self._filled):
            setting = self._setting or fitting_setting(self.rubric, case.images)
            _check(self.rubric.with_setting(setting), case)
            self._fits[names] = setting
        return setting

    def _settle(self, setting: str, style: str = "", *, described: bool = False) -> _Applied:
        """The rubric in a setting and a style; `described` where the case itself says what the style is."""
        key = (setting, style, described)
        if key not in self._applied:
            rubric = self.rubric.with_setting(setting)
            if rubric.styles:
                found = find_style(style, self._style_folders)
                rubric = rubric.with_style(structs.replace(found, description="") if described else found)
                _check_assertions(rubric, found.style)
            if self._prompt:
                self._applied[key] = _Applied(rubric, data_rules(), None)
            else:
                self._applied[key] = _Applied(rubric, system_text(rubric), answer_schema(rubric))
        return self._applied[key]

    def _own_content(self, rubric: Rubric, case: Case, pictures: Sequence[Picture]) -> tuple[Text | Picture, ...]:
        """The user's text, the images after it, then every field that it has no placeholder for."""
        assert self._prompt is not None
        token = fence(text for name in case.fields for text in _texts(case.fields[name]))
        values = {field.name: _field_text(field, case, token) or field.absent for field in rubric.fields}
        if rubric.style:
            values["style"] = rubric.style.style
            if rubric.style.description:
                values.pop("style_description", None)  # the preset's, below
        values = rubric_values(rubric) | values
        text, used = fill(self._prompt, values)
        if "style_name" in used:
            used |= {"style"}
        rest = [
            _field_text(field, case, token) or _absent(field)
            for field in rubric.fields
            if field.name in case.fields and field.name not in used
        ]
        closing = "\n\n".join([*rest, _label_line(rubric)] if rubric.echo else rest)
        return (Text(text), *pictures, *([Text(closing)] if closing else []))


def fitting_setting(rubric: Rubric, roles: Collection[str]) -> str:
    """The first setting that takes images of all these roles; the rubric's first where none does."""
    fitting = (name for name, one in rubric.settings.items() if set(roles) <= set(one.images))
    return next(fitting, next(iter(rubric.settings), ""))


def _check(rubric: Rubric, case: Case) -> None:
    known = [field.name for field in rubric.fields]
    wrong = [f"it has the unknown field {name!r}" for name in case.fields if name not in known]
    wrong += [
        f"it lacks the field {field.name!r}"
        for field in rubric.fields
        if field.required and field.name not in case.fields
    ]
    wrong += [
        f"its field {field.name!r} is empty"
        for field in rubric.fields
        if field.required and not field.may_be_empty and field.name in case.fields and _blank(case.fields[field.name])
    ]
    wrong += [f"it has the unknown image {role!r}" for role in case.images if role not in rubric.roles]
    if wrong:
        raise CaseError(
            f"The case {case.id!r} does not fit {rubric.name}: {'; '.join(wrong)}. "
            f"Its fields are {_quoted(known) or 'none'}, its images {_quoted(rubric.roles)}."
        )


def _check_assertions(rubric: Rubric, style: str) -> None:
    bare = [criterion.key for criterion in rubric.criteria if not criterion.assertions]
    if bare:
        problems = [Problem(f"has none for the criterion {key!r}", "assertions") for key in bare]
        raise RubricError(f"the style {style}", problems)


def _content(rubric: Rubric, case: Case, pictures: Sequence[Picture]) -> tuple[Text | Picture, ...]:
    token = fence(text for name in case.fields for text in _texts(case.fields[name]))
    blocks = [_field_text(field, case, token) or _absent(field) for field in rubric.fields]
    parts = [
        *(block for block in blocks if block),
        *([_label_line(rubric)] if rubric.echo else []),
        "Judge this case by the rubric and answer with the JSON object only.",
    ]
    return (*pictures, Text("\n\n".join(parts)))


def _field_text(field: Field, case: Case, token: str) -> str:
    if field.name not in case.fields:
        return ""
    texts = _texts(case.fields[field.name])
    names = [field.name] if len(texts) == 1 else [f"{field.name} {n} of {len(texts)}" for n in range(1, len(texts) + 1)]
    return "\n".join(delimited(name, text, token) for name, text in zip(names, texts, strict=True))


def _absent(field: Field) -> str:
    return f"{field.name}: {field.absent}" if field.absent else ""


_LABEL = "\0label\0"


def _label_line(rubric: Rubric) -> str:
    return f"The label of this case, to be repeated as `{rubric.echo}`: {_LABEL}"


def _sealed(applied: _Applied, content: Sequence[Text | Picture]) -> Brief:
    """The brief with its digest, and the label that follows from the digest put in its place."""
    rubric = applied.rubric
    seen = [
        part.text if isinstance(part, Text) else {"role": part.role, "label": part.label, "image": part.image.digest}
        for part in content
    ]
    before, after = applied.seal
    seal = before.copy()
    seal.update(_dumped(seen) + after)
    digest = seal.hexdigest()
    label = f"case-{digest[:8]}"
    return Brief(
        rubric=rubric.name,
        rubric_version=rubric.version,
        setting=rubric.setting or None,
        system=applied.system,
        content=tuple(
            Text(clean(part.text.replace(_LABEL, label))) if isinstance(part, Text) else part for part in content
        ),
        schema=applied.schema,
        digest=digest,
        label=label,
        answer_tokens=answer_tokens(rubric),
    )


def _dumped(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def _texts(value: FieldValue) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _blank(value: FieldValue) -> bool:
    return not any(text.strip() for text in _texts(value))


def _one(value: FieldValue) -> str:
    texts = _texts(value)
    if len(texts) != 1:
        raise CaseError("The field 'style' is one name, not a list.")
    return texts[0]


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))
