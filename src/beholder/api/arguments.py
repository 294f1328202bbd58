"""Arguments of the public functions, checked: a wrong value is a `UsageError` that names the argument.

The command line has the same limits, so that a mistake is the same sentence there.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import fields
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING

from beholder.api.options import Judges, Options, OptionsLike, describe_judge
from beholder.cases.sources import is_case_source
from beholder.errors import UsageError
from beholder.judges.base import Judge
from beholder.ledger.ledger import Ledger
from beholder.rubrics.rubric import Rubric
from beholder.runs.suite import Suite, SuiteObjects, load_suite
from beholder.runs.suite_file import Limits, describe_setting_problem, rename_flags
from beholder.verdicts.verdict import Outcome

if TYPE_CHECKING:
    from beholder.api.session import Session


def check_number(
    name: str, value: object, *, least: float | None = None, above: float | None = None, optional: bool = False
) -> None:
    """Raise `UsageError` unless a value is a number, and where it has limits a finite one within them.

    Args:
        name: The argument, for the message.
        value: What was given.
        least: The smallest number that is allowed.
        above: A number that it must exceed.
        optional: Whether `None` is allowed too.
    """
    if value is None and optional:
        return
    limits = f" from {least:g} on" if least is not None else f" above {above:g}" if above is not None else ""
    valid = isinstance(value, Real) and not isinstance(value, bool) and (not limits or math.isfinite(value))
    if not valid or (least is not None and value < least) or (above is not None and value <= above):  # type: ignore[operator]  # a Real
        raise UsageError(f"{name} is a number{limits}, not {_show(value)}.")


def check_whole(name: str, value: object, *, least: int, most: int | None = None, optional: bool = False) -> None:
    """Raise `UsageError` unless a value is a whole number within its limits, or `None` where that is allowed."""
    if value is None and optional:
        return
    whole = hasattr(value, "__index__") and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):  # type: ignore[operator]  # a whole number
        limits = f"from {least:,} on" if most is None else f"from {least:,} to {most:,}"
        raise UsageError(f"{name} is a whole number {limits}, not {_show(value)}.")


def to_path(name: str, value: object) -> Path:
    """Return a path that was given as a text or path object; raise `UsageError` for anything else."""
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        raise UsageError(f"{name} is the path of a file, not {_show(value)}.")
    return Path(os.fsdecode(value))


def to_names(name: str, value: object) -> list[str]:
    """Return one text, or several, as a list; raise `UsageError` for anything else."""
    listed: list[object] = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]
    names = [one for one in listed if isinstance(one, str)]
    if isinstance(value, Mapping) or len(names) < len(listed):
        raise UsageError(f"{name} is a text or several, not {_show(value)}.")
    return names


def _show(value: object) -> str:
    return repr(value) if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"


def check_session_alone(
    session: Session | None,
    judge: Judges,
    ledger: object,
    name: str | None,
    budget: object,
    samples: int,
    options: OptionsLike,
) -> None:
    """Raise `UsageError` if a session is given together with what it has already."""
    if session is not None and (judge, ledger, name, budget, samples, options) != (None, None, None, None, 1, None):
        raise UsageError(
            "A session has its own judge, ledger, name, budget, samples and options; give either it or them."
        )


def check_stop(stop: threading.Event | None) -> None:
    """Raise `UsageError` for what is no event."""
    if stop is not None and not callable(getattr(stop, "is_set", None)):
        raise UsageError(f"stop is a threading.Event, and {type(stop).__name__} is not.")


SuiteLike = str | os.PathLike[str] | Mapping[str, object] | Suite


JudgeArgument = str | Mapping[str, object] | Judge


def make_suite(
    suite: SuiteLike | None, settings: Mapping[str, object], options: OptionsLike = None
) -> tuple[Suite, Ledger | None]:
    """Return the suite that arguments of `run` describe, and the ledger if it was handed in open.

    Raises:
        UsageError: An argument is wrong.
    """
    given = merge_options(rename_flags({key: value for key, value in settings.items() if value is not None}), options)
    if isinstance(suite, Mapping):
        given, suite = {**rename_flags(suite), **given}, None
    opened = ledger if isinstance(ledger := given.get("ledger"), Ledger) else None
    if opened is not None:
        given["ledger"] = opened.address
    if isinstance(suite, Suite):
        if given.keys() - {"ledger"}:
            raise UsageError(f"A Suite says everything itself; leave out {', '.join(given)}.")
        return suite, opened
    if suite is not None and not isinstance(suite, str | os.PathLike):
        raise UsageError(f"A suite is a path or a mapping, and {type(suite).__name__} is neither.")
    return load_suite(suite, *_split_objects(given), describe_setting_problem), opened


def merge_options(given: Mapping[str, object], options: OptionsLike) -> dict[str, object]:
    """Return settings together with options. Raises `UsageError` for what is given twice."""
    chosen = _list_options(options)
    if twice := [key for key in chosen if key in given]:
        raise UsageError(f"{twice[0]} is given by itself and in options; give it once.")
    return {**given, **{key: value for key, value in chosen.items() if value is not None}}


def _list_options(options: OptionsLike) -> dict[str, object]:
    """Return the options that are set as keys of a suite. Raises `UsageError` for one that a run has not."""
    made, usual = Options.of(options), Options()
    chosen = {one.name: getattr(made, one.name) for one in fields(Options)}
    changed = {key: value for key, value in chosen.items() if value != getattr(usual, key)}
    for key, instead in _NOT_FOR_RUNS.items():
        if key in changed:
            raise UsageError(f"{key} is no option of a run; {instead}.")
    if isinstance(options, Mapping):  # what a mapping says counts, even if it is the default: a suite may say otherwise
        named = rename_flags(options)
        return {key: value for key, value in chosen.items() if key in named and key not in _NOT_FOR_RUNS}
    return changed


_NOT_FOR_RUNS = {"cache": "fresh=True asks every case again", "prompt_text": "give a file with it as prompt"}


def _split_objects(given: dict[str, object]) -> tuple[dict[str, object], SuiteObjects]:
    """Return settings as the keys of a suite have them, and what was given as Python objects."""
    flags = {key: os.fspath(value) if isinstance(value, os.PathLike) else value for key, value in given.items()}
    if isinstance(styles := flags.get("styles"), list | tuple):
        flags["styles"] = [os.fspath(one) if isinstance(one, os.PathLike) else one for one in styles]
    if limits := {key: flags.pop(key) for key in Limits.__struct_fields__ if key in flags}:
        named = flags.get("limits")
        flags["limits"] = {**named, **limits} if isinstance(named, Mapping) else limits
    objects = SuiteObjects()
    if isinstance(rubric := flags.get("rubric"), Rubric):
        objects.rubric = rubric
        del flags["rubric"]
    if (cases := flags.get("cases")) is not None and not isinstance(cases, str):
        if not is_case_source(cases):
            raise UsageError(f"cases are a file or an iterable of cases, and {type(cases).__name__} is neither.")
        objects.cases = cases
        del flags["cases"]
    if (judges := flags.get("judges")) is not None:
        flags["judges"], objects.judges = _split_judges(judges)
    return flags, objects


def _split_judges(given: object) -> tuple[list[object], dict[int, Judge]]:
    """Return judges as entries of a suite, and those that were given as objects, by position."""
    listed = list(given) if isinstance(given, list | tuple) else [given]
    entries: list[object] = []
    objects: dict[int, Judge] = {}
    for position, one in enumerate(listed):
        entry = one if isinstance(one, Mapping) else {"judge": one}
        judge = entry.get("judge")
        if isinstance(judge, Judge):
            objects[position] = judge
            entry = {**describe_judge(judge), **entry, "judge": judge.name}
        elif not isinstance(judge, str):
            raise UsageError(
                f"judge: give a name such as 'openai:gpt-5-mini', a mapping with `judge`, or a Judge; this is of type "
                f"{type(one).__name__}."
            )
        entries.append(entry)
    return entries, objects


def parse_outcomes(names: str | Iterable[str], called: str = "retry") -> frozenset[Outcome]:
    """Return outcomes by name: "refused,filtered", or several. Raises `UsageError`, naming what it is `called`."""
    try:
        listed = names.split(",") if isinstance(names, str) else list(names)
        return frozenset(Outcome(name.strip()) for name in listed if name.strip())
    except (TypeError, ValueError, AttributeError):
        raise UsageError(f"{called} takes outcomes ({', '.join(Outcome)}), and {names!r} has another word.") from None
