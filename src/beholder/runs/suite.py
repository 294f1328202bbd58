"""`Suite`: cases, rubric, judges and settings, loaded from a `suite.yaml`, from flags, or from both.

Flags have the names of the file's keys and take precedence. Paths in the file are relative to the file, those of flags
to the working folder. A suite never holds a secret key: it names the environment variable that does.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import structs

from beholder.cases.case import CaseRow, CaseSchema, FieldValue
from beholder.cases.files import read_rows
from beholder.cases.patterns import pair_rows
from beholder.cases.validation import select_rows
from beholder.errors import Problem, RubricError, UsageError
from beholder.rubrics.load import list_rubrics, load_rubrics
from beholder.rubrics.rubric import Rubric, override_scoring
from beholder.rubrics.yaml_files import check_types, read_yaml
from beholder.runs.suite_file import (
    JUDGE_KEYS,
    JudgeEntry,
    SuiteFile,
    add_hint,
    describe_flag_problem,
    dump_non_defaults,
    find_judge_problems,
    find_plain_problems,
    judge_flag_key,
    root_key,
)

if TYPE_CHECKING:
    from beholder.rubrics.brief import Composer
    from beholder.verdicts.calibration import Calibration


T = TypeVar("T")


class Suite(SuiteFile, frozen=True, kw_only=True, dict=True):
    """A suite that is ready to run: everything that it names is loaded and checked. Made by `load_suite`.

    Strings stay as they were given. `flag_keys` are the keys that were set by flag: their paths are relative to the
    working folder and not to `folder`.
    """

    judges: tuple[JudgeEntry, ...]
    pairs: dict[str, str]
    fields: dict[str, FieldValue]
    fail_under: dict[str, float]
    _rubrics: tuple[Rubric, ...]
    _prompt: str | None
    _calibration: Calibration | None
    folder: Path
    flag_keys: frozenset[str]

    def rubrics(self) -> tuple[Rubric, ...]:
        """Return the rubrics that `rubric` stands for, with the suite's changes to their scoring."""
        return self._rubrics

    def prompt_text(self) -> str | None:
        """Return the text of the file that `prompt` names."""
        return self._prompt

    def loaded_calibration(self) -> Calibration | None:
        """Return the calibration in the file that `calibration` names."""
        return self._calibration

    def style_folders(self) -> tuple[Path, ...]:
        return tuple(self._base("styles") / folder for folder in self.styles)

    def budget_usd(self) -> Decimal | None:
        return None if self.budget is None else Decimal(str(self.budget))

    def ledger_place(self) -> str | None:
        """Return the ledger as a URL or a path from the working folder; `None` for the default one."""
        if self.ledger is None or "://" in self.ledger:
            return self.ledger
        return str(self._base("ledger") / self.ledger)

    def fingerprint_settings(self) -> dict[str, object]:
        """Return what decides, besides cases, rubrics and prompt, which verdicts come out: if it differs, it is another
        run."""
        files = [file for folder in self.style_folders() for file in sorted(folder.glob("*.yaml"))]
        calibrated = self.loaded_calibration()
        return {
            "judges": [judge.identity_key(self.image_params()) for judge in self.judges],
            "samples": self.samples,
            "setting": self.setting,
            "styles": [[file.name, hashlib.sha256(file.read_bytes()).hexdigest()] for file in files],
            **({"calibration": calibrated.digest} if calibrated is not None else {}),
        }

    def case_schema(self) -> CaseSchema:
        """Return which images and fields the rubrics need of a case."""
        return self._case_schema

    @cached_property
    def _case_schema(self) -> CaseSchema:
        schema = _derive_case_schema(self._rubrics, self.setting, tuple(self.fields))
        return schema if self._needs_images() else replace(schema, roles=(*schema.roles, ()))

    def _needs_images(self) -> bool:
        from beholder.judges.base import INSTRUMENTS, capabilities_of
        from beholder.judges.factory import judge_from

        if any(entry.judge != INSTRUMENTS for entry in self.judges):
            return True
        judge = judge_from(INSTRUMENTS)
        return any(capabilities_of(judge).needs_images(rubric) for rubric in self._rubrics)

    def composers(self) -> tuple[Composer, ...]:
        """Return what makes the briefs, one composer for each rubric; made once."""
        return self._composers

    @cached_property
    def _composers(self) -> tuple[Composer, ...]:
        from beholder.rubrics.brief import Composer

        return tuple(
            Composer(rubric, prompt=self._prompt, setting=self.setting, style_folders=self.style_folders())
            for rubric in self._rubrics
        )

    def rows(self) -> RowSource:
        """Return the selected rows, each checked against the rubrics; they can be iterated over several times."""
        return RowSource(self._rows)

    def _rows(self) -> Iterator[CaseRow]:
        if self.pairs:
            rows = pair_rows(self.pairs, self._case_schema, self._base("pairs"))
        else:
            rows = read_rows(self._base("cases") / self.cases, self._case_schema)
        fitted = _check_rows(rows, self.fields, self.composers())
        return select_rows(fitted, self.limit, self.only, self.shuffle)

    def _base(self, key: str) -> Path:
        return _base_folder(self.folder, self.flag_keys, key)

    def public_dict(self) -> dict[str, object]:
        """Return the suite as JSON values for the ledger: what was set, paths as given.

        It has no secrets: the ledger's own address, which may have a password, is left out.
        """
        given = {
            one.name: getattr(self, one.name)
            for one in structs.fields(SuiteFile)
            if one.name != "ledger" and getattr(self, one.name) not in (one.default, {}, ())
        }
        if "judges" in given:
            given["judges"] = [dump_non_defaults(judge) for judge in self.judges]
        if "limits" in given:
            given["limits"] = dump_non_defaults(self.limits)
        built: dict[str, object] = msgspec.to_builtins(given)
        return built


@dataclass(frozen=True, slots=True)
class RowSource:
    """Rows that are read again for each iteration."""

    make: Callable[[], Iterator[CaseRow]]

    def __iter__(self) -> Iterator[CaseRow]:
        return self.make()


def load_suite(path: str | os.PathLike[str] | None, flags: Mapping[str, object] | None = None) -> Suite:
    """Load a suite from a file with flags over it, or from flags alone.

    Args:
        path: The `suite.yaml`; `None` for flags alone.
        flags: Values by the file's keys; `None` means not given. `limits` and `fields` are merged entry by entry;
            `cases` and `pairs` replace one another, and so do `base_url` and `base_urls`; these, `key_variable`,
            `params` and `price` apply to every judge.

    Raises:
        RubricError: Something is wrong in the file; it lists everything, with line and key.
        UsageError: A flag is wrong.
    """
    given = {key: value for key, value in (flags or {}).items() if value is not None}
    for_judges = {key: given.pop(key) for key in JUDGE_KEYS if key in given}
    flagged = _convert_flags(given, SuiteFile)
    said = _convert_flags({"judge": "", **for_judges}, JudgeEntry)
    flag_keys = frozenset(given)
    folder = Path() if path is None else Path(path).parent

    suite: Suite

    def build(file: SuiteFile) -> list[Problem]:
        """Set `suite`; return what is wrong in the file. Raises `UsageError` for a wrong flag."""
        nonlocal suite
        merged = _complete_judges(_merge_flags(file, flagged, given), said, for_judges)
        suite, problems = _build_suite(merged, folder, flag_keys)
        wrong = [one for one in problems if path is None or _is_from_flag(one.key, given, for_judges)]
        if wrong:
            raise _make_flag_error(wrong)
        return problems

    if path is None:
        build(SuiteFile())
    else:
        try:
            read_yaml(Path(path), SuiteFile, build)  # adds the line to each problem, and raises them
        except RubricError as error:
            raise RubricError(error.source, [add_hint(problem) for problem in error.problems]) from None
    return structs.replace(suite, name=suite.name or _default_name(path, suite))


def _convert_flags(given: Mapping[str, object], kind: type[T]) -> T:
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError:
        raise _make_flag_error(add_hint(problem) for problem in check_types(dict(given), kind).problems) from None


def _make_flag_error(problems: Iterable[Problem]) -> UsageError:
    return UsageError("\n".join(dict.fromkeys(describe_flag_problem(problem) for problem in problems)))


def _is_from_flag(key: str, given: Mapping[str, object], for_judges: Mapping[str, object]) -> bool:
    """Return whether the value of a key comes from a flag."""
    root = root_key(key)
    if root in _MERGED_KEYS:
        said = given.get(root)
        return isinstance(said, Mapping) and key.removeprefix(f"{root}.") in said
    of_all = root_key(judge_flag_key(key))
    return root in given or (of_all in for_judges and of_all != "params")  # which are the file's as well


_MERGED_KEYS = ("limits", "fields")


def _merge_flags(file: SuiteFile, flagged: SuiteFile, given: Mapping[str, object]) -> SuiteFile:
    changes = {key: getattr(flagged, key) for key in given}
    if isinstance(limits := given.get("limits"), Mapping):
        changes["limits"] = structs.replace(file.limits, **{key: getattr(flagged.limits, key) for key in limits})
    if "fields" in given:
        changes["fields"] = {**file.fields, **flagged.fields}
    if "cases" in given and "pairs" not in given:
        changes["pairs"] = {}
    if "pairs" in given and "cases" not in given:
        changes["cases"] = ""
    return structs.replace(file, **changes)


def _complete_judges(file: SuiteFile, said: JudgeEntry, for_judges: Iterable[str]) -> SuiteFile:
    """Return the suite with every judge as an entry (the instruments where none is named), and with what flags set for
    all models."""
    from beholder.judges.base import INSTRUMENTS

    judges = [JudgeEntry(one) if isinstance(one, str) else one for one in file.judges] or [JudgeEntry(INSTRUMENTS)]
    models = [one for one in judges if one.judge != INSTRUMENTS]
    changes = {key: getattr(said, key) for key in for_judges if key != "params"}
    if "base_url" in changes or "base_urls" in changes:
        changes |= {"base_url": said.base_url, "base_urls": said.base_urls}
    if for_judges and not models:
        flag = describe_flag_problem(
            Problem("is for a model, and no judge of the suite is one", next(iter(for_judges)))
        )
        raise UsageError(flag)
    judges = [
        structs.replace(one, **changes, params={**one.params, **said.params}) if one in models else one
        for one in judges
    ]
    return structs.replace(file, judges=tuple(judges))


def _build_suite(file: SuiteFile, folder: Path, flag_keys: frozenset[str]) -> tuple[Suite, list[Problem]]:
    """Return the suite as far as it can be made, and everything that is wrong with it."""
    problems = [*find_plain_problems(file), *find_judge_problems(file)]

    def place(key: str, name: str) -> Path:
        return _base_folder(folder, flag_keys, key) / name

    rubrics: tuple[Rubric, ...] = ()
    if not file.rubric:
        problems.append(Problem("no rubric is named; name one, such as restyle", "rubric"))
    else:
        try:
            rubrics = load_rubrics(_resolve_rubric(file.rubric, place("rubric", file.rubric)))
        except UsageError as error:
            problems.append(Problem(str(error), "rubric"))
    rubrics = _apply_scoring(rubrics, file, problems)
    problems += _find_misfits(file, rubrics, place)
    prompt = _read_prompt(place("prompt", file.prompt), problems) if file.prompt else None
    calibrated = _read_calibration(place("calibration", file.calibration), problems) if file.calibration else None
    values: dict[str, Any] = {one.name: getattr(file, one.name) for one in structs.fields(SuiteFile)}
    values["fields"] = {name: tuple(text) if isinstance(text, list) else text for name, text in file.fields.items()}
    if not isinstance(file.fail_under, dict):
        values["fail_under"] = {} if file.fail_under is None else {"score": file.fail_under}
    suite = Suite(
        **values, _rubrics=rubrics, _prompt=prompt, _calibration=calibrated, folder=folder, flag_keys=flag_keys
    )
    return suite, problems


def _apply_scoring(rubrics: tuple[Rubric, ...], file: SuiteFile, problems: list[Problem]) -> tuple[Rubric, ...]:
    threshold = file.threshold if file.threshold is not None and 0 <= file.threshold <= 1 else None
    rubrics = tuple(override_scoring(rubric, threshold, (), file.not_applicable) for rubric in rubrics)
    for position, gate in enumerate(file.gates):
        try:
            rubrics = tuple(override_scoring(rubric, None, (gate,), None) for rubric in rubrics)
        except UsageError as error:
            problems.append(Problem(str(error), f"gates[{position}]"))
    return rubrics


def _find_misfits(file: SuiteFile, rubrics: Sequence[Rubric], place: Callable[[str, str], Path]) -> Iterator[Problem]:
    """Return what does not fit the rubrics, or does not exist."""
    if file.cases and not place("cases", file.cases).is_file():
        yield Problem(f"there is no case file {str(place('cases', file.cases))!r}", "cases")
    if file.address and file.engine != "ray":
        yield Problem("is the address of a Ray cluster, and the engine is local; set engine to ray", "address")
    for position, folder in enumerate(file.styles):
        if not place("styles", folder).is_dir():
            yield Problem(f"there is no folder {str(place('styles', folder))!r}", f"styles[{position}]")
    if not rubrics:
        return
    settings = list(rubrics[0].settings)
    if file.setting and any(file.setting not in rubric.settings for rubric in rubrics):
        yield Problem(f"{file.setting!r} is not a setting here; {_list_choices(settings)}", "setting")
        return
    schema = _derive_case_schema(rubrics, file.setting, ())
    for role in file.pairs:
        if role not in schema.images:
            yield Problem(f"is not an image of {file.rubric}; {_list_choices(schema.images)}", f"pairs.{role}")
    for name in file.fields:
        if name not in schema.fields:
            yield Problem(f"is not a field of {file.rubric}; {_list_choices(schema.fields)}", f"fields.{name}")
    if isinstance(file.fail_under, dict):
        criteria = ["score", *(criterion.key for rubric in rubrics for criterion in rubric.criteria)]
        for name in file.fail_under:
            if name not in criteria:
                yield Problem(f"is not a criterion of {file.rubric}; {_list_choices(criteria)}", f"fail_under.{name}")


def _read_prompt(path: Path, problems: list[Problem]) -> str | None:
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        problems.append(Problem(f"{str(path)!r} cannot be read: {reason}", "prompt"))
        return None
    if not text.strip():
        problems.append(Problem(f"{str(path)!r} is empty", "prompt"))
    return text


def _read_calibration(path: Path, problems: list[Problem]) -> Calibration | None:
    from beholder.verdicts.calibration import load_calibration

    try:
        return load_calibration(path)
    except UsageError as error:
        problems.append(Problem(str(error), "calibration"))
        return None


def _resolve_rubric(name: str, path: Path) -> str | Path:
    """Return the name if it is that of a known rubric; anything else that exists is a path."""
    if not path.exists() or (os.path.basename(name) == name and name in list_rubrics()):
        return name
    return path


def _derive_case_schema(rubrics: Sequence[Rubric], setting: str, given: Sequence[str]) -> CaseSchema:
    first = rubrics[0]
    settings = [setting] if setting else list(first.settings)
    roles = tuple(first.settings[one].images for one in settings) or (first.roles,)
    fields = {field.name: field.required for rubric in rubrics for field in rubric.fields}
    for rubric in rubrics:
        fields |= {field.name: True for field in rubric.fields if field.required}
    required = tuple(name for name, needed in fields.items() if needed and name not in given)
    asked = {role for one in roles for role in one}
    return CaseSchema(
        roles=roles,
        required=required,
        optional=tuple(name for name in fields if name not in required),
        ignored_roles=tuple(image.role for image in first.images if image.role not in asked),
    )


def _check_rows(
    rows: Iterable[CaseRow], fields: Mapping[str, FieldValue], composers: Sequence[Composer]
) -> Iterator[CaseRow]:
    """Return the rows with the suite's own fields filled in, and with problems that a rubric finds (an impossible
    style)."""
    for row in rows:
        if row.case is None:
            yield row
            continue
        case = replace(row.case, fields={**fields, **row.case.fields}) if fields else row.case
        try:
            for composer in composers:
                composer.rubric_for(case)
        except UsageError as error:
            yield replace(row, case=None, problems=(str(error).replace("\n", "; "),))
        else:
            yield replace(row, case=case) if fields else row


def _base_folder(folder: Path, flag_keys: frozenset[str], key: str) -> Path:
    return Path() if key in flag_keys else folder


def _default_name(path: str | os.PathLike[str] | None, suite: Suite) -> str:
    if path is None:
        return Path(suite.rubric).stem
    file = Path(path).absolute()
    return file.parent.name or file.stem if file.stem == "suite" else file.stem


def _list_choices(names: Iterable[str]) -> str:
    listed = ", ".join(dict.fromkeys(names))
    return f"there are {listed}" if listed else "there is none"
