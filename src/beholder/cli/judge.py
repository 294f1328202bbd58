"""`beholder judge` (judge one case) and `beholder score` (score recorded answers again)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beholder.cli.options import (
    AnywayOption,
    CalibrationFile,
    FeaturesFile,
    OtelOption,
    complete_rubrics,
    configure_telemetry,
)
from beholder.errors import CaseError, UsageError
from beholder.reports.text import print_text, printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from beholder.api.score import ScoreSummary
    from beholder.cases.case import Case, FieldValue
    from beholder.rubrics.rubric import Rubric


def judge(
    rubric: Annotated[
        str,
        typer.Argument(
            help="A rubric's name (see `beholder rubrics`), folder or YAML file.", autocompletion=complete_rubrics
        ),
    ],
    images: Annotated[list[str] | None, typer.Argument(help="The images, in the rubric's order.")] = None,
    image: Annotated[list[str] | None, typer.Option(help="An image by role: restyled=out.png.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A text of the case: NAME=TEXT; again for a list.")
    ] = None,
    set_file: Annotated[list[str] | None, typer.Option(help="A text of the case from a file: NAME=FILE.")] = None,
    judge: Annotated[
        list[str] | None,
        typer.Option(help="Who judges: PROVIDER:MODEL; several form a jury. Without it, instruments."),
    ] = None,
    samples: Annotated[int, typer.Option(help="How often each judge is asked.")] = 1,
    first: Annotated[
        str | None, typer.Option(help="Of a preference, one candidate: an image, or a text's file.")
    ] = None,
    second: Annotated[str | None, typer.Option(help="Of a preference, the other candidate.")] = None,
    input_: Annotated[str | None, typer.Option("--input", help="The image `input`.")] = None,
    orders: Annotated[str, typer.Option(help="Orders of two candidates: both, random or given.")] = "both",
    probe: Annotated[bool, typer.Option(help="Ask models also about a crop of the edit.")] = False,
    base_url: Annotated[
        list[str] | None, typer.Option(help="Where a compatible server answers; several share the requests.")
    ] = None,
    param: Annotated[list[str] | None, typer.Option(help="A model parameter: NAME=VALUE.")] = None,
    key_variable: Annotated[str | None, typer.Option(help="The environment variable that holds the key.")] = None,
    structured_output: Annotated[str, typer.Option(help="auto, or off: the schema goes into the prompt.")] = "auto",
    allow_http_key: Annotated[
        bool, typer.Option("--allow-http-key", help="Send a key over plain http, where others can read it.")
    ] = False,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for one call; up to six are made.")] = 120.0,
    prompt: Annotated[Path | None, typer.Option(help="A prompt file of your own, run as it is.")] = None,
    styles: Annotated[list[Path] | None, typer.Option(help="A folder with styles of your own.")] = None,
    setting: Annotated[str, typer.Option(help="The rubric's setting: online or offline for the edit rubrics.")] = "",
    threshold: Annotated[float | None, typer.Option(help="The score (0 to 1) from which the case passes.")] = None,
    gate: Annotated[list[str] | None, typer.Option(help="A finding that fails the case: hallucinations.")] = None,
    not_applicable: Annotated[str | None, typer.Option(help="N/A answers: accept, offer or refuse.")] = None,
    fail_under: Annotated[float | None, typer.Option(help="Exit code 1 when score × 100 is below this.")] = None,
    max_side: Annotated[int | None, typer.Option(help="Scale images down to this many pixels a side.")] = None,
    detail: Annotated[str | None, typer.Option(help="The provider's image detail: low, high, auto.")] = None,
    allow_remote: Annotated[bool, typer.Option("--allow-remote", help="Fetch remote images: https, s3, gs.")] = False,
    audit: Annotated[bool, typer.Option(help="Check a model's words against the pixels.")] = True,
    calibration: CalibrationFile = None,
    id_: Annotated[str | None, typer.Option("--id", help="The case's id; the judge never sees it.")] = None,
    otel: OtelOption = False,
    plan: Annotated[bool, typer.Option("--plan", help="Print the brief; ask nobody.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Show passed assertions on the card too.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print verdicts as JSON, one a line.")] = False,
    format_: Annotated[str, typer.Option("--format", help="card, json or seed.")] = "card",
) -> None:
    """Judge one case and show the verdict."""
    from beholder.api.judge import judge_rubrics, make_briefs
    from beholder.api.options import Options, check_model_options
    from beholder.cli import EXIT_UNSCORED
    from beholder.cli.options import parse_fields, parse_params
    from beholder.cli.output import (
        OutputFormat,
        print_brief,
        print_verdicts,
        show_spinner,
        verdicts_exit_code,
    )
    from beholder.judges.base import INSTRUMENTS
    from beholder.rubrics.load import load_rubrics
    from beholder.runs.suite_file import FLAG_NAMES

    form = OutputFormat.JSON if json_ else OutputFormat.of(format_)
    urls = base_url or []
    options = Options(
        base_url=urls[0] if len(urls) == 1 else None,
        base_urls=urls if len(urls) > 1 else (),
        key_variable=key_variable,
        structured_output=structured_output,
        allow_http_key=allow_http_key,
        params=parse_params(param or ()),
        timeout_s=timeout,
        max_side=max_side,
        detail=detail,
        prompt=prompt,
        setting=setting,
        styles=styles or (),
        orders=orders,
        probe=probe,
        threshold=threshold,
        gates=gate or (),
        not_applicable=not_applicable,
        allow_remote=allow_remote,
        audit=audit,
        calibration=calibration,
    )
    rubrics = load_rubrics(rubric)
    if form is OutputFormat.SEED and (without := [loaded.name for loaded in rubrics if not loaded.format]):
        raise UsageError(f"The rubric {', '.join(without)} has no seed format; use --json.")
    roles = {"input": input_, "first": first, "second": second}
    by_flag = {role: source for role, source in roles.items() if source is not None}
    texts, named = _sort_role_flags(rubrics[0], by_flag)
    fields = parse_fields(set_ or (), [*(set_file or ()), *texts])
    case = _make_case(rubrics[0], images or [], [*(image or []), *named], fields, setting, id_)
    _check_image_paths(case, allow_remote=allow_remote)
    if samples < 1:
        raise UsageError(f"--samples is 1 or more, and {samples} is not.")
    if plan:
        for brief in make_briefs(rubrics, case, judge=judge, options=options).values():
            if form is OutputFormat.JSON:
                typer.echo(json.dumps(brief.to_dict(), ensure_ascii=False))
            else:
                print_brief(brief)
        return
    configure_telemetry(otel)
    names = judge or [INSTRUMENTS]
    check_model_options(names, options, lambda name: f"--{FLAG_NAMES.get(name, name).replace('_', '-')}")
    # Before the judges are made: an error in the case comes before one about a missing key.
    fitted = [options.make_composer(loaded).rubric_for(case) for loaded in rubrics]
    with show_spinner(f"asking {', '.join(names)}"):
        verdicts = judge_rubrics(rubrics, case, judge=names, samples=samples, options=options)
    print_verdicts(list(zip(verdicts.values(), fitted, strict=True)), form, full=full)
    strict = threshold is not None or bool(gate)
    seed = form is OutputFormat.SEED
    code = verdicts_exit_code(list(verdicts.values()), fail_under, strict=strict, seed=seed)
    ratings = [rating.value for verdict in verdicts.values() for rating in verdict.calibrated.values()]
    if calibration is not None and all(value is None for value in ratings):
        code = code or EXIT_UNSCORED
    raise typer.Exit(code)


def _sort_role_flags(rubric: Rubric, given: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return `--first`, `--second` and `--input` as entries of --set-file and of --image, by what the rubric has."""
    roles = {image.role for image in rubric.images}
    names = {field.name for field in rubric.fields}
    texts = [f"{name}={value}" for name, value in given.items() if name in names - roles]
    if "input" in given and "input" in names - roles:
        raise CaseError(f"The input of {rubric.name} is a text: say --set input=TEXT, or --set-file input=FILE.")
    for name in given:
        if name not in roles | names:
            raise CaseError(f"{rubric.name} has no {name!r}; its images are {', '.join(sorted(roles))}.")
    return texts, [f"{name}={value}" for name, value in given.items() if name in roles]


def _check_image_paths(case: Case, *, allow_remote: bool) -> None:
    """Raise `UsageError` where an argument names no image; one that is damaged is an outcome."""
    from beholder.images.source import find_source_problem

    sources = ((role, find_source_problem(source, allow_remote=allow_remote)) for role, source in case.list_images())
    if problems := [f"the image {role!r}: {problem}" for role, problem in sources if problem]:
        raise UsageError(f"There is nothing to judge: {'; '.join(problems)}.")


def _make_case(
    rubric: Rubric,
    images: Sequence[str],
    named: Sequence[str],
    fields: Mapping[str, FieldValue],
    setting: str,
    id_: str | None,
) -> Case:
    """Return the case that the arguments describe; images without a role take the rubric's roles in order."""
    from beholder.cases.case import Case, image_stem
    from beholder.cli.options import parse_pairs
    from beholder.rubrics.brief import choose_setting
    from beholder.rubrics.prompt import clean_text

    by_role: dict[str, list[str]] = {}
    roles = [image.role for image in rubric.images]
    for role, source in parse_pairs(named, "--image"):
        if role not in roles:
            raise CaseError(f"{rubric.name} has no image {role!r}; it has {', '.join(roles)}.")
        if role in by_role and not rubric.image(role).many:
            raise CaseError(f"The image {role!r} was given twice.")
        by_role.setdefault(role, []).append(source)
    chosen = setting if setting in rubric.settings else choose_setting(rubric, by_role)
    free = [role for role in rubric.with_setting(chosen).roles if role not in by_role]
    if len(images) > len(free):
        wanted = f"{len(free)} ({', '.join(free)})" if free else "none"
        raise CaseError(f"{rubric.name} takes {wanted} here, and {len(images)} images were given.")
    by_role |= {role: [image] for role, image in zip(free, images, strict=False)}
    last = list(by_role.values())[-1][-1] if by_role else b""
    return Case(clean_text(id_ or image_stem(last)[:200]), by_role, fields)


MAX_LISTED = 10
TABLE = "table"


def score(
    answers: Annotated[
        Path,
        typer.Argument(
            help='One JSON object a line: {"case", "answer", "fields", "judge"}, or an answer itself; - for stdin.'
        ),
    ],
    rubric: Annotated[str, typer.Option(help="The rubric that was asked.")],
    setting: Annotated[str, typer.Option(help="online or offline; without it each answer says so itself.")] = "",
    styles: Annotated[list[Path] | None, typer.Option(help="A folder with styles of your own.")] = None,
    threshold: Annotated[float | None, typer.Option(help="The score (0 to 1) from which a case passes.")] = None,
    gate: Annotated[list[str] | None, typer.Option(help="A finding that fails a case: hallucinations.")] = None,
    not_applicable: Annotated[str | None, typer.Option(help="N/A answers: accept, offer or refuse.")] = None,
    calibration: CalibrationFile = None,
    features: FeaturesFile = None,
    cases: Annotated[
        Path | None, typer.Option("--cases", help="The case file that names the images.", show_default=False)
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure what the calibration needs on the images of --cases.")
    ] = False,
    anyway: AnywayOption = False,
    full: Annotated[bool, typer.Option("--full", help="Show passed assertions on the cards too.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print verdicts as JSON, one a line.")] = False,
    format_: Annotated[str, typer.Option("--format", help="table, card, json or seed.")] = TABLE,
) -> None:
    """Score recorded answers again and show what was corrected and flagged."""
    from beholder.api.score import score as score_answers
    from beholder.cli.calibrate import print_unmeasured, show_progress
    from beholder.cli.output import OutputFormat, print_verdicts

    if format_ not in (TABLE, *OutputFormat):
        raise UsageError(f"--format is one of {', '.join((TABLE, *OutputFormat))}, not {format_!r}.")
    form = OutputFormat.JSON if json_ else None if format_ == TABLE else OutputFormat(format_)
    with show_progress() as progress:
        result = score_answers(
            answers,
            rubric,
            setting=setting,
            styles=styles or (),
            threshold=threshold,
            gates=gate or (),
            not_applicable=not_applicable,
            calibration=calibration,
            features=features,
            cases=cases,
            measure=measure,
            anyway=anyway,
            progress=progress,
        )
    if form is not None:
        for verdict, settled in result.with_rubrics():
            print_verdicts([(verdict, settled)], form, full=full)
    elif result.summary.outcomes:
        _print_score_summary(result.summary)
    print_unmeasured(result.summary.unmeasured, result.summary.measured)
    _print_malformed(result.summary)
    raise typer.Exit(result.exit_code)


def _print_malformed(summary: ScoreSummary) -> None:
    if not summary.malformed:
        return
    lines = (
        "1 line is no recorded answer and was"
        if summary.malformed == 1
        else f"{summary.malformed:,} lines are no recorded answers and were"
    )
    print_text(f"beholder: {lines} left out:", error=True)
    for sentence in summary.first_malformed:
        print_text(f"  {printable(sentence)}", error=True)
    if more := summary.malformed - len(summary.first_malformed):
        print_text(f"  and {more:,} more", error=True)


def _print_score_summary(summary: ScoreSummary) -> None:
    from rich.console import Console
    from rich.table import Table

    from beholder.reports.text import describe_calibration

    console = Console(highlight=False, emoji=False)
    if summary.sums:
        table = Table("rubric", "criterion", "scored", "mean", box=None, pad_edge=False)
        for (rubric, key), mean in summary.means.items():
            table.add_row(rubric, key, str(summary.sums[rubric, key][1]), f"{mean:.3f}")
        console.print(table)
    outcomes = {f"{rubric} {outcome}": count for (rubric, outcome), count in summary.outcomes.items()}
    print_text(_summary_line("outcomes", outcomes))
    print_text(_summary_line("verdicts with a flag", summary.flags))
    print_text(_summary_line("verdicts with a correction", summary.corrected))
    for line in describe_calibration(summary.filled, summary.uncalibrated):
        console.print(printable(line), style="yellow", markup=False)
    for line in summary.first_unscored:
        console.print(f"  {printable(line)}", style="yellow", markup=False)


def _summary_line(title: str, counts: Mapping[str, int]) -> str:
    listed = ", ".join(f"{count} {name}" for name, count in sorted(counts.items(), key=lambda pair: -pair[1]))
    return f"{title}: {listed or 'none'}"
