"""The flags that stand for a suite's keys, for every command that takes a suite."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from beholder.errors import UsageError

if TYPE_CHECKING:
    from beholder.runs.suite import Suite

Many = list[str] | None

# name, type, default, help
FLAGS: list[tuple[str, Any, Any, typer.models.OptionInfo]] = [
    ("name", str | None, None, typer.Option(help="What the run is called.")),
    ("cases", str | None, None, typer.Option(help="A case file: .jsonl, .csv, .tsv, .parquet.")),
    ("pair", Many, None, typer.Option(help="ROLE=PATTERN, such as original=photos/{name}.jpg, or ROLE=FOLDER.")),
    ("set_", Many, None, typer.Option("--set", help="A text for every case that has none: NAME=TEXT.")),
    ("rubric", str | None, None, typer.Option(help="A rubric's name, folder or YAML file.")),
    ("judge", Many, None, typer.Option(help="Who judges: PROVIDER:MODEL; several form a jury.")),
    ("base_url", Many, None, typer.Option(help="Where a compatible server answers; several share the requests.")),
    ("key_variable", str | None, None, typer.Option(help="The environment variable that holds the key.")),
    ("param", Many, None, typer.Option(help="A model parameter: NAME=VALUE.")),
    ("price_input", float | None, None, typer.Option(help="US dollars for a million input tokens.")),
    ("price_output", float | None, None, typer.Option(help="US dollars for a million output tokens.")),
    ("samples", int | None, None, typer.Option(help="How often each judge is asked.")),
    ("setting", str | None, None, typer.Option(help="One of the rubric's settings.")),
    ("styles", Many, None, typer.Option(help="A folder with styles of your own.")),
    ("prompt", str | None, None, typer.Option(help="A prompt file of your own, run as it is.")),
    ("threshold", float | None, None, typer.Option(help="A case passes from this score (0 to 1).")),
    ("gate", Many, None, typer.Option(help="A finding that fails a case.")),
    ("not_applicable", str | None, None, typer.Option(help="N/A answers: accept, offer or refuse.")),
    ("max_side", int | None, None, typer.Option(help="Scale images down to this many pixels a side.")),
    ("detail", str | None, None, typer.Option(help="The provider's image detail.")),
    ("allow_remote", bool | None, None, typer.Option("--allow-remote", help="Fetch remote images: https, s3, gs.")),
    ("concurrency", int | None, None, typer.Option(help="How many cases are under way at once.")),
    ("requests_per_minute", float | None, None, typer.Option(help="At most so many requests a minute.")),
    ("tokens_per_minute", float | None, None, typer.Option(help="At most so many tokens a minute.")),
    ("timeout", float | None, None, typer.Option(help="Seconds to wait for one call.")),
    ("total_timeout", float | None, None, typer.Option(help="Seconds to wait for one case.")),
    ("lease", float | None, None, typer.Option(help="Seconds after which a silent process's cases are taken over.")),
    ("engine", str | None, None, typer.Option(help="Where the work is done: local, or ray.")),
    ("address", str | None, None, typer.Option(help="The Ray cluster's address.")),
    ("budget", float | None, None, typer.Option(help="US dollars that are never passed.")),
    ("fail_under", Many, None, typer.Option(help="Exit code 1 below: 80 (score × 100), or accuracy=4.")),
    ("max_unscored", str | None, None, typer.Option(help="How many may have no score: 3, or 2%.")),
    ("tag", Many, None, typer.Option(help="A word to find the run by.")),
    ("ledger", str | None, None, typer.Option(help="The ledger: a file, or postgresql://user@host/database.")),
    (
        "thumbnails",
        bool | None,
        None,
        typer.Option("--thumbnails/--no-thumbnails", help="Keep small copies of images."),
    ),
    ("audit", bool | None, None, typer.Option("--audit/--no-audit", help="Check models' words against the pixels.")),
    ("calibration", str | None, None, typer.Option(help="Say what people would, too: a file of `calibrate`.")),
    ("limit", int | None, None, typer.Option(help="Judge at most so many cases.")),
    ("only", str | None, None, typer.Option(help="Judge the cases whose id fits this pattern: 'p1*/anime'.")),
    ("shuffle", int | None, None, typer.Option(help="Judge in an order that this seed gives.")),
]


def takes_a_suite(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the argument SUITE and all flags; it is called with the `Suite` they make and its own options."""
    path = Annotated[Path | None, typer.Argument(metavar="SUITE", help="A suite.yaml; or say it all by flags.")]
    first = inspect.Parameter("suite", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=path)
    return _taking(command, "suite", FLAGS, lambda given: _suite(given.pop("suite"), given), (first,))


def takes_flags(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command these flags; it is called with `flags`, as `suite_from` takes them, and its own options."""
    return lambda command: _taking(command, "flags", [flag for flag in FLAGS if flag[0] in names], flags_of)


def _taking(
    command: Callable[..., None],
    made: str,
    flags: list[tuple[str, Any, Any, typer.models.OptionInfo]],
    make: Callable[[dict[str, Any]], object],
    first: tuple[inspect.Parameter, ...] = (),
) -> Callable[..., None]:
    """The command with `first` and the flags as parameters; what `make` makes of them is its parameter `made`."""
    own = [p for p in inspect.signature(command).parameters.values() if p.name != made]
    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        *first,
        *(
            inspect.Parameter(name, kind, default=default, annotation=Annotated[type_, option])
            for name, type_, default, option in flags
        ),
    ]
    for p in own:  # their module postpones annotations, and typer would look for the names here
        annotation = eval(p.annotation, command.__globals__) if isinstance(p.annotation, str) else p.annotation
        parameters.append(p.replace(kind=kind, annotation=annotation))

    @wraps(command)
    def wrapped(**given: Any) -> None:
        mine = {p.name: given.pop(p.name, p.default) for p in own}
        command(**{made: make(given)}, **mine)

    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
    wrapped.__annotations__ = {p.name: p.annotation for p in parameters}
    return wrapped


def _suite(path: Path | None, given: dict[str, Any]) -> Suite:
    from beholder.runs.suite import suite_from

    return suite_from(path, flags_of(given))


def flags_of(given: dict[str, Any]) -> dict[str, Any]:
    """The flags that were given, under the keys of a suite and with their values read."""
    from beholder.cli.options import fields, pairs, params
    from beholder.runs.suite_file import FLAG_NAMES, thresholds

    keys = {flag: key for key, flag in FLAG_NAMES.items()}
    flags: dict[str, Any] = {}
    for name, value in given.items():
        if value not in (None, []):
            key, _, inner = keys.get(name.rstrip("_"), name).partition(".")
            flags[key] = {**flags.get(key, {}), inner: value} if inner else value
    if len(flags.get("base_urls", ())) == 1:
        flags["base_url"] = flags.pop("base_urls")[0]
    if "price" in flags and len(flags["price"]) < 2:
        raise UsageError("--price-input and --price-output go together; give both.")
    readings: dict[str, Callable[[Any], object]] = {
        "pairs": lambda values: dict(pairs(values, "--pair")),
        "fields": lambda values: fields(values, ()),
        "params": params,
        "fail_under": thresholds,
    }
    for key, read in readings.items():
        if key in flags:
            flags[key] = read(flags[key])
    return flags
