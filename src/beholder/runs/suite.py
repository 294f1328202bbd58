"""`Suite`: cases, rubric, judges and settings, loaded from a `suite.yaml`, from flags, or from both.

Flags (of the command line, or keywords of `beholder.run`) have the names of the file's keys and take precedence. Paths
in the file are relative to the file, those of flags to the working folder. A suite never holds a secret key: it names
the environment variable that does.
"""

from __future__ import annotations

import difflib
import hashlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec
from msgspec import structs

from beholder.cases.case import OUTPUT_ROLES, CaseRow, CaseSchema, FieldValue, compares_images
from beholder.cases.files import read_rows
from beholder.cases.patterns import pair_rows
from beholder.cases.sources import open_cases
from beholder.cases.validation import select_rows
from beholder.errors import Problem, RubricError, UsageError
from beholder.images.image import regular_file
from beholder.rubrics.load import is_known_rubric, load_rubrics, select_probes
from beholder.rubrics.rubric import Rubric, override_scoring
from beholder.rubrics.template import MAX_OUTPUT_BYTES
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
    provider_of,
    provider_with_base_url,
    root_key,
)
from beholder.runs.trust import find_outside_files, settle_trust

if TYPE_CHECKING:
    from beholder.judges.base import Judge
    from beholder.ledger.ledger import Ledger
    from beholder.rubrics.brief import Composer
    from beholder.verdicts.calibration import Calibration


T = TypeVar("T")


class CaseRounds(Protocol):
    """Chooses which cases of a suite are judged, round by round, by the verdicts so far. The run grows with them."""

    @property
    def name(self) -> str:
        """How cases are chosen, in a word: runs in which they are chosen in different ways are different runs."""

    def choose_cases(self, ledger: Ledger, run: str, ids: Collection[str]) -> Collection[str]:
        """Return the ids of the cases of the next round, none of which has a verdict; none where the run is complete.

        Args:
            ledger: Has the verdicts so far.
            run: The id of the run.
            ids: The ids of the cases that can be chosen.
        """


@dataclass(slots=True)
class SuiteObjects:
    """What a suite is given as Python objects, in place of names.

    Attributes:
        rubric: In place of the key `rubric`.
        cases: In place of the key `cases`: an iterable, a dataset or a frame; see `cases.sources.open_cases`.
        judges: By their position in `judges`, where an entry with their name stands for them. Their owner closes them.
        rounds: Chooses the cases that are judged, in rounds; without it all are.
        facts: What is stored with the run besides the keys of the suite.
    """

    rubric: Rubric | None = None
    cases: Iterable[object] | None = None
    judges: Mapping[int, Judge] = field(default_factory=dict)
    rounds: CaseRounds | None = None
    facts: Mapping[str, object] = field(default_factory=dict)
    _opened: Iterable[CaseRow] | None = None

    def open_cases(self, schema: CaseSchema) -> Iterable[CaseRow]:
        """Return the rows of `cases`. They are opened once, since an iterator can be read once, and is spooled."""
        if self._opened is None:
            assert self.cases is not None
            self._opened = open_cases(self.cases, schema)
        return self._opened


class Suite(SuiteFile, frozen=True, kw_only=True, dict=True):
    """A suite that is ready to run: everything that it names is loaded and checked. Made by `load_suite`.

    Strings stay as they were given. `flag_keys` are the keys that were set by flag: their paths are relative to the
    working folder and not to `folder`. `without_key` are the positions of judges that get no key of their provider,
    since the file alone says where they are asked; see `trust`.
    """

    judges: tuple[JudgeEntry, ...]
    pairs: dict[str, str]
    fields: dict[str, FieldValue]
    fail_under: dict[str, float]
    _rubrics: tuple[Rubric, ...]
    _prompt: str | None
    _calibration: Calibration | None
    objects: SuiteObjects
    folder: Path
    flag_keys: frozenset[str]
    without_key: frozenset[int] = frozenset()
    allow_http_key: bool = False

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

    def calibration_path(self) -> Path | None:
        """Return the file that `calibration` names, from the working folder."""
        return self._base("calibration") / self.calibration if self.calibration else None

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
        files = [file for folder in self.style_folders() for file in sorted(folder.glob("*.yaml")) if file.is_file()]
        calibrated = self.loaded_calibration()
        return {
            "judges": [self._identity_key(position) for position in range(len(self.judges))],
            **({"rounds": self.objects.rounds.name} if self.objects.rounds is not None else {}),
            "samples": self.samples,
            "setting": self.setting,
            "styles": [[file.name, hashlib.sha256(file.read_bytes()).hexdigest()] for file in files],
            **({"calibration": calibrated.digest} if calibrated is not None else {}),
            **({"orders": self.orders} if self.orders != "both" else {}),
        }

    def _identity_key(self, position: int) -> tuple[object, ...]:
        if (given := self.objects.judges.get(position)) is not None:
            return given.identity, given.sizing.max_side
        return self.judges[position].identity_key(self.image_params())

    def is_handed_in(self, judge: Judge) -> bool:
        """Return whether a judge was handed in, so that its owner closes it."""
        return any(judge is given for given in self.objects.judges.values())

    def case_schema(self) -> CaseSchema:
        """Return which images and fields the rubrics need of a case."""
        return self._case_schema

    @cached_property
    def _case_schema(self) -> CaseSchema:
        schema = derive_case_schema(self._rubrics, self.setting, tuple(self.fields))
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
            Composer(
                rubric,
                prompt=self._prompt,
                setting=self.setting,
                style_folders=self.style_folders(),
                orders=self.orders,
            )
            for rubric in self._rubrics
        )

    def rows(self, *, selected: bool = True, open_files: bool = True) -> RowSource:
        """Return the selected rows, or all, checked against the rubrics; they can be iterated over several times.

        `open_files` says whether that the candidates of a pair differ is checked, for which their files are read.
        """
        return RowSource(partial(self._rows, selected, open_files))

    def _rows(self, selected: bool, open_files: bool) -> Iterator[CaseRow]:
        is_counted = selected and self.limit is not None  # the limit counts rows without problems
        rows = self.read_rows(self._case_schema)
        fitted = _check_rows(rows, self.fields, self.composers(), open_files or is_counted)
        return select_rows(fitted, self.limit, self.only, self.shuffle) if selected else fitted

    def read_rows(self, schema: CaseSchema) -> Iterable[CaseRow]:
        """Return all rows of the cases as they are, with images and fields by a schema."""
        if self.objects.cases is not None:
            return self.objects.open_cases(schema)
        if self.pairs:
            return pair_rows(self.pairs, schema, self._base("pairs"))
        return read_rows(self._base("cases") / self.cases, schema)

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


def load_suite(
    path: str | os.PathLike[str] | None,
    flags: Mapping[str, object] | None = None,
    objects: SuiteObjects | None = None,
    describe: Callable[[Problem], str] = describe_flag_problem,
) -> Suite:
    """Load a suite from a file with flags over it, or from flags alone.

    Args:
        path: The `suite.yaml`; `None` for flags alone.
        flags: Values by the file's keys; `None` means not given. `limits` and `fields` are merged entry by entry;
            `cases` and `pairs` replace one another, and so do `base_url` and `base_urls`; these, `key_variable`,
            `params`, `price` and `structured_output` apply to every judge. `trust_suite` and `allow_http_key`, which no
            file can set, say that the user trusts the file, and allows keys over plain http.
        objects: What is given as Python objects.
        describe: Returns the sentence for a problem of a flag.

    Raises:
        RubricError: Something is wrong in the file; it lists everything, with line and key.
        UntrustedSuite: The file asks for what the user has to allow first; see `trust`.
        UsageError: A flag is wrong.
    """
    given = {key: value for key, value in (flags or {}).items() if value is not None}
    trust_suite, allow_http_key = (_take_switch(given, key, describe) for key in ("trust_suite", "allow_http_key"))
    for_judges = {key: given.pop(key) for key in JUDGE_KEYS if key in given}
    flagged = _convert_flags(given, SuiteFile, describe)
    said = _convert_flags({"judge": "", **for_judges}, JudgeEntry, describe)
    objects = objects or SuiteObjects()
    flag_keys = frozenset(given)
    folder = Path() if path is None else Path(path).parent

    suite: Suite

    def build(file: SuiteFile) -> list[Problem]:
        """Set `suite`; return what is wrong in the file. Raises `UsageError` for a wrong flag."""
        nonlocal suite
        merged = _merge_flags(file, flagged, given, objects)
        merged = _complete_judges(merged, said, for_judges, objects, describe)
        suite, problems = _build_suite(merged, folder, flag_keys, objects)
        wrong = [one for one in problems if path is None or _is_from_flag(one.key, given, for_judges)]
        if wrong:
            raise _make_flag_error(wrong, describe)
        return problems

    if path is None:
        build(SuiteFile())
    else:
        try:
            _read_suite_file(Path(path), build)
        except RubricError as error:
            near = _suggest_suite(Path(path))
            hinted = [replace(one, message=one.message + near) if near else add_hint(one) for one in error.problems]
            raise RubricError(error.source, hinted) from None
    without_key: frozenset[int] = frozenset()
    if path is not None:
        without_key = settle_trust(Path(path), suite, flag_keys | for_judges.keys(), trust_suite=trust_suite)
    name = suite.name or _default_name(path, suite)
    return structs.replace(suite, name=name, without_key=without_key, allow_http_key=allow_http_key)


def _read_suite_file(path: Path, build: Callable[[SuiteFile], list[Problem]]) -> None:
    """Read a suite and call `build` with it. Raises what is wrong in the file with its lines, and only then a wrong
    flag: a flag for models may be wrong only because `judges` is misspelled."""
    try:
        read_yaml(path, SuiteFile, build)
    except RubricError:
        raise
    except UsageError:
        read_yaml(path, SuiteFile, lambda _: [])
        raise


_MAX_LISTED = 8  # suites of a folder


def _suggest_suite(path: Path) -> str:
    """Return which suite may have been meant by a file that does not exist; empty where it does."""
    if path.exists():
        return ""
    folder = path.parent
    try:
        there = sorted(one.name for one in folder.iterdir() if one.suffix.lower() in (".yaml", ".yml"))
    except OSError:
        return f"; there is no folder {str(folder)!r}"
    stems = {Path(name).stem: name for name in there}
    if close := difflib.get_close_matches(path.stem, stems, n=1):
        return f"; did you mean {str(folder / stems[close[0]])!r}?"
    if there:
        more = f" and {len(there) - _MAX_LISTED} more" if len(there) > _MAX_LISTED else ""
        return f"; the folder has {', '.join(there[:_MAX_LISTED])}{more}"
    return "; `beholder init` writes a suite to start from"


def _take_switch(given: dict[str, object], key: str, describe: Callable[[Problem], str]) -> bool:
    value = given.pop(key, False)
    if not isinstance(value, bool):
        raise UsageError(describe(Problem(f"should be true or false, not {value!r:.60}", key)))
    return value


def _convert_flags(given: Mapping[str, object], kind: type[T], describe: Callable[[Problem], str]) -> T:
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError:
        problems = [add_hint(problem) for problem in check_types(dict(given), kind).problems]
        raise _make_flag_error(problems, describe) from None


def _make_flag_error(problems: Iterable[Problem], describe: Callable[[Problem], str]) -> UsageError:
    return UsageError("\n".join(dict.fromkeys(map(describe, problems))))


def _is_from_flag(key: str, given: Mapping[str, object], for_judges: Mapping[str, object]) -> bool:
    """Return whether the value of a key comes from a flag."""
    root = root_key(key)
    if root in _MERGED_KEYS:
        said = given.get(root)
        return isinstance(said, Mapping) and key.removeprefix(f"{root}.") in said
    of_all = root_key(judge_flag_key(key))
    return root in given or (of_all in for_judges and of_all != "params")  # which are the file's as well


_MERGED_KEYS = ("limits", "fields")


def _merge_flags(file: SuiteFile, flagged: SuiteFile, given: Mapping[str, object], objects: SuiteObjects) -> SuiteFile:
    changes = {key: getattr(flagged, key) for key in given}
    if isinstance(limits := given.get("limits"), Mapping):
        changes["limits"] = structs.replace(file.limits, **{key: getattr(flagged.limits, key) for key in limits})
    if "fields" in given:
        changes["fields"] = {**file.fields, **flagged.fields}
    if "cases" in given and "pairs" not in given:
        changes["pairs"] = {}
    if "pairs" in given and "cases" not in given:
        changes["cases"] = ""
    if objects.cases is not None:
        changes |= {"cases": f"<{type(objects.cases).__name__}>", "pairs": {}}
    if objects.rubric is not None:
        changes["rubric"] = objects.rubric.name
    return structs.replace(file, **changes)


def _complete_judges(
    file: SuiteFile,
    said: JudgeEntry,
    for_judges: Iterable[str],
    objects: SuiteObjects,
    describe: Callable[[Problem], str],
) -> SuiteFile:
    """Return the suite with every judge as an entry (the instruments where none is named), and with what flags set for
    all models. Of several providers only one gets the base URL, so that no other provider's key goes there."""
    from beholder.judges.base import INSTRUMENTS

    judges = [JudgeEntry(one) if isinstance(one, str) else one for one in file.judges] or [JudgeEntry(INSTRUMENTS)]
    models = {place for place, one in enumerate(judges) if one.judge != INSTRUMENTS} - objects.judges.keys()
    changes = {key: getattr(said, key) for key in for_judges if key != "params"}
    if "base_url" in changes or "base_urls" in changes:
        changes |= {"base_url": said.base_url, "base_urls": said.base_urls}
    if for_judges and not models:
        missing = "no judge of the suite is one" if not objects.judges else "no judge is given by its name"
        raise UsageError(describe(Problem(f"is for a model, and {missing}", next(iter(for_judges)))))
    providers = sorted({provider_of(judges[place].judge) for place in models})
    if "key_variable" in changes and len(providers) > 1:
        raise UsageError(describe(Problem("is for one provider, and the judges are of several", "key_variable")))
    if "base_url" in changes and (called := provider_with_base_url(providers)) not in providers:
        listed = ", ".join(providers)
        raise UsageError(describe(Problem(f"is for one provider, and the judges are of {listed}", "base_url")))
    elsewhere = {key: value for key, value in changes.items() if not key.startswith("base_url")}
    for place in models:
        one = judges[place]
        own = changes if "base_url" not in changes or provider_of(one.judge) == called else elsewhere
        judges[place] = structs.replace(one, **own, params={**one.params, **said.params})
    return structs.replace(file, judges=tuple(judges))


def _find_file_problem(path: Path) -> str:
    """Return why a case file cannot be read; empty where it is a file."""
    try:
        regular_file(path)
    except FileNotFoundError:
        return f"there is no case file {str(path)!r}"
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        hint = "; cases are read more than once, so write them to a file first" if path.is_fifo() else ""
        return f"the case file {str(path)!r} cannot be read: {reason}{hint}"
    return ""


def _build_suite(
    file: SuiteFile, folder: Path, flag_keys: frozenset[str], objects: SuiteObjects
) -> tuple[Suite, list[Problem]]:
    """Return the suite as far as it can be made, and everything that is wrong with it."""
    outside = list(find_outside_files(file, folder, flag_keys))  # which are not opened
    problems = [*find_plain_problems(file), *find_judge_problems(file, objects.judges), *outside]
    refused = {root_key(problem.key) for problem in outside}

    def place(key: str, name: str) -> Path:
        return _base_folder(folder, flag_keys, key) / name

    rubrics: tuple[Rubric, ...] = ()
    if objects.rubric is not None:
        rubrics = (objects.rubric,)
    elif not file.rubric:
        problems.append(Problem("no rubric is named; name one, such as restyle", "rubric"))
    elif "rubric" not in refused:
        try:
            rubrics = load_rubrics(_resolve_rubric(file.rubric, place("rubric", file.rubric)))
        except UsageError as error:
            problems.append(Problem(str(error), "rubric"))
    rubrics = _apply_scoring(rubrics, file, problems)
    try:
        rubrics = select_probes(rubrics, file.probe)
    except UsageError as error:
        problems.append(Problem(str(error), "probe"))
    if objects.cases is None and file.cases and (problem := _find_file_problem(place("cases", file.cases))):
        problems.append(Problem(problem, "cases"))
    if file.engine == "ray" and (objects.cases is not None or objects.judges):
        problems.append(Problem("on a Ray cluster, judges are given by name and cases in a file", "engine"))
    problems += _find_misfits(file, rubrics, place)
    prompt = None
    if file.prompt and "prompt" not in refused:
        prompt = _read_prompt(place("prompt", file.prompt), problems)
    calibrated = _read_calibration(place("calibration", file.calibration), problems) if file.calibration else None
    values: dict[str, Any] = {name: getattr(file, name) for name in SuiteFile.__struct_fields__}
    values["fields"] = {name: tuple(text) if isinstance(text, list) else text for name, text in file.fields.items()}
    if not isinstance(file.fail_under, dict):
        values["fail_under"] = {} if file.fail_under is None else {"score": file.fail_under}
    suite = Suite(
        **values,
        _rubrics=rubrics,
        _prompt=prompt,
        _calibration=calibrated,
        objects=objects,
        folder=folder,
        flag_keys=flag_keys,
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
    if file.address and file.engine != "ray":
        yield Problem("is the address of a Ray cluster, and the engine is local; set engine to ray", "address")
    for position, folder in enumerate(file.styles):
        if not os.path.isdir(place("styles", folder)):  # Path.is_dir would raise for an impossible name
            yield Problem(f"there is no folder {str(place('styles', folder))!r}", f"styles[{position}]")
    if not rubrics:
        return
    settings = list(rubrics[0].settings)
    if file.setting and any(file.setting not in rubric.settings for rubric in rubrics):
        yield Problem(f"{file.setting!r} is not a setting here; {_list_choices(settings)}", "setting")
        return
    if file.orders != "both" and not any(rubric.is_preference for rubric in rubrics):
        names = ", ".join(rubric.name for rubric in rubrics)
        yield Problem(f"is for rubrics that ask which of two is better, such as edit-preference, not {names}", "orders")
    schema = derive_case_schema(rubrics, file.setting, ())
    outputs = OUTPUT_ROLES if compares_images(schema) else ()  # of `beholder arena run`, which makes pairs of them
    for role in file.pairs:
        if role not in (*schema.images, *outputs):
            yield Problem(f"is not an image of {file.rubric}; {_list_choices(schema.images)}", f"pairs.{role}")
    for name in file.fields:
        if name not in schema.fields:
            yield Problem(f"is not a field of {file.rubric}; {_list_choices(schema.fields)}", f"fields.{name}")
    if isinstance(file.fail_under, dict):
        criteria = ["score", *(criterion.key for rubric in rubrics for criterion in rubric.criteria)]
        for name in file.fail_under:
            if name not in criteria:
                yield Problem(f"is not a criterion of {file.rubric}; {_list_choices(criteria)}", f"fail_under.{name}")
    least = file.fail_under.get("score") if isinstance(file.fail_under, dict) else file.fail_under
    if isinstance(least, int | float) and 0 < least <= 1:
        yield Problem(f"is on a scale to 100; for a score of {least:g} write {least * 100:g}", "fail_under")


def _read_prompt(path: Path, problems: list[Problem]) -> str | None:
    try:
        with regular_file(path).open(encoding="utf-8-sig") as file:
            text = file.read(MAX_OUTPUT_BYTES + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        problems.append(Problem(f"{str(path)!r} cannot be read: {reason}", "prompt"))
        return None
    if not text.strip():
        problems.append(Problem(f"{str(path)!r} is empty", "prompt"))
    if len(text) > MAX_OUTPUT_BYTES:
        problems.append(Problem(f"{str(path)!r} has more than {MAX_OUTPUT_BYTES:,} characters", "prompt"))
    return text


def _read_calibration(path: Path, problems: list[Problem]) -> Calibration | None:
    from beholder.verdicts.calibration import load_calibration

    try:
        return load_calibration(path)
    except UsageError as error:
        problems.append(Problem(str(error), "calibration"))
        return None


def _resolve_rubric(name: str, path: Path) -> str | Path:
    """Return the name if it is that of a known rubric, or if there is nothing at the path; else the path."""
    return name if is_known_rubric(name) or not (os.path.exists(path) or os.path.exists(name)) else path


def derive_case_schema(rubrics: Sequence[Rubric], setting: str, given: Sequence[str] = ()) -> CaseSchema:
    """Return which images and fields the rubrics need of a case, apart from fields that are `given` already."""
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
        many=tuple(image.role for image in first.images if image.many),
    )


def _check_rows(
    rows: Iterable[CaseRow], fields: Mapping[str, FieldValue], composers: Sequence[Composer], open_files: bool
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
                if open_files:
                    composer.check(case)
                else:
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
