"""`beholder judge`: one case, one verdict."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beholder.cli.calibration_options import CalibrationAt
from beholder.errors import CaseError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from beholder.cases import Case, FieldValue, ImageSource
    from beholder.rubrics.brief import Brief
    from beholder.rubrics.model import Rubric
    from beholder.runs.once import Options
    from beholder.verdicts.model import Verdict


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
    calibration: CalibrationAt = None,
    id_: Annotated[str | None, typer.Option("--id", help="The case's id; the judge never sees it.")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Print the brief; ask nobody.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Show passed assertions on the card too.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print verdicts as JSON, one a line.")] = False,
    format_: Annotated[str, typer.Option("--format", help="card, json or seed.")] = "card",
) -> None:
    """Judge one case and show the verdict."""
    import asyncio

    from beholder.cli.options import fields, params, rescored, text_file
    from beholder.cli.output import Format, exit_code, show, waiting
    from beholder.rubrics.library import load_all
    from beholder.runs.once import composer

    form = Format.JSON if json_ else Format.of(format_)
    rubrics = [rescored(one, threshold, gate or (), not_applicable) for one in load_all(rubric)]
    if form is Format.SEED and (without := [one.name for one in rubrics if not one.format]):
        raise UsageError(f"The rubric {', '.join(without)} has no seed format; use --json.")
    texts = fields(set_ or (), set_file or ())
    case = _case(rubrics[0], images or [], image or [], texts, setting, id_)
    options: Options = {
        "samples": samples,
        "setting": setting,
        "style_folders": styles or [],
        "allow_remote": allow_remote,
        "audit": audit,
        "calibration": calibration,
        "prompt": text_file(prompt, "The prompt") if prompt else None,
    }
    parameters = params(param or ())
    parameters |= {name: value for name, value in (("max_side", max_side), ("detail", detail)) if value is not None}
    if samples < 1:
        raise UsageError(f"--samples is 1 or more, and {samples} is not.")
    if plan:
        _plan(rubrics, case, options, judge or [], parameters, as_json=form is Format.JSON)
        return
    names = _names(judge, {"--base-url": base_url, "--param": param, "--key-variable": key_variable})
    for one in rubrics:
        composer(one, options).rubric_for(case)  # what is wrong with the case is said before any key is looked for
    places = [(name, _base_urls(name, names, base_url or [])) for name in names]
    with waiting(f"asking {', '.join(names)}"):
        judged = asyncio.run(_ask(rubrics, case, options, places, parameters, key_variable, timeout))
    show(judged, form, full=full)
    strict = threshold is not None or bool(gate)
    seed = form is Format.SEED
    raise typer.Exit(exit_code([verdict for verdict, _ in judged], fail_under, strict=strict, seed=seed))


def _names(named: Sequence[str] | None, for_models: Mapping[str, object]) -> Sequence[str]:
    """Who judges: the instruments where nobody is named. `for_models` are flags that go with a model, by their name."""
    from beholder.judges.protocol import INSTRUMENTS

    if not named:
        if given := [flag for flag, value in for_models.items() if value]:
            raise UsageError(f"{given[0]} is for a model, and no judge was named: name one, --judge PROVIDER:MODEL.")
        return [INSTRUMENTS]
    if for_models["--key-variable"] and len({name.partition(":")[0] for name in named} - {INSTRUMENTS}) > 1:
        raise UsageError("--key-variable is for one provider, and the judges are of several.")
    return named


def _base_urls(name: str, names: Sequence[str], base_urls: Sequence[str]) -> Sequence[str]:
    """Where a judge answers. A base URL is for `openai:` judges where there are any: no other key may go there."""
    from beholder.judges.protocol import INSTRUMENTS

    providers = sorted({one.partition(":")[0] for one in names} - {INSTRUMENTS}) or [INSTRUMENTS]
    meant = "openai" if "openai" in providers or len(providers) > 1 else providers[0]
    if base_urls and meant not in providers:
        raise UsageError(f"--base-url is for one provider, and the judges are of {', '.join(providers)}.")
    return base_urls if name.partition(":")[0] == meant else ()


def _case(
    rubric: Rubric,
    images: Sequence[str],
    named: Sequence[str],
    fields: Mapping[str, FieldValue],
    setting: str,
    id_: str | None,
) -> Case:
    """The case that the arguments describe; images without a role take the rubric's roles in order."""
    from beholder.cases import Case
    from beholder.cli.options import pairs
    from beholder.rubrics.composing import fitting_setting
    from beholder.rubrics.delimiting import clean

    by_role: dict[str, ImageSource] = {}
    roles = [image.role for image in rubric.images]
    for role, source in pairs(named, "--image"):
        if role not in roles:
            raise CaseError(f"{rubric.name} has no image {role!r}; it has {', '.join(roles)}.")
        if role in by_role:
            raise CaseError(f"The image {role!r} was given twice.")
        by_role[role] = source
    chosen = setting if setting in rubric.settings else fitting_setting(rubric, by_role)
    free = [role for role in rubric.with_setting(chosen).roles if role not in by_role]
    if len(images) > len(free):
        wanted = f"{len(free)} ({', '.join(free)})" if free else "none"
        raise CaseError(f"{rubric.name} takes {wanted} here, and {len(images)} images were given.")
    by_role |= dict(zip(free, images, strict=False))
    return Case(clean(id_ or _name(by_role)), by_role, fields)


def _name(by_role: Mapping[str, ImageSource]) -> str:
    """The name of the last image's file, without what an address may hold besides."""
    last = str(list(by_role.values())[-1]) if by_role else ""
    if not last or last[:5].lower() == "data:":
        return "case"
    return Path(re.split("[?#]", last)[0]).stem[:200] or "case"


async def _ask(
    rubrics: Sequence[Rubric],
    case: Case,
    options: Options,
    places: Sequence[tuple[str, Sequence[str]]],
    parameters: dict[str, object],
    key_variable: str | None,
    timeout_s: float,
) -> list[tuple[Verdict, Rubric]]:
    from beholder.judges.model import judge_from
    from beholder.runs.once import verdicts

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
        return await verdicts(rubrics, case, judges, options)
    finally:
        for judge in judges:
            await judge.aclose()


def _plan(
    rubrics: Sequence[Rubric],
    case: Case,
    options: Options,
    names: Sequence[str],
    parameters: dict[str, object],
    *,
    as_json: bool,
) -> None:
    import asyncio

    from beholder.cli.output import brief_dict, show_brief
    from beholder.judges.model import sizing_of
    from beholder.runs.judging import brief_of
    from beholder.runs.once import composer
    from beholder.runs.pictures import Pictures

    sizing = sizing_of(names[0] if names else "openai:any", parameters)

    async def briefs() -> list[Brief]:
        pictures = Pictures(allow_remote=options.get("allow_remote", False), workers=0)
        return [await brief_of(composer(one, options), case, sizing, pictures) for one in rubrics]

    for brief in asyncio.run(briefs()):
        if as_json:
            typer.echo(json.dumps(brief_dict(brief), ensure_ascii=False))
        else:
            show_brief(brief)
