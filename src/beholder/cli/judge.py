"""`beholder judge` (judge one case) and `beholder score` (score recorded answers again)."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beholder.cli.options import AnywayOption, CalibrationFile, FeaturesFile
from beholder.errors import CaseError, UsageError
from beholder.reports.text import print_text, printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from beholder.api.judge import JudgeOptions
    from beholder.cases.case import Case, FieldValue
    from beholder.images.image import ImageSource
    from beholder.rubrics.brief import Brief
    from beholder.rubrics.rubric import Rubric
    from beholder.verdicts.verdict import Verdict


def judge(
    rubric: Annotated[str, typer.Argument(help="A rubric's name (see `beholder rubrics`), folder or YAML file.")],
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
    base_url: Annotated[
        list[str] | None, typer.Option(help="Where a compatible server answers; several share the requests.")
    ] = None,
    param: Annotated[list[str] | None, typer.Option(help="A model parameter: NAME=VALUE.")] = None,
    key_variable: Annotated[str | None, typer.Option(help="The environment variable that holds the key.")] = None,
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
    plan: Annotated[bool, typer.Option("--plan", help="Print the brief; ask nobody.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Show passed assertions on the card too.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print verdicts as JSON, one a line.")] = False,
    format_: Annotated[str, typer.Option("--format", help="card, json or seed.")] = "card",
) -> None:
    """Judge one case and show the verdict."""
    import asyncio

    from beholder.api.judge import make_composer
    from beholder.cli.options import parse_fields, parse_params, read_text_file
    from beholder.cli.output import OutputFormat, print_verdicts, show_spinner, verdicts_exit_code
    from beholder.rubrics.load import load_rubrics
    from beholder.rubrics.rubric import override_scoring

    form = OutputFormat.JSON if json_ else OutputFormat.of(format_)
    rubrics = [override_scoring(loaded, threshold, gate or (), not_applicable) for loaded in load_rubrics(rubric)]
    if form is OutputFormat.SEED and (without := [loaded.name for loaded in rubrics if not loaded.format]):
        raise UsageError(f"The rubric {', '.join(without)} has no seed format; use --json.")
    texts = parse_fields(set_ or (), set_file or ())
    case = _make_case(rubrics[0], images or [], image or [], texts, setting, id_)
    options: JudgeOptions = {
        "samples": samples,
        "setting": setting,
        "style_folders": styles or [],
        "allow_remote": allow_remote,
        "audit": audit,
        "calibration": calibration,
        "prompt": read_text_file(prompt, "The prompt") if prompt else None,
    }
    parameters = parse_params(param or ())
    parameters |= {name: value for name, value in (("max_side", max_side), ("detail", detail)) if value is not None}
    if samples < 1:
        raise UsageError(f"--samples is 1 or more, and {samples} is not.")
    if plan:
        _print_plan(rubrics, case, options, judge or [], parameters, as_json=form is OutputFormat.JSON)
        return
    names = _judge_names(judge, {"--base-url": base_url, "--param": param, "--key-variable": key_variable})
    for loaded in rubrics:
        make_composer(loaded, options).rubric_for(case)  # an error in the case comes before one about a missing key
    places = [(name, _judge_base_urls(name, names, base_url or [])) for name in names]
    with show_spinner(f"asking {', '.join(names)}"):
        judged = asyncio.run(_ask_judges(rubrics, case, options, places, parameters, key_variable, timeout))
    print_verdicts(judged, form, full=full)
    strict = threshold is not None or bool(gate)
    seed = form is OutputFormat.SEED
    raise typer.Exit(verdicts_exit_code([verdict for verdict, _ in judged], fail_under, strict=strict, seed=seed))


def _judge_names(named: Sequence[str] | None, for_models: Mapping[str, object]) -> Sequence[str]:
    """Return the judges, `instruments` if none is named; `for_models` are the flags that need a model."""
    from beholder.judges.base import INSTRUMENTS

    if not named:
        if given := [flag for flag, value in for_models.items() if value]:
            raise UsageError(f"{given[0]} is for a model, and no judge was named: name one, --judge PROVIDER:MODEL.")
        return [INSTRUMENTS]
    if for_models["--key-variable"] and len({name.partition(":")[0] for name in named} - {INSTRUMENTS}) > 1:
        raise UsageError("--key-variable is for one provider, and the judges are of several.")
    return named


def _judge_base_urls(name: str, names: Sequence[str], base_urls: Sequence[str]) -> Sequence[str]:
    """Return the base URLs of a judge: they are for `openai:` judges if there are any, so that no other key is sent."""
    from beholder.judges.base import INSTRUMENTS

    providers = sorted({judge.partition(":")[0] for judge in names} - {INSTRUMENTS}) or [INSTRUMENTS]
    meant = "openai" if "openai" in providers or len(providers) > 1 else providers[0]
    if base_urls and meant not in providers:
        raise UsageError(f"--base-url is for one provider, and the judges are of {', '.join(providers)}.")
    return base_urls if name.partition(":")[0] == meant else ()


def _make_case(
    rubric: Rubric,
    images: Sequence[str],
    named: Sequence[str],
    fields: Mapping[str, FieldValue],
    setting: str,
    id_: str | None,
) -> Case:
    """Return the case that the arguments describe; images without a role take the rubric's roles in order."""
    from beholder.cases.case import Case
    from beholder.cli.options import parse_pairs
    from beholder.rubrics.brief import choose_setting
    from beholder.rubrics.prompt import clean_text

    by_role: dict[str, ImageSource] = {}
    roles = [image.role for image in rubric.images]
    for role, source in parse_pairs(named, "--image"):
        if role not in roles:
            raise CaseError(f"{rubric.name} has no image {role!r}; it has {', '.join(roles)}.")
        if role in by_role:
            raise CaseError(f"The image {role!r} was given twice.")
        by_role[role] = source
    chosen = setting if setting in rubric.settings else choose_setting(rubric, by_role)
    free = [role for role in rubric.with_setting(chosen).roles if role not in by_role]
    if len(images) > len(free):
        wanted = f"{len(free)} ({', '.join(free)})" if free else "none"
        raise CaseError(f"{rubric.name} takes {wanted} here, and {len(images)} images were given.")
    by_role |= dict(zip(free, images, strict=False))
    return Case(clean_text(id_ or _case_name(by_role)), by_role, fields)


def _case_name(by_role: Mapping[str, ImageSource]) -> str:
    """Return the name of the last image's file, without query or fragment of a URL."""
    last = str(list(by_role.values())[-1]) if by_role else ""
    if not last or last[:5].lower() == "data:":
        return "case"
    return Path(re.split("[?#]", last)[0]).stem[:200] or "case"


async def _ask_judges(
    rubrics: Sequence[Rubric],
    case: Case,
    options: JudgeOptions,
    places: Sequence[tuple[str, Sequence[str]]],
    parameters: dict[str, object],
    key_variable: str | None,
    timeout_s: float,
) -> list[tuple[Verdict, Rubric]]:
    from beholder.api.judge import judge_by_rubrics
    from beholder.judges.factory import judge_from

    judges = [
        judge_from(
            name,
            base_url=urls[0] if len(urls) == 1 else None,
            base_urls=urls if len(urls) > 1 else (),
            params=parameters,
            key_variable=key_variable,
            timeout_s=timeout_s,
        )
        for name, urls in places
    ]
    try:
        return await judge_by_rubrics(rubrics, case, judges, options)
    finally:
        for judge in judges:
            await judge.aclose()


def _print_plan(
    rubrics: Sequence[Rubric],
    case: Case,
    options: JudgeOptions,
    names: Sequence[str],
    parameters: dict[str, object],
    *,
    as_json: bool,
) -> None:
    import asyncio

    from beholder.api.judge import make_composer
    from beholder.cli.output import brief_to_dict, print_brief
    from beholder.judges.factory import judge_sizing
    from beholder.runs.case import make_brief
    from beholder.runs.image_pool import ImagePool

    sizing = judge_sizing(names[0] if names else "openai:any", parameters)

    async def briefs() -> list[Brief]:
        pictures = ImagePool(allow_remote=options.get("allow_remote", False), workers=0)
        return [await make_brief(make_composer(loaded, options), case, sizing, pictures) for loaded in rubrics]

    for brief in asyncio.run(briefs()):
        if as_json:
            typer.echo(json.dumps(brief_to_dict(brief), ensure_ascii=False))
        else:
            print_brief(brief)


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
    anyway: AnywayOption = False,
    full: Annotated[bool, typer.Option("--full", help="Show passed assertions on the cards too.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print verdicts as JSON, one a line.")] = False,
    format_: Annotated[str, typer.Option("--format", help="table, card, json or seed.")] = TABLE,
) -> None:
    """Score recorded answers again and show what was corrected and flagged."""
    from beholder.cli import EXIT_UNSCORED, EXIT_USAGE
    from beholder.cli.output import OutputFormat, print_verdicts
    from beholder.judges.recorded import Rescorer, read_recorded
    from beholder.rubrics.load import load_rubrics
    from beholder.rubrics.rubric import override_scoring

    if format_ not in (TABLE, *OutputFormat):
        raise UsageError(f"--format is one of {', '.join((TABLE, *OutputFormat))}, not {format_!r}.")
    form = OutputFormat.JSON if json_ else None if format_ == TABLE else OutputFormat(format_)
    rubrics = [override_scoring(loaded, threshold, gate or (), not_applicable) for loaded in load_rubrics(rubric)]
    family = len(rubrics) > 1
    rescorers = [Rescorer(loaded, setting=setting, style_folders=styles or [], family=family) for loaded in rubrics]
    summary, malformed = ScoreSummary(), MalformedLines()
    apply = _calibrator(calibration, features, anyway)
    for recorded in read_recorded(answers, malformed.add):
        judged = [rescorer.verdict(recorded) for rescorer in rescorers]
        for verdict, (_, settled) in zip(apply([verdict for verdict, _ in judged]), judged, strict=True):
            summary.add(verdict)
            if form is not None:
                print_verdicts([(verdict, settled)], form, full=full)
    if not summary.outcomes and not malformed.count:
        raise UsageError(f"{str(answers)!r} holds no answer; it should have one JSON object a line.")
    if form is None and summary.outcomes:
        summary.show()
    malformed.show()
    raise typer.Exit(EXIT_USAGE if malformed.count else EXIT_UNSCORED if summary.unscored else 0)


def _calibrator(
    calibration: Path | None, features: Path | None, anyway: bool
) -> Callable[[list[Verdict]], list[Verdict]]:
    """Return a function that calibrates the verdicts on one answer; without a calibration it returns them as they are.

    There are no images here: features that are measured on them are missing, and the verdict says so.
    """
    if calibration is None:
        if features is not None:
            raise UsageError("--features is for a calibration, and none is named: --calibration FILE.")
        return lambda verdicts: verdicts
    from beholder.cli.calibrate import CalibrationApplier
    from beholder.verdicts.calibration import load_calibration

    loaded = load_calibration(calibration)
    if features is None:
        return CalibrationApplier(loaded, {}, anyway).to_case
    from beholder.statistics.calibration_task import read_features

    return CalibrationApplier(loaded, read_features(features), anyway).to_case


class MalformedLines:
    """Lines that are no recorded answers: their number, and the first few."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[str] = []

    def add(self, sentence: str) -> None:
        self.count += 1
        if len(self.first) < MAX_LISTED:
            self.first.append(sentence)

    def show(self) -> None:
        if not self.count:
            return
        lines = (
            "1 line is no recorded answer and was"
            if self.count == 1
            else f"{self.count:,} lines are no recorded answers and were"
        )
        print_text(f"beholder: {lines} left out:", error=True)
        for sentence in self.first:
            print_text(f"  {printable(sentence)}", error=True)
        if self.count > len(self.first):
            print_text(f"  and {self.count - len(self.first):,} more", error=True)


class ScoreSummary:
    """Counts and means over verdicts, in constant memory."""

    def __init__(self) -> None:
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.flags: Counter[str] = Counter()
        self.corrected: Counter[str] = Counter()
        self.sums: dict[tuple[str, str], tuple[float, int]] = {}
        self.first_unscored: list[str] = []
        self.unscored = 0
        self.uncalibrated: Counter[str] = Counter()

    def add(self, verdict: Verdict) -> None:
        self.outcomes[verdict.rubric, str(verdict.outcome)] += 1
        self.flags.update({flag.flag for flag in verdict.flags})
        self.corrected.update({correction.at.rpartition(".")[2] for correction in verdict.corrections})
        if verdict.missing_score_reason:
            self.unscored += 1
            if len(self.first_unscored) < MAX_LISTED:
                self.first_unscored.append(f"{verdict.case} ({verdict.rubric}): {verdict.missing_score_reason[:300]}")
        values = {key: result.score for key, result in verdict.criteria.items()} | {"score": verdict.score}
        self.uncalibrated.update(rating.why for rating in verdict.calibrated.values() if rating.value is None)
        values |= {f"{key}, calibrated": people.value for key, people in verdict.calibrated.items()}
        for key, value in values.items():
            if value is not None:
                total, count = self.sums.get((verdict.rubric, key), (0.0, 0))
                self.sums[verdict.rubric, key] = (total + value, count + 1)

    def show(self) -> None:
        from rich.console import Console
        from rich.table import Table

        console = Console(highlight=False, emoji=False)
        if self.sums:
            table = Table("rubric", "criterion", "scored", "mean", box=None, pad_edge=False)
            for (rubric, key), (total, count) in self.sums.items():
                table.add_row(rubric, key, str(count), f"{total / count:.3f}")
            console.print(table)
        print_text(
            _summary_line("outcomes", {f"{rubric} {outcome}": n for (rubric, outcome), n in self.outcomes.items()})
        )
        print_text(_summary_line("verdicts with a flag", self.flags))
        print_text(_summary_line("verdicts with a correction", self.corrected))
        for why, count in self.uncalibrated.most_common(MAX_LISTED):
            console.print(printable(f"not calibrated, {count}: {why}"), style="yellow", markup=False)
        for line in self.first_unscored:
            console.print(f"  {printable(line)}", style="yellow", markup=False)


def _summary_line(title: str, counts: dict[str, int] | Counter[str]) -> str:
    listed = ", ".join(f"{count} {name}" for name, count in sorted(counts.items(), key=lambda pair: -pair[1]))
    return f"{title}: {listed or 'none'}"
