"""What commands share: option types, parsing, and the flags of a suite.

Every command imports this module at start: anything heavy is imported inside the functions.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import wraps
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from beholder.errors import BeholderError, UntrustedSuite, UsageError
from beholder.images.image import regular_file

if TYPE_CHECKING:
    from beholder.cases.case import FieldValue
    from beholder.runs.suite import Suite


MAX_COMPLETED = 200  # case ids


def complete_runs(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names and ids of runs that begin so, for the shell; nothing where there is no ledger."""
    from beholder.api.run import list_runs

    with suppress(BeholderError):
        runs = list_runs(ctx.params.get("address") or ctx.params.get("ledger"))  # as commands call `--ledger`
        names = dict.fromkeys(["latest", "previous", *(run.name for run in runs), *(run.id for run in runs)])
        return _quote_for_shell(name for name in names if name.startswith(incomplete))
    return []


def complete_run_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of runs that begin so, for the shell."""
    from beholder.api.run import list_runs

    with suppress(BeholderError):
        names = dict.fromkeys(run.name for run in list_runs(ctx.params.get("address")))
        return _quote_for_shell(name for name in names if name.startswith(incomplete))
    return []


def complete_cases(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the ids of cases of the run before it that begin so, for the shell; at most `MAX_COMPLETED`."""
    from beholder.api.run import Run

    with suppress(BeholderError):
        run = Run.load(ctx.params.get("run") or "latest", ctx.params.get("address") or ctx.params.get("ledger"))
        with run.open() as ledger:
            ids = (id_ for id_ in ledger.case_ids(run.id) if id_.startswith(incomplete))
            return _quote_for_shell(islice(ids, MAX_COMPLETED))
    return []


def complete_words(*words: str) -> Callable[[str], list[str]]:
    """Return what completes an option that takes one of these words."""

    def complete(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return complete


def _quote_for_shell(names: Iterable[str]) -> list[str]:
    """Return names as the shell wants them: bash inserts them as they are, and others quote them by themselves."""
    if os.environ.get("_BEHOLDER_COMPLETE") != "complete_bash":
        return list(names)
    return [re.sub(r"[^\w@%+=:,./-]", r"\\\g<0>", name) for name in names]


def complete_rubrics(incomplete: str) -> list[tuple[str, str]]:
    """Return the rubrics whose names begin so, each with a line about it, for the shell."""
    from beholder.rubrics.load import list_rubrics

    return [(name, about) for name, about in list_rubrics().items() if name.startswith(incomplete)]


def complete_styles(incomplete: str) -> list[str]:
    """Return the styles whose names begin so, for the shell."""
    from beholder.rubrics.load import load_styles

    return _quote_for_shell(name for name in load_styles() if name.casefold().startswith(incomplete.casefold()))


def parse_pairs(values: Iterable[str], option: str) -> list[tuple[str, str]]:
    """Split `NAME=VALUE` arguments; raise `UsageError`, naming the `option`, for one without a name or `=`."""
    split = []
    for value in values:
        name, equals, rest = value.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"{option} takes NAME=VALUE, and {value!r} is not of this form.")
        split.append((name.strip(), rest))
    return split


def parse_fields(texts: Iterable[str], files: Iterable[str]) -> dict[str, FieldValue]:
    """Return the fields given with --set and --set-file; a name that is given several times becomes a list."""
    given = parse_pairs(texts, "--set")
    given += [(name, _read_field(path)) for name, path in parse_pairs(files, "--set-file")]
    gathered: dict[str, tuple[str, ...]] = {}
    for name, text in given:
        gathered[name] = (*gathered.get(name, ()), text)
    return {name: values[0] if len(values) == 1 else values for name, values in gathered.items()}


def parse_params(values: Iterable[str]) -> dict[str, object]:
    """Return model parameters: a value that is JSON (a number, true, an object) is parsed, any other is text."""
    from beholder.judges.factory import parse_param

    return dict(parse_param(value) for value in values)


def read_text_file(path: Path, what: str) -> str:
    """Return the text of a file that the user named; raise `UsageError`, calling it `what`, if it cannot be read."""
    try:
        return regular_file(path).read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UsageError(f"{what} {str(path)!r} cannot be read: {reason}.") from None


def _read_field(path: str) -> str:
    return read_text_file(Path(path), "The file").removesuffix("\n")


RUN_HELP = "a run's id, the start of it, its name, `latest`, `previous`, NAME~1 or tag:TAG."
OptionalRun = Annotated[
    str | None,
    typer.Argument(metavar="[RUN]", help=f"A{RUN_HELP[1:]}", show_default=False, autocompletion=complete_runs),
]
RatingsOrReviews = Annotated[
    Path | None,
    typer.Option(
        "--ratings",
        help="Human ratings: CSV or JSONL with case, rater, aspect, score; without it the run's reviews count.",
        show_default=False,
    ),
]
ScoresFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--scores",
        help="In place of a run: CSV with case, judge, aspect, score, or verdicts as JSONL. More than once: several.",
        show_default=False,
    ),
]
CasesFile = Annotated[
    Path | None,
    typer.Option("--cases", help="The case file, for the groups of cases in plain files.", show_default=False),
]
GroupOption = Annotated[
    str | None,
    typer.Option("--group", help="What belongs together: else `source`, if the cases have it.", show_default=False),
]
MapOption = Annotated[
    list[str] | None,
    typer.Option("--map", help="ASPECT=CRITERION, or =min(a,b), =mean(a,b); without it by name.", show_default=False),
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Random seed.")]
DrawsOption = Annotated[int, typer.Option("--draws", min=100, max=100_000, help="Number of bootstrap samples.")]


AspectOption = Annotated[
    list[str] | None, typer.Option("--aspect", help="Only this aspect; more than once: these.", show_default=False)
]
JudgeScaleOption = Annotated[
    list[str] | None,
    typer.Option(
        "--scale", help="The judge's scale, where it is not known: 0..10, or ASPECT=0..10.", show_default=False
    ),
]
PeopleScaleOption = Annotated[
    list[str] | None,
    typer.Option("--rating-scale", help="People's scale: 1..7, or ASPECT=1..7.", show_default=False),
]


StringList = list[str] | None

# name, type, default, help
FLAGS: list[tuple[str, Any, Any, typer.models.OptionInfo]] = [
    ("name", str | None, None, typer.Option(help="What the run is called.")),
    ("cases", str | None, None, typer.Option(help="A case file: .jsonl, .csv, .tsv, .parquet.")),
    ("pair", StringList, None, typer.Option(help="ROLE=PATTERN, such as original=photos/{name}.jpg, or ROLE=FOLDER.")),
    ("set_", StringList, None, typer.Option("--set", help="A text for every case that has none: NAME=TEXT.")),
    (
        "rubric",
        str | None,
        None,
        typer.Option(help="A rubric's name, folder or YAML file.", autocompletion=complete_rubrics),
    ),
    ("judge", StringList, None, typer.Option(help="Who judges: PROVIDER:MODEL; several form a jury.")),
    ("base_url", StringList, None, typer.Option(help="Where a compatible server answers; several share the requests.")),
    ("key_variable", str | None, None, typer.Option(help="The environment variable that holds the key.")),
    (
        "trust_suite",
        bool | None,
        None,
        typer.Option("--trust-suite", help="Trust the addresses and key variables in this suite, until it changes."),
    ),
    (
        "allow_http_key",
        bool | None,
        None,
        typer.Option("--allow-http-key", help="Send a key over plain http, where others can read it."),
    ),
    ("param", StringList, None, typer.Option(help="A model parameter: NAME=VALUE.")),
    ("price_input", float | None, None, typer.Option(help="US dollars for a million input tokens.")),
    ("price_output", float | None, None, typer.Option(help="US dollars for a million output tokens.")),
    ("structured_output", str | None, None, typer.Option(help="auto, or off: the schema goes into the prompt.")),
    ("samples", int | None, None, typer.Option(help="How often each judge is asked.")),
    ("orders", str | None, None, typer.Option(help="Orders of two candidates: both, random or given.")),
    ("probe", bool | None, None, typer.Option("--probe/--no-probe", help="Ask models also about a crop of the edit.")),
    ("setting", str | None, None, typer.Option(help="One of the rubric's settings.")),
    ("styles", StringList, None, typer.Option(help="A folder with styles of your own.")),
    ("prompt", str | None, None, typer.Option(help="A prompt file of your own, run as it is.")),
    ("threshold", float | None, None, typer.Option(help="A case passes from this score (0 to 1).")),
    ("gate", StringList, None, typer.Option(help="A finding that fails a case.")),
    ("not_applicable", str | None, None, typer.Option(help="N/A answers: accept, offer or refuse.")),
    ("max_side", int | None, None, typer.Option(help="Scale images down to this many pixels a side.")),
    ("detail", str | None, None, typer.Option(help="The provider's image detail.")),
    ("allow_remote", bool | None, None, typer.Option("--allow-remote", help="Fetch remote images: https, s3, gs.")),
    ("concurrency", int | None, None, typer.Option(help="How many cases are in progress at once.")),
    ("requests_per_minute", float | None, None, typer.Option(help="At most so many requests a minute.")),
    ("tokens_per_minute", float | None, None, typer.Option(help="At most so many tokens a minute.")),
    ("timeout", float | None, None, typer.Option(help="Seconds to wait for one call.")),
    ("total_timeout", float | None, None, typer.Option(help="Seconds to wait for one case.")),
    (
        "lease",
        float | None,
        None,
        typer.Option(help="Seconds without a heartbeat after which a process's cases are reassigned."),
    ),
    ("engine", str | None, None, typer.Option(help="Where the work is done: local, or ray.")),
    ("address", str | None, None, typer.Option(help="The Ray cluster's address.")),
    ("budget", float | None, None, typer.Option(help="US dollars that are never passed.")),
    ("fail_under", StringList, None, typer.Option(help="Exit code 1 below: 80 (score × 100), or accuracy=4.")),
    ("max_unscored", str | None, None, typer.Option(help="How many may have no score: 3, or 2%.")),
    ("tag", StringList, None, typer.Option(help="A word to find the run by.")),
    ("ledger", str | None, None, typer.Option(help="The ledger: a file, or postgresql://user@host/database.")),
    (
        "thumbnails",
        bool | None,
        None,
        typer.Option("--thumbnails/--no-thumbnails", help="Keep small copies of images."),
    ),
    ("audit", bool | None, None, typer.Option("--audit/--no-audit", help="Check models' words against the pixels.")),
    ("calibration", str | None, None, typer.Option(help="Also predict human ratings, with a file of `calibrate`.")),
    ("limit", int | None, None, typer.Option(help="Judge at most so many cases.")),
    ("only", str | None, None, typer.Option(help="Judge the cases whose id fits this pattern: 'p1*/anime'.")),
    ("shuffle", int | None, None, typer.Option(help="Judge in an order that this seed gives.")),
]


def with_suite(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command with the argument SUITE and the flags of a suite; it is called with the `Suite` they make."""
    path = Annotated[Path | None, typer.Argument(metavar="SUITE", help="A suite.yaml; or say it all by flags.")]
    first = inspect.Parameter("suite", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=path)
    return _add_parameters(command, "suite", FLAGS, lambda given: _load_suite(given.pop("suite"), given), (first,))


def with_flags(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a command with some flags of a suite; it is called with `flags`, as `parse_flags` returns them."""
    return lambda command: _add_parameters(command, "flags", [flag for flag in FLAGS if flag[0] in names], parse_flags)


def _add_parameters(
    command: Callable[..., None],
    made: str,
    flags: list[tuple[str, Any, Any, typer.models.OptionInfo]],
    make: Callable[[dict[str, Any]], object],
    first: tuple[inspect.Parameter, ...] = (),
) -> Callable[..., None]:
    """Return the command with more parameters for typer.

    Args:
        command: A command with a parameter named `made`.
        made: Its parameter that gets what `make` returns for the values of the added parameters.
        flags: Flags to add, as in `FLAGS`.
        make: Called with the values by name.
        first: Parameters before the flags.
    """
    own_parameters = [p for p in inspect.signature(command).parameters.values() if p.name != made]
    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        *first,
        *(
            inspect.Parameter(name, kind, default=default, annotation=Annotated[type_, option])
            for name, type_, default, option in flags
        ),
    ]
    # Annotations are strings in the command's module, and typer would evaluate them in this one.
    for p in own_parameters:
        annotation = eval(p.annotation, command.__globals__) if isinstance(p.annotation, str) else p.annotation
        parameters.append(p.replace(kind=kind, annotation=annotation))

    @wraps(command)
    def wrapped(**given: Any) -> None:
        mine = {p.name: given.pop(p.name, p.default) for p in own_parameters}
        command(**{made: make(given)}, **mine)

    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
    wrapped.__annotations__ = {p.name: p.annotation for p in parameters}
    return wrapped


def _load_suite(path: Path | None, given: dict[str, Any]) -> Suite:
    from beholder.runs.suite import load_suite

    flags = parse_flags(given)
    try:
        return load_suite(path, flags)
    except UntrustedSuite as error:
        if not (sys.stdin.isatty() and sys.stderr.isatty()) or not _confirm_trust(error):
            raise
        return load_suite(path, {**flags, "trust_suite": True})


def _confirm_trust(error: UntrustedSuite) -> bool:
    from beholder.reports.text import printable

    typer.echo(printable(f"{error.source} asks for this: {'; '.join(error.reasons)}."), err=True)
    return typer.confirm("Do you trust this file, until it changes?", err=True)


def parse_flags(given: dict[str, Any]) -> dict[str, Any]:
    """Return the flags that were given under the keys of a suite, with their values parsed."""
    from beholder.runs.suite_file import FLAG_NAMES, parse_thresholds

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
        "pairs": lambda values: dict(parse_pairs(values, "--pair")),
        "fields": lambda values: parse_fields(values, ()),
        "params": parse_params,
        "fail_under": parse_thresholds,
    }
    for key, read in readings.items():
        if key in flags:
            flags[key] = read(flags[key])
    return flags


CalibrationFile = Annotated[
    Path | None,
    typer.Option("--calibration", help="Also predict human ratings, with a file of `calibrate`.", show_default=False),
]
FeaturesFile = Annotated[
    Path | None,
    typer.Option(
        "--features",
        help="Further numbers: CSV or JSONL with case, NAME, …; or verdicts of further judges.",
        show_default=False,
    ),
]
AnywayOption = Annotated[
    bool,
    typer.Option(
        "--anyway", help="Apply the calibration also to another rubric, style or judge than it was fitted for."
    ),
]


LedgerOption = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        help="The ledger: a file, or postgresql://user@host/database; else BEHOLDER_LEDGER, else beholder.db.",
        show_default=False,
    ),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Overwrite a file that exists and is something else.")]

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help=f"A{RUN_HELP[1:]}", autocompletion=complete_runs)]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
OtelOption = Annotated[
    bool, typer.Option("--otel", help="Send OpenTelemetry spans and events, as the OTEL_… variables say.")
]


def configure_telemetry(wanted: bool) -> None:
    """Do what `--otel` asks for."""
    if wanted:
        from beholder.integrations.otel import configure

        configure()
