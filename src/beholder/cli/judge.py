"""`beholder judge`: one case, one verdict."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beholder.cases import Case, FieldValue, ImageSource
from beholder.errors import CaseError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from beholder.rubrics.brief import Brief
    from beholder.rubrics.model import Rubric
    from beholder.runs.once import Options
    from beholder.verdicts.model import Verdict

NO_JUDGE = (
    "No judge was named, and there is no offline judge yet. Name a model, such as --judge openai:gpt-5-mini, "
    "--judge anthropic:claude-sonnet-4-5 or --judge google:gemini-2.5-pro (its key is read from the environment), or "
    "a server of your own, --judge openai:MODEL --base-url http://localhost:8000/v1; --plan shows the brief only."
)


def judge(
    rubric: Annotated[str, typer.Argument(help="A rubric's name (see `beholder rubrics`), folder or YAML file.")],
    images: Annotated[list[str] | None, typer.Argument(help="The images, in the rubric's order.")] = None,
    image: Annotated[list[str] | None, typer.Option(help="An image by role: restyled=out.png.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A text of the case: NAME=TEXT; again for a list.")
    ] = None,
    set_file: Annotated[list[str] | None, typer.Option(help="A text of the case from a file: NAME=FILE.")] = None,
    judge: Annotated[list[str] | None, typer.Option(help="Who judges: PROVIDER:MODEL; several form a jury.")] = None,
    samples: Annotated[int, typer.Option(help="How often each judge is asked.")] = 1,
    base_url: Annotated[str | None, typer.Option(help="Where a compatible server answers.")] = None,
    param: Annotated[list[str] | None, typer.Option(help="A model parameter: NAME=VALUE.")] = None,
    key_variable: Annotated[str | None, typer.Option(help="The environment variable that holds the key.")] = None,
    prompt: Annotated[Path | None, typer.Option(help="A prompt file of your own, run as it is.")] = None,
    styles: Annotated[list[Path] | None, typer.Option(help="A folder with styles of your own.")] = None,
    setting: Annotated[str, typer.Option(help="The rubric's setting: online or offline for the edit rubrics.")] = "",
    threshold: Annotated[float | None, typer.Option(help="The score (0 to 1) from which the case passes.")] = None,
    gate: Annotated[list[str] | None, typer.Option(help="A finding that fails the case: hallucinations.")] = None,
    not_applicable: Annotated[str | None, typer.Option(help="N/A answers: accept, offer or refuse.")] = None,
    fail_under: Annotated[float | None, typer.Option(help="Exit code 1 when score × 100 is below this.")] = None,
    max_side: Annotated[int | None, typer.Option(help="Scale images down to this many pixels a side.")] = None,
    detail: Annotated[str | None, typer.Option(help="The provider's image detail: low, high, auto.")] = None,
    allow_remote: Annotated[bool, typer.Option("--allow-remote", help="Fetch http(s) images.")] = False,
    id_: Annotated[str | None, typer.Option("--id", help="The case's id; the judge never sees it.")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Print the brief; ask nobody.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Show passed assertions on the card too.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print verdicts as JSON, one a line.")] = False,
    format_: Annotated[str, typer.Option("--format", help="card, json or seed.")] = "card",
) -> None:
    """Judge one case and show the verdict."""
    from beholder.cli.options import fields, params, rescored, text_file
    from beholder.cli.output import Format, exit_code, show
    from beholder.rubrics.library import load_all

    form = Format.JSON if json_ else Format.of(format_)
    rubrics = [rescored(one, threshold, gate or (), not_applicable) for one in load_all(rubric)]
    texts = fields(set_ or (), set_file or ())
    case = _case(rubrics[0], images or [], image or [], texts, setting, id_)
    options: Options = {
        "samples": samples,
        "setting": setting,
        "style_folders": styles or [],
        "allow_remote": allow_remote,
        "prompt": text_file(prompt, "The prompt") if prompt else None,
    }
    parameters = params(param or ())
    parameters |= {name: value for name, value in (("max_side", max_side), ("detail", detail)) if value is not None}
    if samples < 1:
        raise UsageError(f"--samples is 1 or more, and {samples} is not.")
    if plan:
        _plan(rubrics, case, options, judge or [], base_url, parameters, as_json=form is Format.JSON)
        return
    if not judge:
        raise UsageError(NO_JUDGE)
    verdicts, settled = asyncio.run(_ask(rubrics, case, options, judge, base_url, parameters, key_variable))
    show(verdicts, settled, form, full=full)
    raise typer.Exit(exit_code(verdicts, fail_under))


def _case(
    rubric: Rubric,
    images: Sequence[str],
    named: Sequence[str],
    fields: Mapping[str, FieldValue],
    setting: str,
    id_: str | None,
) -> Case:
    """The case that the arguments describe; images without a role take the rubric's roles in order."""
    from beholder.cli.options import pairs

    by_role: dict[str, ImageSource] = {}
    roles = [image.role for image in rubric.images]
    for role, source in pairs(named, "--image"):
        if role not in roles:
            raise CaseError(f"{rubric.name} has no image {role!r}; it has {', '.join(roles)}.")
        if role in by_role:
            raise CaseError(f"The image {role!r} was given twice.")
        by_role[role] = source
    chosen = setting if setting in rubric.settings else _setting(rubric, by_role)
    free = [role for role in rubric.with_setting(chosen).roles if role not in by_role]
    if len(images) > len(free):
        wanted = f"{len(free)} ({', '.join(free)})" if free else "none"
        raise CaseError(f"{rubric.name} takes {wanted} here, and {len(images)} images were given.")
    by_role |= dict(zip(free, images, strict=False))
    name = id_ or (Path(str(list(by_role.values())[-1])).stem if by_role else "case")
    return Case(name[:200] or "case", by_role, fields)


def _setting(rubric: Rubric, by_role: dict[str, ImageSource]) -> str:
    fitting = (name for name, one in rubric.settings.items() if set(by_role) <= set(one.images))
    return next(fitting, "")


async def _ask(
    rubrics: Sequence[Rubric],
    case: Case,
    options: Options,
    names: Sequence[str],
    base_url: str | None,
    parameters: dict[str, object],
    key_variable: str | None,
) -> tuple[list[Verdict], list[Rubric]]:
    from beholder.judges.model import judge_from
    from beholder.runs.once import composer, judge_async

    settled = [composer(rubric, options).rubric_for(case) for rubric in rubrics]
    judges = [judge_from(name, base_url=base_url, params=parameters, key_variable=key_variable) for name in names]
    try:
        return [await judge_async(rubric, case, judges, **options) for rubric in rubrics], settled
    finally:
        for judge in judges:
            await judge.aclose()


def _plan(
    rubrics: Sequence[Rubric],
    case: Case,
    options: Options,
    names: Sequence[str],
    base_url: str | None,
    parameters: dict[str, object],
    *,
    as_json: bool,
) -> None:
    from beholder.cli.output import brief_dict, show_brief
    from beholder.judges.model import sizing_of
    from beholder.runs.once import brief_of, composer

    sizing = sizing_of(names[0] if names else "openai:any", parameters)

    async def briefs() -> list[Brief]:
        allowed = options.get("allow_remote", False)
        return [await brief_of(composer(one, options), case, sizing, allow_remote=allowed) for one in rubrics]

    for brief in asyncio.run(briefs()):
        if as_json:
            typer.echo(json.dumps(brief_dict(brief), ensure_ascii=False))
        else:
            show_brief(brief)
