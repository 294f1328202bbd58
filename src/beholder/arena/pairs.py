"""Pairs of outputs to compare: cases of several models on the same photographs or prompts, and the pair cases of them.

An *item* is what several models made an output for: a photograph with an instruction, or a prompt. Cases are of one
item if they are equal in everything but their output and their `model`: the other images, the fields, and the groups
`source`, `prompt` and `item`. Each two outputs of an item make one pair, an ordinary case with the images (or, where
texts are compared, the fields) `first` and `second`, and with the groups `model_first`, `model_second` and `source`.

Which model is first alternates over the items of each two models, in the order of a hash: each is first on half of
them, and a run that is resumed asks the same.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations

import numpy as np

from beholder.cases.case import (
    CANDIDATES,
    MAX_ID,
    OUTPUT_ROLES,
    Case,
    CaseRow,
    CaseSchema,
    FieldValue,
    are_same_images,
    compares_images,
    image_stem,
    list_texts,
)
from beholder.errors import CaseError, UsageError
from beholder.images.image import ImageSource
from beholder.statistics.data import SOURCE_GROUP, Ints

MODEL = "model"
FIRST, SECOND = CANDIDATES
MODEL_FIRST, MODEL_SECOND = "model_first", "model_second"  # groups of a pair that say who made its candidates
OUTPUT_FIELD = "output"

ITEM_GROUPS = (SOURCE_GROUP, "prompt", "item")  # in which the cases of one item agree
_MAX_PROBLEMS = 50  # listed in a message
_MAX_LABEL = 60  # characters of a prompt in the name of its item


@dataclass(frozen=True, slots=True)
class ArenaItem:
    """What several models made an output for.

    Attributes:
        name: Its name in ids of pairs and in messages, unique among the items.
        source: The photograph or prompt, by which votes are grouped; several items may share it.
        images: The images that all its outputs have in common, by role.
        fields: The fields that they have in common.
        groups: The groups in which they agree.
        outputs: The case of each model.
    """

    name: str
    source: str
    images: Mapping[str, ImageSource | tuple[ImageSource, ...]]
    fields: Mapping[str, FieldValue]
    groups: Mapping[str, str]
    outputs: Mapping[str, Case]


@dataclass(frozen=True, slots=True)
class OutputNames:
    """Under which name cases have their outputs.

    Attributes:
        roles: Image roles, of which a case has one; empty where texts are compared.
        field: The field with the text that is compared; empty where images are.
    """

    roles: tuple[str, ...]
    field: str = ""

    def of(self, case: Case) -> str:
        """Return the name of the image or field that is compared."""
        return self.field or next((role for role in self.roles if role in case.images), self.roles[0])


def derive_output_schema(schema: CaseSchema) -> tuple[CaseSchema, OutputNames]:
    """Return what cases of single outputs have, from the names that the pairs of a preference rubric have.

    Args:
        schema: Images and fields of the pairs: `first` and `second` are images, or fields.

    Raises:
        UsageError: The rubric compares no two candidates.
    """
    if {FIRST, SECOND} <= {*schema.required}:
        single = CaseSchema(
            schema.roles,
            (*(name for name in schema.required if name not in (FIRST, SECOND)), OUTPUT_FIELD),
            schema.optional,
            schema.ignored_roles,
            schema.many,
        )
        return single, OutputNames((), OUTPUT_FIELD)
    shared = [tuple(role for role in roles if role not in (FIRST, SECOND)) for roles in schema.roles]
    if not compares_images(schema):
        raise UsageError(
            "An arena compares two candidates, and this rubric does not: name one of kind preference, such as "
            "edit-preference."
        )
    names = tuple(name for name in OUTPUT_ROLES if not any(name in roles for roles in shared))
    alternatives = tuple(dict.fromkeys((*roles, name) for roles in shared for name in names))
    single = CaseSchema(alternatives, schema.required, schema.optional, schema.ignored_roles, schema.many)
    return single, OutputNames(names)


@dataclass(frozen=True, slots=True)
class CollectedItems:
    """The items of an arena, and what is wrong with the cases that are not in them.

    Attributes:
        items: The items.
        problems: What is wrong, in sentences.
        possible: Pairs that there would be if nothing were wrong with the outputs that are known.
        unplaced: Cases that could not be read or name no model, of which it is not known what pairs they would make.
        outputs: Outputs that there would be if every model had one for each item.
        missing: The names of the items for which a model has no case, by model; an image that cannot be used is a
            problem instead.
    """

    items: tuple[ArenaItem, ...]
    problems: tuple[str, ...]
    possible: int = 0
    unplaced: int = 0
    outputs: int = 0
    missing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def check(self, *, skip_bad: bool = False) -> None:
        """Raise for what is wrong.

        Args:
            skip_bad: Whether the cases that are wrong are left out.

        Raises:
            CaseError: Something is wrong with cases, or no item has outputs of two models.
        """
        if self.problems and not skip_bad:
            more = len(self.problems) - _MAX_PROBLEMS
            listed = "\n".join(self.problems[:_MAX_PROBLEMS]) + (f"\n… and {more} more" if more > 0 else "")
            things = "1 thing is" if len(self.problems) == 1 else f"{len(self.problems)} things are"
            raise CaseError(
                f"{things} wrong with the cases (--skip-bad or skip_bad=True goes on without them):\n{listed}"
            )
        if not self.items:
            first = f"; the first problem: {self.problems[0]}" if self.problems else ""
            raise CaseError(f"There is no pair to compare: no photograph or prompt has outputs of two models{first}.")


def collect_items(
    rows: Iterable[CaseRow], names: OutputNames, find_problems: Callable[[Case], Sequence[str]] = lambda case: ()
) -> CollectedItems:
    """Group cases by what they are an output for.

    Args:
        rows: Cases of one output each, with the group `model`.
        names: Under which name they have it.
        find_problems: Says what is wrong with the images of a case, such as that a file is missing.

    Returns:
        Items with two outputs or more. What was left out of them is a problem: a case that is wrong or names no model,
        a model with two outputs for one item, a model or an item with one output, two outputs that are the same image.
    """
    problems: list[str] = []
    found: dict[tuple[object, ...], list[Case]] = {}
    lost: dict[tuple[object, ...], list[Case]] = {}  # outputs that cannot be used
    nameless: list[CaseRow] = []
    unplaced = 0
    for row in rows:
        if row.case is None:
            unplaced += 1
            problems += [f"{row.location}: {problem}" for problem in row.problems]
        elif not row.case.groups.get(MODEL, "").strip():
            nameless.append(row)
        elif wrong := find_problems(row.case):
            problems += [f"{row.location}: {problem}" for problem in wrong]
            lost.setdefault(_item_key(row.case, names), []).append(row.case)
        else:
            found.setdefault(_item_key(row.case, names), []).append(row.case)
    problems[:0] = _describe_nameless(nameless, every=not found and not lost)
    known = {key: [*found.get(key, ()), *lost.get(key, ())] for key in [*found, *lost]}  # those without a use last
    models = [{case.groups[MODEL].strip() for case in made} for made in known.values()]
    possible = sum(math.comb(len(made), 2) for made in models)
    cases = list(found.values())
    sources = _name_sources(list(known.values()), names)
    labels = _number_repeats([*sources], list(range(len(known))))
    by_model = [_sort_by_model(label, members, problems) for label, members in zip(labels, cases, strict=False)]
    lonely = _find_lonely_models(cases, problems)
    items = []
    for key, label, source, outputs in zip(found, labels, sources, by_model, strict=False):
        kept = {model: case for model, case in outputs.items() if model not in lonely}
        if len(kept) < 2:
            if len(outputs) == 1 and kept and key not in lost:
                model, case = next(iter(kept.items()))
                problems.append(f"{label}: there is one output only, {case.id!r} of {model}; a comparison takes two.")
            continue
        items.append(_make_item(label, source, kept, names))
    ranked = sorted(set().union(*models) - lonely)
    missing = {
        model: tuple(label for label, made in zip(labels, models, strict=True) if model not in made) for model in ranked
    }
    return CollectedItems(
        tuple(items),
        tuple(problems),
        possible,
        unplaced + len(nameless),
        outputs=len(ranked) * len(known),
        missing={model: gone for model, gone in missing.items() if gone},
    )


def _describe_nameless(rows: Sequence[CaseRow], *, every: bool) -> list[str]:
    """Return a problem for each case without a model; one for all of them if no case has one."""
    mend = "give a column 'model', or write {model} in the pattern of its image."
    if every and len(rows) > 1:
        return [f"None of {len(rows):,} cases names a model, such as {rows[0].id!r} ({rows[0].location}); {mend}"]
    return [f"{row.location}: the case {row.id!r} names no model; {mend}" for row in rows]


def _item_key(case: Case, names: OutputNames) -> tuple[object, ...]:
    output = names.of(case)
    images = tuple((role, image_key(source)) for role, source in case.list_images() if names.field or role != output)
    fields = tuple(sorted((name, list_texts(text)) for name, text in case.fields.items() if name != names.field))
    return images, fields, tuple(case.groups.get(group, "") for group in ITEM_GROUPS)


def image_key(source: ImageSource) -> str:
    """Return what tells an image from others without reading it: its path or address, or the digest of its bytes."""
    return hashlib.sha256(source).hexdigest() if isinstance(source, bytes) else os.fspath(source)


def _name_sources(cases: Sequence[Sequence[Case]], names: OutputNames) -> list[str]:
    """Return the source of each item: the group `source`, else the photograph that it begins with, else its texts."""
    given = [members[0].groups.get(SOURCE_GROUP, "") for members in cases]
    labels: list[str] = []
    keys: list[tuple[str, ...]] = []
    for members, source in zip(cases, given, strict=True):
        case = members[0]
        output = names.of(case)
        images = [(role, image) for role, image in case.list_images() if names.field or role != output]
        texts = [text for name, value in case.fields.items() if name != names.field for text in list_texts(value)]
        if source:
            labels.append(source)
            keys.append(("source", source))
        elif images:
            labels.append(image_stem(images[0][1]))
            keys.append(("image", *(image_key(image) for _, image in images)))
        else:
            labels.append(" ".join(" ".join(texts).split())[:_MAX_LABEL].strip() or "prompt")
            keys.append(("text", *texts))
    return _number_repeats(labels, keys)


def _number_repeats(labels: Sequence[str], keys: Sequence[object]) -> list[str]:
    """Return labels with a number after those that stand for a further thing, told apart by their keys."""
    taken: dict[str, object] = {}
    chosen: dict[object, str] = {}
    for label, key in zip(labels, keys, strict=True):
        if key in chosen:
            continue
        name, number = label, 1
        while name in taken:
            number += 1
            name = f"{label}-{number}"
        taken[name] = key
        chosen[key] = name
    return [chosen[key] for key in keys]


def _sort_by_model(label: str, cases: Sequence[Case], problems: list[str]) -> dict[str, Case]:
    """Return the output of each model; a model with two is a problem, and has none."""
    outputs: dict[str, list[Case]] = {}
    for case in cases:
        outputs.setdefault(case.groups[MODEL].strip(), []).append(case)
    for model, made in outputs.items():
        if len(made) > 1:
            ids = " and ".join(repr(case.id) for case in made[:2])
            problems.append(f"{label}: the model {model!r} is there twice ({ids}); it has one output for a photograph.")
    return {model: made[0] for model, made in sorted(outputs.items()) if len(made) == 1}


def _find_lonely_models(items: Sequence[Sequence[Case]], problems: list[str]) -> set[str]:
    """Return the models that have one output in all, where others have more."""
    cases: dict[str, list[Case]] = {}
    for case in (case for members in items for case in members):
        cases.setdefault(case.groups[MODEL].strip(), []).append(case)
    if all(len(made) == 1 for made in cases.values()):  # one photograph: a small arena, but one
        return set()
    lonely = {model: made[0].id for model, made in cases.items() if len(made) == 1}
    problems += [
        f"The model {model!r} has one output only ({id_!r}), which cannot rank it; give more, or leave it out."
        for model, id_ in lonely.items()
    ]
    return set(lonely)


def _make_item(label: str, source: str, outputs: Mapping[str, Case], names: OutputNames) -> ArenaItem:
    cases = list(outputs.values())
    shared = cases[0]
    output = names.of(shared)
    groups = {
        name: value
        for name, value in shared.groups.items()
        if name != MODEL and all(case.groups.get(name) == value for case in cases)
    }
    images = {role: image for role, image in shared.images.items() if names.field or role != output}
    fields = {name: text for name, text in shared.fields.items() if name != names.field}
    return ArenaItem(label, source, images, fields, groups, outputs)


class PairPool:
    """Every pair of outputs that can be compared, as columns; `case` makes the case of one.

    Attributes:
        items: What outputs were made for.
        models: The models, in alphabetic order.
        sources: The sources of the items, in the order in which they appear.
        item: The item of each pair, as a number in `items`.
        first: The model of the first output, as a number in `models`.
        second: That of the second.
        source: The source, as a number in `sources`.
        matchup: Which two models, as a number; a matchup is of two models, in whichever order.
        rank: A random order of the pairs, given by a hash.
        problems: Pairs that were left out, in sentences: both outputs are the same image.
    """

    def __init__(self, items: Sequence[ArenaItem], names: OutputNames) -> None:
        """Make all pairs.

        Args:
            items: Items with two outputs or more.
            names: Under which name their cases have the outputs.
        """
        self.items, self.names = tuple(items), names
        self.models = tuple(sorted({model for item in items for model in item.outputs}))
        self.sources = tuple(dict.fromkeys(item.source for item in items))
        number = {model: at for at, model in enumerate(self.models)}
        source = {name: at for at, name in enumerate(self.sources)}
        problems: list[str] = []
        drawn: dict[tuple[int, int], list[tuple[bytes, int]]] = {}
        for at, item in enumerate(self.items):
            for one, other in combinations(sorted(item.outputs), 2):
                if _are_same_outputs(item.outputs[one], item.outputs[other], names):
                    what = "text" if names.field else "image"
                    problems.append(
                        f"{item.name}: the outputs of {one} and {other} are the same {what}: none is better."
                    )
                    continue
                drawn.setdefault((number[one], number[other]), []).append((_hash(item.name, one, other), at))
        self.problems = tuple(problems)
        rows: list[tuple[int, int, int, int, bytes]] = []
        self.matchups = tuple(sorted(drawn))
        for matchup, (low, high) in enumerate(self.matchups):
            turned = _hash(self.models[low], self.models[high])[0] & 1
            for place, (digest, at) in enumerate(sorted(drawn[low, high])):
                first, second = (high, low) if (place + turned) & 1 else (low, high)
                rows.append((at, first, second, matchup, digest))
        rows.sort(key=lambda row: (row[0], row[3]))
        columns = np.array([row[:4] for row in rows], np.int64).reshape(-1, 4)
        self.item, self.first, self.second, self.matchup = columns.T
        self.source: Ints = np.array([source[self.items[at].source] for at in self.item], np.int64)
        self.rank: Ints = np.empty(len(rows), np.int64)
        self.rank[np.array(sorted(range(len(rows)), key=lambda at: rows[at][4]), np.int64)] = np.arange(len(rows))

    def __len__(self) -> int:
        return len(self.item)

    def case_id(self, at: int) -> str:
        """Return the id of a pair: its item and its models, the first one first."""
        item, first, second = (
            self.items[self.item[at]].name,
            self.models[self.first[at]],
            self.models[self.second[at]],
        )
        name = "".join(char if char.isprintable() else " " for char in f"{item}/{first}-vs-{second}")
        return name if len(name) <= MAX_ID else f"{name[: MAX_ID - 17]}-{_hash(item, first, second).hex()[:16]}"

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Where a pair is in the columns, by its id."""
        return {self.case_id(at): at for at in range(len(self))}

    def case(self, at: int) -> Case:
        """Return the case of a pair."""
        item = self.items[self.item[at]]
        models = self.models[self.first[at]], self.models[self.second[at]]
        first, second = (item.outputs[model] for model in models)
        groups = {**item.groups, SOURCE_GROUP: item.source, MODEL_FIRST: models[0], MODEL_SECOND: models[1]}
        images, fields = dict(item.images), dict(item.fields)
        if self.names.field:
            fields |= {FIRST: first.fields[self.names.field], SECOND: second.fields[self.names.field]}
        else:
            images |= {FIRST: first.images[self.names.of(first)], SECOND: second.images[self.names.of(second)]}
        return Case(self.case_id(at), images, fields, groups)

    def select(self, chosen: Iterable[int]) -> list[Case]:
        """Return the cases of some pairs, by their numbers."""
        return [self.case(int(at)) for at in chosen]


def _hash(*texts: str) -> bytes:
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).digest()


def _are_same_outputs(one: Case, other: Case, names: OutputNames) -> bool:
    """Return whether two outputs are the same image file, or the same text."""
    if names.field:
        return list_texts(one.fields[names.field]) == list_texts(other.fields[names.field])
    images, others = (case.sources(names.of(case)) for case in (one, other))
    return len(images) == len(others) and all(map(are_same_images, images, others))
