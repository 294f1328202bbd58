"""Statistics of runs in Python: `compare`, `history` and `agree`; and where scores and ratings are read from.

Everything is computed in the calling thread, from a ledger that is opened for reading, so that these functions may be
called from any thread and inside a running event loop. `calibrate` and `estimate` are in `api.calibration`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import structs

from beholder.api.arguments import check_number, check_whole, to_names, to_path
from beholder.api.run import Run
from beholder.cases.sources import CaseSource
from beholder.errors import LedgerError, UsageError
from beholder.ledger.ledger import Ledger, LedgerLike, open_ledger
from beholder.ledger.types import RunRecord
from beholder.reviews.ratings import read_review_ratings
from beholder.statistics import DEFAULT_DRAWS, DEFAULT_SEED
from beholder.statistics.agreement import AgreementOptions, JudgeAgreement, ratings_from_scores
from beholder.statistics.agreement import agree as agree_scores
from beholder.statistics.aspects import Scale, parse_scales
from beholder.statistics.bootstrap import CONFIDENCE_LEVEL, to_json_values
from beholder.statistics.comparison import DEFAULT_TOP_CASES, Comparison, ComparisonOptions, compare_runs
from beholder.statistics.comparison import compare as compare_scores
from beholder.statistics.data import (
    SOURCE_GROUP,
    Ratings,
    Scores,
    add_groups,
    load_run_scores,
    parse_choice,
    read_groups,
    read_ratings,
    read_scores,
)
from beholder.statistics.history import HistoryLine, RunUsage, analyze_history, measure_usage
from beholder.statistics.pairs import ComparedRun, describe_run_differences, load_compared_run
from beholder.statistics.raters import ReferenceMode

PathLike: TypeAlias = str | os.PathLike[str]
RunLike: TypeAlias = str | Run
"""A `Run`; or its name, its id, the start of it, `latest`, `previous`, `tag:TAG`, or `NAME~1`: see `Run.load`."""
Files: TypeAlias = PathLike | Sequence[PathLike]
Scales: TypeAlias = str | Scale | Sequence[str] | Mapping[str, str | Scale]
"""A scale for all aspects, `"1..7"` or `(1, 7)`; or scales by aspect: `{"realism": (0, 10)}`, `["realism=0..10"]`."""
Pairs: TypeAlias = Mapping[str, str] | Sequence[str]
"""What belongs together: `{"SC": "min(success,over_editing)"}`, or `["SC=min(success,over_editing)"]`."""

MIN_DRAWS, MAX_DRAWS = 100, 100_000


def compare(
    before: RunLike | None = None,
    after: RunLike | None = None,
    *,
    scores: Files = (),
    cases: PathLike | None = None,
    group: str | None = None,
    margin: float | Mapping[str, float] = 0.0,
    detect: float | None = None,
    top: int = DEFAULT_TOP_CASES,
    seed: int = DEFAULT_SEED,
    draws: int = DEFAULT_DRAWS,
    ledger: LedgerLike = None,
) -> Comparison:
    """Compare two runs case by case: what changed, how sure that is, and what they can detect.

        compare("main", "my-branch").gate(fail_on="regression").status

    Args:
        before: The old run: a `Run`, or its name, id, `latest`, `previous`, `NAME~1` or `tag:TAG`: see `Run.load`.
        after: The new run.
        scores: In place of runs and their ledger: files with the scores of two judges in all.
        cases: A case file, for the groups of cases in plain files.
        group: The group by which cases belong together; else `source`, if the cases have it.
        margin: How far a mean may fall, in its own unit; or margins by column, `""` for all others.
        detect: Also compute how many cases show a difference of this size.
        top: How many of the cases that changed most are listed.
        seed: Random seed.
        draws: Number of bootstrap samples.
        ledger: The ledger of runs that are given by name; else `BEHOLDER_LEDGER`, else `beholder.db`.

    Raises:
        UsageError: There is no such run, or the two have no case in common.
        LedgerError: The ledger cannot be read. It is never created.
    """
    margins = dict(margin) if isinstance(margin, Mapping) else {"": margin}
    for name, value in margins.items():
        check_number(f"margin[{name!r}]" if name else "margin", value)
    check_number("detect", detect, above=0, optional=True)
    check_whole("top", top, least=0)
    check_sampling(seed, draws)
    options = ComparisonOptions(group, margins.pop("", 0.0), margins, detect, top, draws, seed)
    files = to_paths(scores)
    if files:
        if after is not None:
            raise UsageError("Files of scores are compared in place of runs; leave out the second run.")
        if ledger is not None:
            raise UsageError("Files of scores are compared in place of runs; leave out the ledger.")
        found = load_scores(before, files, cases)
        if len(found) != 2:
            names = ", ".join(judge.name for judge in found)
            raise UsageError(f"Two are compared, and the files hold the scores of {len(found)}: {names}.")
        compared = compare_scores(found[0], found[1], options)
        return structs.replace(compared, same_run=len(files) == 2 and files[0].resolve() == files[1].resolve())
    if before is None or after is None:
        raise UsageError("Name two runs, the old one first, or two files of scores (--scores or scores=).")
    old, new = _load_compared(before, ledger), _load_compared(after, ledger)
    if cases is not None:
        groups = read_groups(to_path("cases", cases))
        old, new = (replace(run, scores=add_groups(run.scores, groups)) for run in (old, new))
    return compare_runs(old, new, options)


def _load_compared(run: RunLike, ledger: LedgerLike) -> ComparedRun:
    with open_run(run, ledger) as (opened, name):
        return load_compared_run(opened, name)


@dataclass(frozen=True, slots=True)
class History:
    """A suite over its runs: the result of `history`.

    Attributes:
        runs: The runs, the oldest first.
        lines: One line for each column that was followed, with a point for each run.
        warnings: What makes runs hard to compare, in sentences.
        interval_note: A sentence on how intervals were computed.
        usage: What each run took: cost, latency, and the share of verdicts without a score.
    """

    runs: tuple[RunRecord, ...]
    lines: tuple[HistoryLine, ...]
    warnings: tuple[str, ...]
    interval_note: str
    usage: tuple[RunUsage, ...]

    def to_dict(self) -> dict[str, object]:
        """Return what `beholder history --json` prints."""
        return {
            "runs": [
                {
                    "run": run.id,
                    "name": run.name,
                    "created": run.created.isoformat(),
                    "spent_usd": None if run.spent_usd is None else float(run.spent_usd),
                    **to_json_values(usage),
                }
                for run, usage in zip(self.runs, self.usage, strict=True)
            ],
            "lines": [to_json_values(line) for line in self.lines],
            "warnings": list(self.warnings),
        }

    def __repr__(self) -> str:
        values = {line.name: [point.mean.value for point in line.points] for line in self.lines}
        means = [
            f"{name} {' '.join('–' if mean is None else f'{mean:.3f}' for mean in found)}"
            for name, found in values.items()
        ]
        return f"<History of {len(self.runs)} runs: {', '.join(means)}>"

    def _repr_html_(self) -> str:
        from beholder.reports.charts import html_interval, html_result, html_sentences, html_table

        rows = [
            (line.name, point.run, html_interval(point.mean), f"{point.cases:,}", html_interval(point.change))
            for line in self.lines
            for point in line.points
        ]
        table = html_table(("column", "run", "mean", "cases", "change"), rows)
        slopes = [f"{line.name}, change per run: {html_interval(line.slope)}" for line in self.lines]
        title = f"History of {len(self.runs)} runs"
        return html_result(title, [table, html_sentences([*slopes, *self.warnings, self.interval_note])])


def history(
    name: str | None = None,
    *,
    tag: str | None = None,
    on: str | Sequence[str] = (),
    last: int | None = None,
    group: str | None = None,
    seed: int = DEFAULT_SEED,
    draws: int = DEFAULT_DRAWS,
    ledger: LedgerLike = None,
) -> History:
    """Follow a suite over its runs: the mean of each, what changed from one to the next, and the trend.

    Args:
        name: Name of the runs; else that of the latest.
        tag: Only runs with this tag; without a name, all of them.
        on: Columns to follow; else every overall score.
        last: Only so many runs, the newest.
        group: The group by which cases belong together; else `source`, if the cases have it.
        seed: Random seed.
        draws: Number of bootstrap samples.
        ledger: The ledger; else `BEHOLDER_LEDGER`, else `beholder.db`.

    Raises:
        UsageError: There is no such run or column.
        LedgerError: The ledger cannot be read. It is never created.
    """
    check_whole("last", last, least=1, optional=True)
    check_sampling(seed, draws)
    columns = to_names("on", on)
    with open_ledger(ledger) as opened:
        records = select_runs(opened, name, tag)[-(last or 0) :]
        runs = [load_compared_run(opened, record.id) for record in records]
    lines = analyze_history([run.scores for run in runs], columns, group=group, draw_count=draws, seed=seed)
    warnings = [
        f"{old.record.id} to {new.record.id}: {sentence}"
        for old, new in pairwise(runs)
        for sentence in describe_run_differences(old, new)
    ]
    kept = group or SOURCE_GROUP
    grouped = any(kept in run.scores.groups for run in runs)
    together = f"cases of one {kept} together" if grouped else "each case independent of the others"
    note = f"Intervals are {CONFIDENCE_LEVEL:.0%} bootstrap, {draws:,} draws (seed {seed}), {together}."
    usage = [measure_usage(run, group=group, draw_count=draws, seed=seed) for run in runs]
    return History(tuple(records), tuple(lines), tuple(warnings), note, tuple(usage))


def select_runs(ledger: Ledger, suite: str | None, tag: str | None) -> list[RunRecord]:
    """Return the runs of a suite or with a tag, the oldest first; no reviews, whose scores are those of people."""
    records = [record for record in ledger.runs(tag=tag) if not record.is_review]
    if suite is None and tag is None and records:
        suite = records[0].name
    selected = [record for record in records if suite is None or suite in (record.name, record.suite.get("name"))]
    if not selected:
        names = ", ".join(sorted({run.name for run in ledger.runs() if not run.is_review})[:10]) or "none"
        wanted = " and ".join(f"{what} {name!r}" for what, name in (("the name", suite), ("the tag", tag)) if name)
        raise UsageError(f"No run has {wanted or 'a name'}; the names are: {names}.")
    return selected[::-1]


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far judges agree with people, or with another judge: the result of `agree`.

    Attributes:
        judges: One agreement for each judge; a run has one, files may hold the scores of several.
    """

    judges: tuple[JudgeAgreement, ...]

    def to_dict(self) -> dict[str, object]:
        """Return what `beholder agree --json` prints."""
        return {"agreements": [judge.to_dict() for judge in self.judges]}

    def __repr__(self) -> str:
        return f"<Agreement of {'; '.join(map(_summarize_agreement, self.judges))}>"

    def _repr_html_(self) -> str:
        from beholder.reports.agreement import agreement_html

        return agreement_html(self.judges)


def _summarize_agreement(agreement: JudgeAgreement) -> str:
    values = []
    for criterion in agreement.criteria:
        name, key = ("κ", "kappa") if criterion.is_decision else ("ρ", "spearman")
        value = criterion.coefficients[key].value
        values.append(f"{criterion.aspect} {name} {'not defined' if value is None else f'{value:.2f}'}")
    return f"{agreement.judge} with {agreement.reference}: {', '.join(values)}"


def agree(
    run: RunLike | None = None,
    *,
    ratings: CaseSource | None = None,
    with_: RunLike | PathLike | None = None,
    scores: Files = (),
    cases: PathLike | None = None,
    group: str | None = None,
    only: Pairs = (),
    map_: Pairs = (),
    against: str = ReferenceMode.MEAN,
    scale: Scales = (),
    rating_scale: Scales = (),
    baseline: Files = (),
    assertions: bool = False,
    seed: int = DEFAULT_SEED,
    draws: int = DEFAULT_DRAWS,
    ledger: LedgerLike = None,
) -> Agreement:
    """Say how far a judge agrees with people, beside how far people agree with each other and what a constant does.

    Args:
        run: The run whose judge is compared: a `Run`, or its name, id, or the start of it; else the latest.
        ratings: Human ratings with case, rater, aspect and score: a file, a frame or an iterable of mappings; without
            it the run's reviews count.
        with_: Another run, or a file of scores: that judge in place of people.
        scores: In place of a run: files with case, judge, aspect and score, or verdicts as JSON lines.
        cases: A case file, for the groups of cases in plain files.
        group: The group by which cases belong together; else `source`, if the cases have it.
        only: Only cases of groups: `{"task": "text"}`.
        map_: The criterion for each aspect that people rated; else by name.
        against: Compare with the `mean` rating of a case, or with `each` rating.
        scale: The judge's scale, where it is not known.
        rating_scale: The people's scale.
        baseline: Files with the scores of other metrics to set beside the judge.
        assertions: Count reviews of assertions too, where the run's reviews are used.
        seed: Random seed.
        draws: Number of bootstrap samples.
        ledger: The ledger of runs that are given by name; else `BEHOLDER_LEDGER`, else `beholder.db`.

    Raises:
        UsageError: Nobody rated the run, names do not match, or no case has both a score and a rating.
        LedgerError: The ledger cannot be read. It is never created.
    """
    check_sampling(seed, draws)
    mode = parse_choice(ReferenceMode, against, "against")
    if ratings is not None and with_ is not None:
        raise UsageError("Give ratings (of people) or another judge (--with or with_=), not both.")
    if not to_paths(scores):
        _refuse_pairs(run, ratings, with_, ledger)
    judges = load_scores(run, scores, cases, ledger)
    other = None if with_ is None else _load_other_judge(with_, ledger)
    if other is not None and not isinstance(with_, Run) and any(judge.name == other.name for judge in judges):
        other = replace(other, name=f"{other.name} ({with_})")
    people: Mapping[str, Ratings] = {}
    if ratings is None and other is None:
        people = {} if to_paths(scores) else load_review_ratings(run, ledger, assertions=assertions)
        other = None if people else _pop_second_judge(judges)
    rubric = judges[0] if people else other  # whose known scales are also those of the reference
    if other is not None:
        people = ratings_from_scores(other)
    elif ratings is not None:
        people = read_ratings(ratings)
    judges, people = _filter_groups(judges, people, to_pairs(only))
    options = AgreementOptions(
        pairs=to_pairs(map_),
        against=mode,
        scales=_check_scales(to_scales(scale), people),
        rating_scales=_check_scales(to_scales(rating_scale), people) or _known_scales(rubric, people),
        group=group,
        baselines=_read_named_apart(to_paths(baseline)),
        draw_count=draws,
        seed=seed,
    )
    return Agreement(tuple(agree_scores(judge, people, options, other.name if other else "") for judge in judges))


def _refuse_pairs(
    run: RunLike | None, ratings: CaseSource | None, other: RunLike | PathLike | None, ledger: LedgerLike
) -> None:
    words = [] if other is None else [other.id if isinstance(other, Run) else str(other), "--runs"]
    refuse_pairs(run, ratings, ledger, "agree", words)


def refuse_pairs(
    run: RunLike | None,
    ratings: CaseSource | None,
    ledger: LedgerLike,
    command: Literal["agree", "estimate"],
    more: Sequence[str] = (),
) -> None:
    """Raise `UsageError` for a run of pairs, which has votes and no scores, with the command of `beholder arena` that
    serves votes."""
    with open_run(run, ledger) as (opened, name):
        record = opened.run(name)
    if not record.is_preference:
        return
    words = ["beholder arena", command, record.id, *more]
    if ratings is not None:
        words += ["--people", str(ratings) if isinstance(ratings, str | os.PathLike) else "VOTES.csv"]
    if isinstance(ledger, str | os.PathLike):
        words += ["--ledger", str(ledger)]
    raise UsageError(
        f"The run {record.id} ({record.name}) asks which of two is better: it has votes, and no scores. Run "
        f"`{' '.join(words)}`, or {command}_arena in Python."
    )


def _pop_second_judge(judges: list[Scores]) -> Scores:
    """Remove and return the second of two judges: without ratings the first is compared with it."""
    if len(judges) != 2:
        raise UsageError(
            "Say with what to compare: a file of ratings of people (--ratings or ratings=), or a run of another judge "
            "(--with or with_=). Nobody reviewed the run in `beholder view`."
        )
    return judges.pop()


def _known_scales(scores: Scores | None, people: Mapping[str, Ratings]) -> dict[str, Scale]:
    """Return the scales of the judge's columns that people rated."""
    columns = scores.columns.values() if scores is not None else ()
    return {column.name: column.scale for column in columns if column.scale is not None and column.name in people}


def _load_other_judge(named: RunLike | PathLike, ledger: LedgerLike) -> Scores:
    """Load the judge to compare with: a run of the ledger, or the one judge of a file."""
    if isinstance(named, Run) or not Path(named).is_file():
        return load_scores(named if isinstance(named, Run) else str(named), ledger=ledger)[0]
    judges = load_scores(scores=named)
    if len(judges) > 1:
        raise UsageError(
            f"{str(named)!r} holds {len(judges)} judges ({', '.join(judge.name for judge in judges)}), not one."
        )
    return judges[0]


def _filter_groups(
    judges: Sequence[Scores], people: Mapping[str, Ratings], wanted: Iterable[str]
) -> tuple[list[Scores], Mapping[str, Ratings]]:
    """Keep the cases of the wanted groups, in the scores and in the ratings."""
    kept = list(judges)
    for text in wanted:
        name, sign, value = text.partition("=")
        if not sign:
            raise UsageError(
                f"A group to keep (--only or only=) is written GROUP=VALUE, such as task=text, not {text!r}."
            )
        kept = [_in_group(judge, name, value) for judge in kept]
    gone = {case for judge in judges for case in judge.cases} - {case for judge in kept for case in judge.cases}
    if not gone:
        return kept, people
    filtered = {}
    for aspect, ratings in people.items():
        cases = tuple(case for case in ratings.cases if case not in gone)
        if cases:
            filtered[aspect] = Ratings(aspect, cases, ratings.raters, ratings.for_cases(cases).values)
    return kept, filtered


def _in_group(judge: Scores, name: str, value: str) -> Scores:
    if name not in judge.groups:
        known = ", ".join(judge.groups) or "none (a case file brings those of cases in plain files: --cases or cases=)"
        raise UsageError(
            f"No case of {judge.name} has a group {name!r}, of which some are to be kept; there are: {known}."
        )
    rows = [row for row, group in enumerate(judge.groups[name]) if group == value]
    if not rows:
        values = ", ".join(sorted(set(judge.groups[name]) - {""})[:10])
        raise UsageError(f"No case of {judge.name} has {name} {value!r}; there is: {values}.")
    return judge.select(rows)


def _check_scales(given: Mapping[str, Scale], people: Mapping[str, Ratings]) -> Mapping[str, Scale]:
    unknown = [aspect for aspect in given if aspect and aspect not in people]
    if unknown:
        raise UsageError(f"A scale is given for the aspect {unknown[0]!r}; there are {', '.join(people)}.")
    return given


@contextmanager
def open_run(run: RunLike | None, ledger: LedgerLike) -> Iterator[tuple[Ledger, str]]:
    """Open the ledger of a run for reading, and yield it with the run's id or name; without a run it is the latest.

    Where neither a run nor a ledger is named and there is none, the error mentions files of scores.
    """
    if isinstance(run, Run):
        with run.open() as opened:
            yield opened, run.id
        return
    with ExitStack() as stack:
        try:
            opened = stack.enter_context(open_ledger(ledger))
        except LedgerError as error:
            if run is not None or ledger is not None:
                raise
            raise UsageError(
                f"Name a run of a ledger, or give what a judge said in a file (--scores or scores=). {error}"
            ) from None
        yield opened, run or "latest"


def load_scores(
    run: RunLike | None = None,
    scores: Files = (),
    cases: PathLike | None = None,
    ledger: LedgerLike = None,
    *,
    valid_parts: bool = False,
) -> list[Scores]:
    """Load the scores of judges, a `Scores` for each.

    Args:
        run: A run of the ledger; the latest if neither a run nor files are named.
        scores: Files of scores, in place of a run.
        cases: A case file whose groups are added to those of the cases.
        ledger: Of the run.
        valid_parts: See `read_scores`.

    Raises:
        UsageError: Both a run and files are given.
    """
    files = to_paths(scores)
    if run is not None and files:
        named = run.name if isinstance(run, Run) else repr(run)
        raise UsageError(f"Give a run ({named}) or files of scores (--scores or scores=), not both.")
    if files:
        found = _read_named_apart(files, valid_parts)
    else:
        with open_run(run, ledger) as (opened, name):
            found = [load_run_scores(opened, name)]
    if cases is None:
        return found
    groups = read_groups(to_path("cases", cases))
    return [add_groups(judge, groups) for judge in found]


def _read_named_apart(files: Sequence[Path], valid_parts: bool = False) -> list[Scores]:
    """Read the scores of several files; judges of one name get that of their file, or its whole path, after it."""
    found = [(path, judge) for path in files for judge in read_scores(path, valid_parts=valid_parts)]
    counts = Counter(judge.name for _, judge in found)
    repeated = [(path, judge.name) for path, judge in found if counts[judge.name] > 1]
    whole_path = len({(path.name, name) for path, name in repeated}) < len(repeated)
    named: list[Scores] = []
    for path, judge in found:
        name = judge.name
        if counts[name] > 1:
            name = f"{name} ({path if whole_path else path.name})"
        if any(name == other.name for other in named):  # a file that was given twice
            name = f"{name}, given again"
        named.append(replace(judge, name=name))
    return named


def load_review_ratings(
    run: RunLike | None, ledger: LedgerLike = None, *, assertions: bool = True
) -> dict[str, Ratings]:
    """Return the ratings by aspect from reviews of a run (the latest if none is named); empty if there are none."""
    with open_run(run, ledger) as (opened, name):
        return read_review_ratings(opened, name, assertions=assertions)


def load_people_ratings(
    ratings: CaseSource | None, run: RunLike | None, scores: Files, ledger: LedgerLike, aspects: Sequence[str]
) -> Mapping[str, Ratings]:
    """Load human ratings by aspect.

    Args:
        ratings: A file or table of ratings; without it the reviews of the run count.
        run: The reviewed run.
        scores: Files of scores in place of a run, which have no reviews.
        ledger: Of the run.
        aspects: Aspects that must be rated. Ratings of assertions are read from reviews only if aspects are named,
            since an assertion may be among them.

    Raises:
        UsageError: There are no ratings, or none for one of `aspects`.
    """
    if ratings is not None:
        people = read_ratings(ratings)
    else:
        people = {} if to_paths(scores) else load_review_ratings(run, ledger, assertions=bool(aspects))
    if not people:
        raise UsageError(
            "Give human ratings: a file with case, rater, aspect, score (--ratings or ratings=); or let people review "
            "the run in `beholder view`."
        )
    for name in aspects:
        if name not in people:
            raise UsageError(f"Nobody rated the aspect {name!r}; rated are {', '.join(people)}.")
    return people


def to_paths(files: Files) -> list[Path]:
    """Return one file or several as paths."""
    if isinstance(files, str | os.PathLike) or not isinstance(files, Iterable):
        files = [files]
    return [to_path("scores", file) for file in files]


def to_pairs(pairs: Pairs) -> list[str]:
    """Return a mapping as the command line writes it: `NAME=VALUE`."""
    return (
        [f"{name}={value}" for name, value in pairs.items()] if isinstance(pairs, Mapping) else to_names("map_", pairs)
    )


def to_scales(scales: Scales) -> dict[str, Scale]:
    """Return scales by aspect, `""` for all.

    Raises:
        UsageError: One is no scale.
    """
    if isinstance(scales, Mapping):
        return {aspect: to_scales(scale)[""] for aspect, scale in scales.items()}
    if isinstance(scales, str):
        return parse_scales([scales])
    if not isinstance(scales, Sequence):
        raise UsageError(f"A scale is its low and its high end, such as (1, 7), not {scales!r}.")
    texts = [text for text in scales if isinstance(text, str)]
    ends = [float(end) for end in scales if isinstance(end, int | float)]
    if ends and (len(scales) != 2 or len(ends) != 2 or not ends[0] < ends[1]):
        raise UsageError(f"A scale is its low and its high end, such as (1, 7), not {scales!r}.")
    return {"": (ends[0], ends[1])} if ends else parse_scales(texts)


def check_sampling(seed: int, draws: int) -> None:
    """Raise `UsageError` where the random seed or the number of bootstrap samples is out of range."""
    check_whole("seed", seed, least=0)
    check_whole("draws", draws, least=MIN_DRAWS, most=MAX_DRAWS)
