"""`beholder show`: what a run came to, or the verdicts on one of its cases."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from beholder.cli.calibration_options import Anyway, Applying, CalibrationAt, FeaturesAt, applying
from beholder.cli.runs import AsJson, LedgerAt, Which, money, record_dict
from beholder.errors import UsageError
from beholder.reports.terminal import printable, say

if TYPE_CHECKING:
    from beholder.cases import Case
    from beholder.ledger import Ledger, RunRecord
    from beholder.ledger.tallying import Tally
    from beholder.verdicts.model import Verdict


UNSCORED_SHOWN = 5


def show(
    run: Which = "latest",
    case: Annotated[str | None, typer.Argument(help="A case's id: its verdicts in full.", show_default=False)] = None,
    by: Annotated[str | None, typer.Option(help="Split the means by a group, such as model.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Show passed assertions on the card too.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Print the judges' answers to the case as they came.")] = False,
    calibration: CalibrationAt = None,
    features: FeaturesAt = None,
    anyway: Anyway = False,
    ledger: LedgerAt = None,
    json_: AsJson = False,
) -> None:
    """Show what a run came to; or a case of it, and whether its images have changed since."""
    from beholder.ledger import Ledger

    with Ledger.open(ledger, read_only=True) as book:
        record = book.run(run)
        if case is not None and raw:
            _raw(book.raw(record.id, case), as_json=json_)
            return
        apply = applying(book, record, calibration, features, anyway=anyway, case=case)
        if case is None:
            _run(book, record, by, apply, as_json=json_)
        else:
            _case(book, record, case, apply, full=full, as_json=json_)


def _run(book: Ledger, record: RunRecord, by: str | None, apply: Applying | None, *, as_json: bool) -> None:
    from beholder.ledger.tallying import tallies
    from beholder.ledger.tallying import tally as tallied

    tally = book.tally(record.id) if apply is None else tallied(apply(book.judged(record.id)))
    split = tallies(book.judged(record.id) if apply is None else apply(book.judged(record.id)), by) if by else {}
    if by and split.keys() == {""}:
        groups = sorted({name for one in book.judged(record.id) for name in one.groups})
        raise UsageError(f"No case of this run is in a group {by!r}; there are {', '.join(groups) or 'none'}.")
    if as_json:
        found: dict[str, object] = {**record_dict(record), "versions": dict(record.versions), **tally.to_dict()}
        if by:
            found["groups"] = {by: {value: one.to_dict() for value, one in split.items()}}
        say(json.dumps(found))
        return
    _summary(record, tally)
    for one in islice((verdict for verdict in book.verdicts(record.id) if verdict.lack), UNSCORED_SHOWN):
        say(f"  {one.case}: {printable(one.lack)[:200]}")
    if by:
        _means({value or "(none)": one for value, one in split.items()}, by)


def _summary(record: RunRecord, tally: Tally) -> None:
    from rich.console import Console

    from beholder.cli.summary import means_table
    from beholder.reports.run_states import state_of

    say(printable(f"run {record.id} ({record.name}), {state_of(record)}, started {record.created:%Y-%m-%d %H:%M} UTC"))
    Console(highlight=False).print(means_table(tally))
    for name, rubric in tally.rubrics.items():
        if rubric.grades:
            say(printable(_counts(f"grades of {name}", dict(sorted(rubric.grades.items())))))
        if rubric.passed:
            say(printable(f"{name}: {rubric.passed[True]} passed, {rubric.passed[False]} failed"))
    cost = money(None if tally.unpriced and not tally.cost_usd else tally.cost_usd, tally.unpriced)
    paid = money(record.spent_usd, record.unpriced)
    lines = {
        "outcomes": _counts("", tally.outcomes),
        "verdicts": f"{tally.verdicts} of {record.total}, {tally.reused} from answers that the ledger had",
        "skipped cases": str(record.skipped) if record.skipped else "",
        "cost": f"{paid} spent by this run, answers worth {cost}",
        "tokens": ", ".join(f"{count:,} {name.removesuffix('_tokens')}" for name, count in tally.usage.items()),
        "judge": _counts("", tally.judges),
        "model": _counts("", tally.models),
        "flags": _counts("", tally.flags),
        "tags": ", ".join(record.tags),
    }
    for title, line in lines.items():
        if line:
            say(printable(f"{title}: {line}"))


def _counts(title: str, counts: Mapping[str, int]) -> str:
    listed = ", ".join(f"{count} {name}" for name, count in sorted(counts.items(), key=lambda pair: -pair[1]))
    return f"{title}: {listed}" if title else listed


def _means(split: Mapping[str, Tally], by: str) -> None:
    """A row for each value of the group and rubric, a column for each criterion."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    rubrics = {name for tally in split.values() for name in tally.rubrics}
    for name in sorted(rubrics):
        tallies = {value: tally.rubrics[name] for value, tally in split.items() if name in tally.rubrics}
        criteria = list(dict.fromkeys(key for tally in tallies.values() for key in tally.criteria))
        people = list(dict.fromkeys(key for tally in tallies.values() for key in tally.calibrated))
        titles = [by, "verdicts", "scored", "score", *criteria, *(f"{key}, calibrated" for key in people)]
        table = Table(*(escape(printable(title)) for title in titles), box=None, pad_edge=False, title=name)
        for value, tally in sorted(tallies.items()):
            means = [tally.score, *(tally.criteria.get(key) for key in criteria)]
            means += [tally.calibrated.get(key) for key in people]
            shown = ["–" if mean is None or mean.value is None else f"{mean.value:.3f}" for mean in means]
            counts = [str(sum(tally.outcomes.values())), str(tally.score.count)]
            table.add_row(*(Text(printable(cell)) for cell in (value, *counts, *shown)))
        Console(highlight=False).print(table)


def _case(book: Ledger, record: RunRecord, case_id: str, apply: Applying | None, *, full: bool, as_json: bool) -> None:
    verdicts, case = book.verdict(record.id, case_id), book.case(record.id, case_id)
    if apply is not None:
        verdicts = apply.to_case(verdicts)
    images = list(_images(case, verdicts))
    if as_json:
        found = {
            "run": record.id,
            "case": case.id,
            "fields": dict(case.fields),
            "groups": dict(case.groups),
            "images": [{"role": role, "source": source, "since": since} for role, source, since in images],
            "verdicts": [verdict.to_dict() for verdict in verdicts],
        }
        say(json.dumps(found))
        return
    from beholder.cli.output import show_card

    for verdict in verdicts:
        show_card(verdict, full=full)
    for name, group in case.groups.items():
        say(printable(f"{name}: {group}"))
    for role, source, since in images:
        say(printable(f"{role}: {source} ({since})"))


def _raw(answers: Mapping[str, Sequence[str]], *, as_json: bool) -> None:
    if as_json:
        say(json.dumps(answers))
        return
    for rubric, texts in answers.items():
        for text in texts:
            say(f"── {rubric}")
            say(text)


def _images(case: Case, verdicts: Sequence[Verdict]) -> Iterator[tuple[str, str, str]]:
    """Role, source, and what became of the file since it was judged."""
    digests: dict[str, set[str]] = {}
    for verdict in verdicts:
        for image in verdict.images:
            digests.setdefault(image.role, set()).add(image.source_digest)
    for role, source in case.images.items():
        yield role, str(source), _since(str(source), digests.get(role, set()))


def _since(source: str, digests: set[str]) -> str:
    from beholder.errors import ImageError
    from beholder.images import digest, is_remote, read

    if source.startswith(("data:", "bytes:")):
        return "was handed over, not a file"
    if is_remote(source):
        return "on the web, not looked at again"
    if not digests:
        return "was not judged"
    try:
        return "unchanged" if digest(read(source)) in digests else "has changed since"
    except ImageError as error:
        return f"cannot be compared: {error}"
