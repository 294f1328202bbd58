"""Compose briefs: what a judge is asked about one case, as pure data.

The digest of a brief identifies it in the ledger and in caches, so its bytes must never change for the same rubric and
case: `_dump_json`, the fences and the label placeholder are part of what is stored.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from msgspec import structs

from beholder.cases.case import CANDIDATES, Case, FieldValue, are_same_images, list_texts, quote_names
from beholder.errors import CaseError, Problem, RubricError
from beholder.images.image import PreparedImage
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
from beholder.rubrics.rubric import (
    CANDIDATE_LABELS,
    Criterion,
    OrderChoice,
    Rubric,
    RubricField,
    RubricImage,
)

WHOLE = ""
"""The part of a brief that is all there is to ask about its case."""
GIVEN, SWAPPED = ORDERS = ("given", "swapped")
"""The parts of a preference: its candidates in the order of the case, and the other way round."""
PROBE = "probe"
"""The part of a brief about crops of the edit, asked beside the whole; see `Composer.compose_probe`."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A text of the user message."""

    text: str


@dataclass(frozen=True, slots=True)
class ImageBlock:
    """An image of the user message. Providers send `label` as text right before the image."""

    role: str
    label: str
    image: PreparedImage


@dataclass(frozen=True, slots=True)
class Brief:
    """A rubric applied to a case.

    Attributes:
        system: The system message: the rubric, the same for every case of a style, so that providers can cache it.
        content: The user message, in order.
        schema: The JSON Schema of the answer in neutral form (each provider has its own dialect); `None` where the
            prompt is a user's own and says itself what it wants.
        digest: A SHA-256 of all texts and images that the judge gets.
        label: The opaque name under which the judge knows the case; it follows from the digest and is not part of it.
        answer_tokens: A generous estimate of the tokens of an answer.
        fields: The case's texts as values, for a judge that is not a language model; `criteria` likewise. The digest
            covers them, since they are also in `content` and `system` (except how assertions are measured).
    """

    rubric: str
    rubric_version: str
    setting: str | None
    system: str
    content: tuple[TextBlock | ImageBlock, ...]
    schema: Mapping[str, Any] | None
    digest: str
    label: str
    answer_tokens: int = 2048
    fields: Mapping[str, FieldValue] = field(default_factory=dict)
    criteria: tuple[Criterion, ...] = ()
    part: str = WHOLE
    """Which of several briefs about its case it is: a preference is asked in two orders. It is not in the digest: what
    is asked about (x, y) the other way round is what is asked about (y, x), and has the same answers."""

    def __repr__(self) -> str:
        images = ", ".join(part.role for part in self.images) or "none"
        return f"<Brief {self.label} by {self.rubric} {self.rubric_version}, images: {images}>"

    @property
    def images(self) -> tuple[ImageBlock, ...]:
        """The images of the user message, in order."""
        return tuple(part for part in self.content if isinstance(part, ImageBlock))

    def role_in_case(self, role: str) -> str:
        """Return the role that an image of this brief has in its case: in swapped order `first` is its `second`."""
        return (
            dict(zip(CANDIDATES, reversed(CANDIDATES), strict=True)).get(role, role) if self.part == SWAPPED else role
        )

    def to_dict(self) -> dict[str, object]:
        """Return JSON values, without the bytes of the images."""
        content = [
            {"text": part.text}
            if isinstance(part, TextBlock)
            else {
                "role": part.role,
                "label": part.label,
                "media_type": part.image.media_type,
                "width": part.image.width,
                "height": part.image.height,
                "bytes": len(part.image.data),
                "digest": part.image.digest,
                "scaled": part.image.scaled,
                "notes": list(part.image.notes),
            }
            for part in self.content
        ]
        return {
            "rubric": self.rubric,
            "rubric_version": self.rubric_version,
            "setting": self.setting,
            "brief_digest": self.digest,
            "label": self.label,
            "system": self.system,
            "content": content,
            "schema": self.schema,
        }


@dataclass(frozen=True)
class _AppliedRubric:
    """What all cases of one setting and style share."""

    rubric: Rubric
    system: str
    schema: JsonSchema | None

    @cached_property
    def digest_frame(self) -> tuple[hashlib._Hash, bytes]:
        """The hash of what the digests of all its briefs begin with, and what they end with: most of their text."""
        rubric = self.rubric
        prefix = _dump_json([rubric.name, rubric.version, rubric.setting, self.system])[:-1] + b", "
        return hashlib.sha256(prefix), b", " + _dump_json(self.schema) + b"]"


class Composer:
    """Composes the briefs of one rubric.

    Args:
        rubric: What is asked.
        prompt: A user's own prompt, in place of the rubric's.
        setting: One of the rubric's settings; without it, the images of a case decide.
        style_folders: Folders with a user's own styles.
        orders: In which orders the candidates of a preference are shown: `both`, `random` or `given`.

    Attributes:
        rubric: What is asked.
        probe_rubric: What is asked about crops of the edit; `None` without a probe.

    Raises:
        CaseError: For an unknown setting or order, or an empty prompt.
    """

    def __init__(
        self,
        rubric: Rubric,
        *,
        prompt: str | None = None,
        setting: str = "",
        style_folders: Sequence[Path] = (),
        orders: str = OrderChoice.BOTH,
    ) -> None:
        if orders not in tuple(OrderChoice):
            raise CaseError(f"The orders are {', '.join(OrderChoice)}, and {orders!r} is none of them.")
        if setting and setting not in rubric.settings:
            allowed = ", ".join(rubric.settings) or "none"
            raise CaseError(f"{rubric.name} has no setting {setting!r}; it has {allowed}.")
        if prompt is not None and not prompt.strip():
            raise CaseError("The prompt is empty: it should say what the judge is to do.")
        self.rubric = rubric
        self.probe_rubric = rubric.make_probe_rubric()
        self._prompt = prompt
        self._setting = setting
        self._style_folders = tuple(style_folders)
        self._orders = orders
        self._applied: dict[tuple[str, str, bool], _AppliedRubric] = {}
        self._applied_probe: _AppliedRubric | None = None
        # By the names of a case's fields and images, and the types of the images: a tuple has several in one role.
        self._setting_by_names: dict[tuple[tuple[str, ...], tuple[str, ...], tuple[type, ...]], str] = {}
        self._must_not_be_blank = [field.name for field in rubric.fields if field.required and not field.may_be_empty]

    def __getstate__(self) -> dict[str, object]:
        """Leave the memos out when a composer is sent to a Ray worker: their hash objects cannot be pickled."""
        return {**self.__dict__, "_applied": {}, "_applied_probe": None, "_setting_by_names": {}}

    def rubric_for(self, case: Case) -> Rubric:
        """Return the rubric for a case: with its setting, and with the assertions of its style.

        Raises:
            CaseError: The case does not fit.
        """
        return self._apply(case).rubric

    def check(self, case: Case) -> None:
        """Raise `CaseError` if a case does not fit, or its candidates are the same, for which their files are read."""
        if self.rubric_for(case).is_preference:
            _check_candidates(case)

    def is_ready_for(self, case: Case) -> bool:
        """Return whether `check` takes no time; else it renders a template, or reads files, which may take seconds."""
        try:
            return not self.rubric.is_preference and self._applied_key(case) in self._applied
        except CaseError:
            return False

    def rubric_for_style(self, style: str = "") -> Rubric:
        """Return the rubric without a case: in this composer's setting (or its first), with a style's assertions."""
        return self._apply_setting(self._setting or choose_setting(self.rubric, ()), style).rubric

    def misspelled_styles(self) -> dict[str, str]:
        """Return the styles of the cases so far whose name is nearly that of another one, each with that name."""
        styles = (applied.rubric.style for applied in self._applied.values())
        return {style.style: style.near for style in styles if style is not None and style.near}

    def list_parts(self, case: Case) -> tuple[str, ...]:
        """Return the parts in which a judge is asked about a case: one brief for each, and one verdict from all.

        It is `WHOLE` alone by most rubrics, and the order or orders of the candidates for a preference.
        """
        if not self.rubric.is_preference:
            return (WHOLE,)
        if self._orders == OrderChoice.RANDOM:  # by the id: a run that is resumed asks the same
            return (ORDERS[hashlib.sha256(case.id.encode("utf-8", "replace")).digest()[0] % 2],)
        return ORDERS if self._orders == OrderChoice.BOTH else (GIVEN,)

    def compose(
        self, case: Case, images: Mapping[str, PreparedImage | Sequence[PreparedImage]] | None, part: str = WHOLE
    ) -> Brief:
        """Return the brief of a case, or one of its briefs.

        Args:
            case: The case.
            images: Its prepared images by role, one or several in order; `None` makes a brief without images, for a
                judge that needs none.
            part: One of `list_parts`. For a preference `WHOLE` is the given order.

        Raises:
            CaseError: When the case does not fit the rubric.
        """
        applied = self._apply(case)
        if part == SWAPPED:
            case = replace(case, fields=_swap_candidates(case.fields))
            images = _swap_candidates(images) if images else images
        rubric = applied.rubric
        roles = () if images is None else rubric.roles
        images = images or {}
        missing = [role for role in roles if role not in images]
        if missing:
            raise CaseError(f"The case {case.id!r} lacks the image {quote_names(missing)} that {rubric.name} needs.")
        blocks = tuple(block for role in roles for block in _make_image_blocks(rubric.image(role), images[role]))
        if self._prompt:
            content = _compose_own_prompt(self._prompt, rubric, case, blocks)
        else:
            content = _compose_content(rubric, case, blocks)
        return replace(_make_brief(applied, content), fields=dict(case.fields), criteria=rubric.criteria, part=part)

    def compose_probe(self, case: Case, crops: Mapping[str, PreparedImage]) -> Brief:
        """Return the brief with the questions of the rubric's probe.

        Its texts are never those of a user's own prompt, which asks about whole images.

        Args:
            case: A case that fits the rubric, which has a probe.
            crops: The region of the edit in both images, by `PROBED_ROLES`.
        """
        rubric = self.probe_rubric
        assert rubric is not None
        if self._applied_probe is None:
            self._applied_probe = _AppliedRubric(rubric, render_system_prompt(rubric), make_answer_schema(rubric))
        blocks = tuple(ImageBlock(role, rubric.image(role).label, crops[role]) for role in rubric.roles)
        brief = _make_brief(self._applied_probe, _compose_content(rubric, case, blocks))
        return replace(brief, fields=dict(case.fields), criteria=rubric.criteria, part=PROBE)

    def _apply(self, case: Case) -> _AppliedRubric:
        return self._apply_setting(*self._applied_key(case))

    def _applied_key(self, case: Case) -> tuple[str, str, bool]:
        """Return setting and style of a case, and whether it describes the style itself. Raises `CaseError`."""
        setting = self._choose_setting(case)
        if not self.rubric.styles:
            return setting, "", False
        return setting, _single_text(case.fields["style"]), not _is_blank(case.fields.get("style_description", ()))

    def _choose_setting(self, case: Case) -> str:
        """Return the setting of a case. Raises `CaseError` where the case does not fit the rubric.

        Of cases with the same names of fields and images only the first is checked in full; the others can differ only
        in blank fields.
        """
        names = tuple(case.fields), tuple(case.images), tuple(map(type, case.images.values()))
        setting = self._setting_by_names.get(names)
        if setting is None or any(_is_blank(case.fields[name]) for name in self._must_not_be_blank):
            setting = self._setting or choose_setting(self.rubric, case.images)
            _check_case(self.rubric.with_setting(setting), case)
            self._setting_by_names[names] = setting
        return setting

    def _apply_setting(self, setting: str, style: str = "", described: bool = False) -> _AppliedRubric:
        """Return the rubric in a setting and a style. `described` says that the case itself describes the style, so
        that the description of the style's file is not used."""
        key = (setting, style, described)
        if key not in self._applied:
            rubric = self.rubric.with_setting(setting)
            if rubric.styles:
                from beholder.rubrics.load import (
                    find_style,
                )  # late: loads yaml, which a rubric without styles needs not

                preset = find_style(style, self._style_folders)
                rubric = rubric.with_style(structs.replace(preset, description="") if described else preset)
                _check_assertions(rubric, preset.style)
            if self._prompt:
                self._applied[key] = _AppliedRubric(rubric, render_data_rules(), None)
            else:
                self._applied[key] = _AppliedRubric(rubric, render_system_prompt(rubric), make_answer_schema(rubric))
        return self._applied[key]


def choose_setting(rubric: Rubric, roles: Collection[str]) -> str:
    """Return the first setting that takes images of all these roles; the rubric's first setting where none does."""
    fitting = (name for name, setting in rubric.settings.items() if set(roles) <= set(setting.images))
    return next(fitting, next(iter(rubric.settings), ""))


def _check_case(rubric: Rubric, case: Case) -> None:
    """Raise `CaseError` with everything in which a case does not fit a rubric."""
    known = [field.name for field in rubric.fields]
    problems = [f"it has the unknown field {name!r}" for name in case.fields if name not in known]
    problems += [
        f"it lacks the field {field.name!r}"
        for field in rubric.fields
        if field.required and field.name not in case.fields
    ]
    problems += [
        f"its field {field.name!r} is empty"
        for field in rubric.fields
        if field.required
        and not field.may_be_empty
        and field.name in case.fields
        and _is_blank(case.fields[field.name])
    ]
    problems += [f"it has the unknown image {role!r}" for role in case.images if role not in rubric.roles]
    problems += [
        f"it has {len(case.sources(role))} images {role!r}, and the rubric takes one"
        for role in rubric.roles
        if len(case.sources(role)) > 1 and not rubric.image(role).many
    ]
    if problems:
        raise CaseError(
            f"The case {case.id!r} does not fit {rubric.name}: {'; '.join(problems)}. "
            f"Its fields are {quote_names(known) or 'none'}, its images {quote_names(rubric.roles)}."
        )


def _check_candidates(case: Case) -> None:
    """Raise `CaseError` where the candidates are plainly the same. A remote image is known only when it is fetched."""
    first, second = CANDIDATES
    if (text := case.fields.get(first)) is not None and text == case.fields.get(second):
        raise CaseError(f"The case {case.id!r} has the same text as first and second; there is nothing to compare.")
    images = [case.sources(role) for role in CANDIDATES]
    if all(len(one) == 1 for one in images) and are_same_images(images[0][0], images[1][0]):
        raise CaseError(f"The case {case.id!r} has the same image as first and second; there is nothing to compare.")


def _swap_candidates(values: Mapping[str, T]) -> dict[str, T]:
    """Return the values with those of the two candidates exchanged; their names keep their places."""
    first, second = CANDIDATES
    other = {first: second, second: first} if first in values and second in values else {}
    return {name: values[other.get(name, name)] for name in values}


def _check_assertions(rubric: Rubric, style: str) -> None:
    empty = [criterion.key for criterion in rubric.criteria if not criterion.assertions]
    if empty:
        problems = [Problem(f"has none for the criterion {key!r}", "assertions") for key in empty]
        raise RubricError(f"the style {style}", problems)


def _make_image_blocks(image: RubricImage, prepared: PreparedImage | Sequence[PreparedImage]) -> Iterator[ImageBlock]:
    """Return the images of a role; each of several is told by its number: `Reference Image 1 of 3`."""
    several = [prepared] if isinstance(prepared, PreparedImage) else prepared
    for number, one in enumerate(several, start=1):
        label = image.label if len(several) == 1 else f"{image.label} {number} of {len(several)}"
        yield ImageBlock(image.role, label, one)


def _compose_content(rubric: Rubric, case: Case, images: Sequence[ImageBlock]) -> tuple[TextBlock | ImageBlock, ...]:
    """Return the user message in our words: the images, then the fields, the label and what to do."""
    token = make_fence_token(text for name in case.fields for text in list_texts(case.fields[name]))
    blocks = [_format_field(rubric, field, case, token) or _format_absent(field) for field in rubric.fields]
    parts = [
        *(block for block in blocks if block),
        *([_format_label(rubric)] if rubric.echo else []),
        "Judge this case by the rubric and answer with the JSON object only.",
    ]
    return (*images, TextBlock("\n\n".join(parts)))


def _compose_own_prompt(
    prompt: str, rubric: Rubric, case: Case, images: Sequence[ImageBlock]
) -> tuple[TextBlock | ImageBlock, ...]:
    """Return the user message in a user's own words: their text, the images, then every field without a placeholder."""
    token = make_fence_token(text for name in case.fields for text in list_texts(case.fields[name]))
    values = {field.name: _format_field(rubric, field, case, token) or field.absent for field in rubric.fields}
    if rubric.style:
        values["style"] = rubric.style.style
        if rubric.style.description:
            values.pop("style_description", None)  # that of the style's file is used, from `placeholder_values`
    values = placeholder_values(rubric) | values
    text, used = fill_placeholders(prompt, values)
    if "style_name" in used:
        used |= {"style"}
    rest = [
        _format_field(rubric, field, case, token) or _format_absent(field)
        for field in rubric.fields
        if field.name in case.fields and field.name not in used
    ]
    closing = "\n\n".join([*rest, _format_label(rubric)] if rubric.echo else rest)
    return (TextBlock(text), *images, *([TextBlock(closing)] if closing else []))


def _format_field(rubric: Rubric, field: RubricField, case: Case, token: str) -> str:
    if field.name not in case.fields:
        return ""
    texts = list_texts(case.fields[field.name])
    shown = CANDIDATE_LABELS.get(field.name, field.name) if rubric.is_preference else field.name
    names = [shown] if len(texts) == 1 else [f"{shown} {n} of {len(texts)}" for n in range(1, len(texts) + 1)]
    return "\n".join(delimit(name, text, token) for name, text in zip(names, texts, strict=True))


def _format_absent(field: RubricField) -> str:
    return f"{field.name}: {field.absent}" if field.absent else ""


_LABEL_MARK = "\0label\0"  # stands for the label while the digest, which the label follows from, is computed


def _format_label(rubric: Rubric) -> str:
    return f"The label of this case, to be repeated as `{rubric.echo}`: {_LABEL_MARK}"


def _make_brief(applied: _AppliedRubric, content: Sequence[TextBlock | ImageBlock]) -> Brief:
    """Return the brief with its digest, and with the label in place of its mark."""
    rubric = applied.rubric
    digested = [
        part.text
        if isinstance(part, TextBlock)
        else {"role": part.role, "label": part.label, "image": part.image.digest}
        for part in content
    ]
    prefix_hash, suffix = applied.digest_frame
    hasher = prefix_hash.copy()
    hasher.update(_dump_json(digested) + suffix)
    digest = hasher.hexdigest()
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
    # Not msgspec, which writes no blanks after commas: the digests of all briefs depend on these bytes.
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def _is_blank(value: FieldValue) -> bool:
    return not any(text.strip() for text in list_texts(value))


def _single_text(value: FieldValue) -> str:
    texts = list_texts(value)
    if len(texts) != 1:
        raise CaseError("The field 'style' is one name, not a list.")
    return texts[0]
