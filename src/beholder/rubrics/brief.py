"""A brief: what a judge is asked, as pure data.

A rubric applied to cases: their briefs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from msgspec import structs

from beholder.cases.case import Case, FieldValue
from beholder.errors import CaseError, Problem, RubricError
from beholder.images.image import PreparedImage
from beholder.rubrics.load import find_style
from beholder.rubrics.prompt import (
    JsonSchema,
    clean_text,
    delimit,
    estimate_answer_tokens,
    fill_placeholders,
    make_answer_schema,
    make_fence_token,
    placeholder_values,
    render_data_rules,
    render_system_prompt,
)
from beholder.rubrics.rubric import Criterion, Rubric, RubricField


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A piece of the user message."""

    text: str


@dataclass(frozen=True, slots=True)
class ImageBlock:
    """An image of the user message. A wire sends `label` as text right before the image."""

    role: str
    label: str
    image: PreparedImage


@dataclass(frozen=True, slots=True)
class Brief:
    """A rubric applied to a case.

    `system` is the rubric, the same for every case of a style, so that providers can cache it; `content` the user
    message in order. `schema` is the answer's JSON Schema in neutral form (wires turn it into the provider's), or
    `None` where the prompt is a user's own and says itself what it wants. `label` is the opaque name under which
    the judge knows the case; it follows from the digest and is no part of it.

    `fields` and `criteria` are the case's texts and the rubric's criteria as values, for a judge that is no language
    model. The digest covers them already: they stand in `content` and `system` (but for how assertions are measured).
    """

    rubric: str
    rubric_version: str
    setting: str | None
    system: str
    content: tuple[TextBlock | ImageBlock, ...]
    schema: Mapping[str, object] | None
    digest: str
    label: str
    answer_tokens: int = 2048
    fields: Mapping[str, FieldValue] = field(default_factory=dict)
    criteria: tuple[Criterion, ...] = ()

    @property
    def images(self) -> tuple[ImageBlock, ...]:
        return tuple(part for part in self.content if isinstance(part, ImageBlock))


@dataclass(frozen=True)
class _AppliedRubric:
    """What all cases of one setting and style share; rendered once."""

    rubric: Rubric
    system: str
    schema: JsonSchema | None

    @cached_property
    def seal(self) -> tuple[hashlib._Hash, bytes]:
        """What the digests of all its briefs begin with, hashed, and what they end with: most of their text."""
        rubric = self.rubric
        before = _dump_json([rubric.name, rubric.version, rubric.setting, self.system])[:-1] + b", "
        return hashlib.sha256(before), b", " + _dump_json(self.schema) + b"]"


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
        self._applied: dict[tuple[str, str, bool], _AppliedRubric] = {}
        self._fits: dict[tuple[tuple[str, ...], tuple[str, ...]], str] = {}
        self._filled = [field.name for field in rubric.fields if field.required and not field.may_be_empty]

    def rubric_for(self, case: Case) -> Rubric:
        """The rubric as this case meets it: its setting chosen, its style's assertions in place."""
        return self._apply(case).rubric

    def rubric_for_style(self, style: str = "") -> Rubric:
        """The rubric without any case: in this composer's setting (or its first), with the assertions of `style`."""
        return self._settle(self._setting or choose_setting(self.rubric, ()), style).rubric

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
            raise CaseError(f"The case {case.id!r} lacks the image {_quote_names(missing)} that {rubric.name} needs.")
        pictures = tuple(ImageBlock(role, rubric.image(role).label, images[role]) for role in roles)
        content = (
            self._own_content(rubric, case, pictures) if self._prompt else _compose_content(rubric, case, pictures)
        )
        return replace(_seal_brief(applied, content), fields=dict(case.fields), criteria=rubric.criteria)

    def _apply(self, case: Case) -> _AppliedRubric:
        setting = self._checked(case)
        if not self.rubric.styles:
            return self._settle(setting)
        described = not _is_blank(case.fields.get("style_description", ()))
        return self._settle(setting, _single_text(case.fields["style"]), described=described)

    def _checked(self, case: Case) -> str:
        """The setting of a case that fits. Of those with the same names the first is looked at closely; the others
        differ in what is empty. Raises `CaseError`."""
        names = tuple(case.fields), tuple(case.images)
        setting = self._fits.get(names)
        if setting is None or any(_is_blank(case.fields[name]) for name in self._filled):
            setting = self._setting or choose_setting(self.rubric, case.images)
            _check_case(self.rubric.with_setting(setting), case)
            self._fits[names] = setting
        return setting

    def _settle(self, setting: str, style: str = "", *, described: bool = False) -> _AppliedRubric:
        """The rubric in a setting and a style; `described` where the case itself says what the style is."""
        key = (setting, style, described)
        if key not in self._applied:
            rubric = self.rubric.with_setting(setting)
            if rubric.styles:
                found = find_style(style, self._style_folders)
                rubric = rubric.with_style(structs.replace(found, description="") if described else found)
                _check_assertions(rubric, found.style)
            if self._prompt:
                self._applied[key] = _AppliedRubric(rubric, render_data_rules(), None)
            else:
                self._applied[key] = _AppliedRubric(rubric, render_system_prompt(rubric), make_answer_schema(rubric))
        return self._applied[key]

    def _own_content(
        self, rubric: Rubric, case: Case, pictures: Sequence[ImageBlock]
    ) -> tuple[TextBlock | ImageBlock, ...]:
        """The user's text, the images after it, then every field that it has no placeholder for."""
        assert self._prompt is not None
        token = make_fence_token(text for name in case.fields for text in _list_texts(case.fields[name]))
        values = {field.name: _format_field(field, case, token) or field.absent for field in rubric.fields}
        if rubric.style:
            values["style"] = rubric.style.style
            if rubric.style.description:
                values.pop("style_description", None)  # the preset's, below
        values = placeholder_values(rubric) | values
        text, used = fill_placeholders(self._prompt, values)
        if "style_name" in used:
            used |= {"style"}
        rest = [
            _format_field(field, case, token) or _format_absent(field)
            for field in rubric.fields
            if field.name in case.fields and field.name not in used
        ]
        closing = "\n\n".join([*rest, _format_label(rubric)] if rubric.echo else rest)
        return (TextBlock(text), *pictures, *([TextBlock(closing)] if closing else []))


def choose_setting(rubric: Rubric, roles: Collection[str]) -> str:
    """The first setting that takes images of all these roles; the rubric's first where none does."""
    fitting = (name for name, one in rubric.settings.items() if set(roles) <= set(one.images))
    return next(fitting, next(iter(rubric.settings), ""))


def _check_case(rubric: Rubric, case: Case) -> None:
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
        if field.required
        and not field.may_be_empty
        and field.name in case.fields
        and _is_blank(case.fields[field.name])
    ]
    wrong += [f"it has the unknown image {role!r}" for role in case.images if role not in rubric.roles]
    if wrong:
        raise CaseError(
            f"The case {case.id!r} does not fit {rubric.name}: {'; '.join(wrong)}. "
            f"Its fields are {_quote_names(known) or 'none'}, its images {_quote_names(rubric.roles)}."
        )


def _check_assertions(rubric: Rubric, style: str) -> None:
    bare = [criterion.key for criterion in rubric.criteria if not criterion.assertions]
    if bare:
        problems = [Problem(f"has none for the criterion {key!r}", "assertions") for key in bare]
        raise RubricError(f"the style {style}", problems)


def _compose_content(rubric: Rubric, case: Case, pictures: Sequence[ImageBlock]) -> tuple[TextBlock | ImageBlock, ...]:
    token = make_fence_token(text for name in case.fields for text in _list_texts(case.fields[name]))
    blocks = [_format_field(field, case, token) or _format_absent(field) for field in rubric.fields]
    parts = [
        *(block for block in blocks if block),
        *([_format_label(rubric)] if rubric.echo else []),
        "Judge this case by the rubric and answer with the JSON object only.",
    ]
    return (*pictures, TextBlock("\n\n".join(parts)))


def _format_field(field: RubricField, case: Case, token: str) -> str:
    if field.name not in case.fields:
        return ""
    texts = _list_texts(case.fields[field.name])
    names = [field.name] if len(texts) == 1 else [f"{field.name} {n} of {len(texts)}" for n in range(1, len(texts) + 1)]
    return "\n".join(delimit(name, text, token) for name, text in zip(names, texts, strict=True))


def _format_absent(field: RubricField) -> str:
    return f"{field.name}: {field.absent}" if field.absent else ""


_LABEL_MARK = "\0label\0"


def _format_label(rubric: Rubric) -> str:
    return f"The label of this case, to be repeated as `{rubric.echo}`: {_LABEL_MARK}"


def _seal_brief(applied: _AppliedRubric, content: Sequence[TextBlock | ImageBlock]) -> Brief:
    """The brief with its digest, and the label that follows from the digest put in its place."""
    rubric = applied.rubric
    seen = [
        part.text
        if isinstance(part, TextBlock)
        else {"role": part.role, "label": part.label, "image": part.image.digest}
        for part in content
    ]
    before, after = applied.seal
    seal = before.copy()
    seal.update(_dump_json(seen) + after)
    digest = seal.hexdigest()
    label = f"case-{digest[:8]}"
    return Brief(
        rubric=rubric.name,
        rubric_version=rubric.version,
        setting=rubric.setting or None,
        system=applied.system,
        content=tuple(
            TextBlock(clean_text(part.text.replace(_LABEL_MARK, label))) if isinstance(part, TextBlock) else part
            for part in content
        ),
        schema=applied.schema,
        digest=digest,
        label=label,
        answer_tokens=estimate_answer_tokens(rubric),
    )


def _dump_json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def _list_texts(value: FieldValue) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _is_blank(value: FieldValue) -> bool:
    return not any(text.strip() for text in _list_texts(value))


def _single_text(value: FieldValue) -> str:
    texts = _list_texts(value)
    if len(texts) != 1:
        raise CaseError("The field 'style' is one name, not a list.")
    return texts[0]


def _quote_names(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))
