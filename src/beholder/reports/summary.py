"""The summary of a run for its report and its page in the web app.

`summarize_run` turns the data of one pass over the verdicts (`run_data`) into what the templates show before the
cases: facts, histograms and means with bootstrap intervals, splits by group, outcomes, grades, failing assertions,
findings, flags and corrections.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeVar

import numpy as np

from beholder.ledger.encoding import FACET_STYLE
from beholder.ledger.query import Tally
from beholder.ledger.types import FINISHED, RunRecord
from beholder.reports.run_data import AUDIT_FLAGS, AnswerCounts, AskedAssertion, ExampleVerdict, FindingCount, RunData
from beholder.reports.text import (
    column_title,
    criterion_titles,
    describe_preferences,
    escape_hidden,
    format_done,
    humanize,
    humanize_state,
    run_state,
)
from beholder.statistics.bootstrap import ClusterBootstrap, Interval, estimate_means, sum_by_group
from beholder.statistics.data import SOURCE_GROUP, Column, ColumnKind, Floats, Scores, select_group
from beholder.verdicts.verdict import format_count

BINS = 10  # on a scale whose numbers are not whole
MAX_INTEGER_BINS = 11  # a scale with more whole numbers is divided into `BINS`
MAX_GROUP_VALUES = 24  # groups with more values are not split by


@dataclass(frozen=True, slots=True)
class HistogramBin:
    label: str
    count: int


@dataclass(frozen=True, slots=True)
class ScoreHistogram:
    """The distribution of one column over its scale, and its mean."""

    key: str
    title: str
    scale: tuple[float, float]
    bins: tuple[HistogramBin, ...]
    count: int
    mean: Interval

    @property
    def whole(self) -> bool:
        """Whether each bin is a single whole number."""
        return len(self.bins) > 1 and " to " not in self.bins[0].label

    @property
    def places(self) -> int:
        """Decimals that the mean is shown with."""
        return 3 if self.scale[1] - self.scale[0] <= 1 else 2


@dataclass(frozen=True, slots=True)
class GroupSplitRow:
    """The cases with one value of a group: their number, how many have a score, and means by column."""

    value: str
    cases: int
    scored: int
    means: Mapping[str, Interval]


@dataclass(frozen=True, slots=True)
class GroupSplit:
    """A run split by the values of one group, the best value first."""

    group: str
    columns: tuple[ScoreHistogram, ...]
    rows: tuple[GroupSplitRow, ...]


@dataclass(frozen=True, slots=True)
class RunFigures:
    """The numbers of a run.

    Attributes:
        overall: Scores of the rubrics, 0 to 1.
        criteria: Scores of the criteria, on their own scales.
        passed: Share that passed, by column.
        splits: The same means by group.
        method: How intervals were computed.
        unsplit: Groups with too many values to split by.
    """

    overall: tuple[ScoreHistogram, ...]
    criteria: tuple[ScoreHistogram, ...]
    passed: Mapping[str, Interval]
    splits: tuple[GroupSplit, ...]
    method: str
    unsplit: tuple[str, ...] = ()


def compute_figures(gathered: RunData, group: str | None = None) -> RunFigures:
    """Compute histograms and means with intervals, all on the same bootstrap samples.

    Args:
        gathered: Data of the run.
        group: Name of the group of cases that belong together (clusters of the bootstrap); else `source`, if the
            cases have it.

    Raises:
        UsageError: No case has the group.
    """
    scores = gathered.scores
    together = select_group(scores, group)
    bootstrap = ClusterBootstrap(together, len(scores))
    titles = criterion_titles(gathered.record.rubrics)
    plain_columns = [
        column
        for kind in (ColumnKind.OVERALL, ColumnKind.CRITERION)
        for column in scores.columns.values()
        if column.kind is kind
    ]
    names, unsplit = _split_groups(scores, group or SOURCE_GROUP)
    wanted: dict[str, Floats] = {
        f"{column.kind}/{column.name}": column.values
        for column in scores.columns.values()
        if column.kind in (ColumnKind.OVERALL, ColumnKind.CRITERION, ColumnKind.PASSED)
    }
    for name in names:
        members = np.asarray(scores.groups[name])
        for value in _group_values(scores, name):
            for column in plain_columns:
                wanted[_group_cell(name, value, column)] = np.where(members == value, column.values, np.nan)
    means = mean_estimates_of(bootstrap, wanted)
    spreads = {
        column.name: _histogram(column, means[f"{column.kind}/{column.name}"], titles) for column in plain_columns
    }
    overall = tuple(spreads[column.name] for column in plain_columns if column.kind is ColumnKind.OVERALL)
    criteria = tuple(spreads[column.name] for column in plain_columns if column.kind is ColumnKind.CRITERION)
    return RunFigures(
        overall,
        criteria,
        {
            column.name: means[f"passed/{column.name}"]
            for column in scores.columns.values()
            if column.kind is ColumnKind.PASSED
        },
        tuple(_split_group(scores, name, plain_columns, spreads, means) for name in names) if plain_columns else (),
        bootstrap.describe() if scores.cases else "",
        unsplit,
    )


def mean_estimates_of(bootstrap: ClusterBootstrap, columns: Mapping[str, Floats]) -> dict[str, Interval]:
    """Return the mean of each column with its interval, ignoring nan, all on the same bootstrap samples."""
    if not columns or not bootstrap.size:
        return {}
    return dict(zip(columns, estimate_means(bootstrap, sum_by_group(bootstrap, list(columns.values()))), strict=True))


def _histogram(column: Column, mean: Interval, titles: Mapping[str, str]) -> ScoreHistogram:
    values = column.values[~np.isnan(column.values)]
    low, high = column.scale or ((float(values.min()), float(values.max())) if len(values) else (0.0, 1.0))
    title = column_title(column.name, titles)
    return ScoreHistogram(column.name, title, (low, high), _histogram_bins(values, low, high), len(values), mean)


def _histogram_bins(values: Floats, low: float, high: float) -> tuple[HistogramBin, ...]:
    steps = high - low
    if steps == int(steps) and 1 < steps < MAX_INTEGER_BINS and not (values % 1).any():
        counts = np.bincount((values - low).astype(np.int64), minlength=int(steps) + 1)
        return tuple(HistogramBin(f"{low + at:g}", int(count)) for at, count in enumerate(counts))
    width = (high - low) / BINS or 1.0
    places = np.clip(((values - low) / width + 1e-9).astype(np.int64), 0, BINS - 1)
    counts = np.bincount(places, minlength=BINS)
    return tuple(
        HistogramBin(f"{low + at * width:.3g} to {low + (at + 1) * width:.3g}", int(count))
        for at, count in enumerate(counts)
    )


def _split_groups(scores: Scores, together: str) -> tuple[list[str], tuple[str, ...]]:
    """Return the groups to split by (style and model first), and those with too many values."""
    names = [name for name in scores.groups if name != together]
    names.sort(key=lambda name: {FACET_STYLE: 0, "model": 1}.get(name, 2))
    sizes = {name: len(_group_values(scores, name)) for name in names}
    few = min(MAX_GROUP_VALUES, max(2, len(scores) // 2))  # else nearly every case would have a row of its own
    most = {name: MAX_GROUP_VALUES if name in (FACET_STYLE, "model") else few for name in names}
    fitting = [name for name in names if 2 <= sizes[name] <= most[name]]
    return fitting, tuple(name for name in names if sizes[name] > most[name])


def _group_values(scores: Scores, name: str) -> list[str]:
    return [value for value in dict.fromkeys(scores.groups[name]) if value]


def _group_cell(name: str, value: str, column: Column) -> str:
    return f"{name}\0{value}\0{column.name}"


def _split_group(
    scores: Scores,
    name: str,
    columns: Sequence[Column],
    spreads: Mapping[str, ScoreHistogram],
    means: Mapping[str, Interval],
) -> GroupSplit:
    members = np.asarray(scores.groups[name])
    overall = [column for column in columns if column.kind is ColumnKind.OVERALL] or list(columns[:1])
    rows = []
    for value in _group_values(scores, name):
        here = members == value
        scored = sum(
            1 for one in zip(*(column.values[here] for column in overall), strict=True) if not np.isnan(one).all()
        )
        estimates = {column.name: means[_group_cell(name, value, column)] for column in columns}
        rows.append(GroupSplitRow(value, int(here.sum()), scored, estimates))
    by = overall[0].name

    def best_first(row: GroupSplitRow) -> tuple[bool, float, str]:
        mean = row.means[by].value
        return mean is None, -(mean or 0.0), row.value

    return GroupSplit(name, tuple(spreads[column.name] for column in columns), tuple(sorted(rows, key=best_first)))


MAX_LISTED = 12  # assertions, findings, corrections
SCORED = "scored"

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class ReportSummary:
    """What a report shows before the cases.

    Attributes:
        facts: Names with their values: who judged what, when, for how much.
        outcomes: State, number of verdicts, examples.
        failed: By the column of who passed, its rubric and the number of verdicts that did not pass.
        failing: The assertions that fail most.
        findings: By kind, the number of all and the most common ones.
        flags: Flag, whether the audit raised it, its count.
        corrections: The most common corrections by code; `corrected` is the number of all.
        answers: For each criterion with assertions, or not always measured: its title, its rubric if there are several,
            and its counts.
    """

    verdicts: int
    cases: int
    facts: list[tuple[str, list[str]]]
    figures: RunFigures
    outcomes: list[tuple[str, int, list[ExampleVerdict]]]
    grades: dict[str, list[HistogramBin]]
    failed: dict[str, tuple[str, int]]
    failing: list[tuple[AskedAssertion, FindingCount]]
    findings: dict[str, tuple[int, list[tuple[str, FindingCount]]]]
    flags: list[tuple[str, bool, FindingCount]]
    corrections: list[tuple[tuple[str, str, str, str], FindingCount]]
    corrected: int
    answers: list[tuple[str, str, AnswerCounts]]


def summarize_run(gathered: RunData, group: str | None = None) -> ReportSummary:
    """Summarize a run; `group` and errors as in `compute_figures`."""
    return ReportSummary(
        gathered.tally.verdicts,
        gathered.cases,
        run_facts(gathered),
        compute_figures(gathered, group),
        count_outcomes(gathered),
        count_grades(gathered),
        count_failed(gathered),
        top_failing_assertions(gathered),
        count_findings(gathered),
        count_flags(gathered),
        most_common(gathered.corrections),
        sum(correction.count for correction in gathered.corrections.values()),
        count_answers(gathered),
    )


def count_answers(gathered: RunData) -> list[tuple[str, str, AnswerCounts]]:
    """Return how the assertions of each criterion were answered; see `ReportSummary`."""
    titles, several = criterion_titles(gathered.record.rubrics), len(gathered.tally.rubrics) > 1
    return [
        (titles.get(key) or humanize(escape_hidden(key)), escape_hidden(rubric) if several else "", counts)
        for (rubric, key), counts in gathered.answers.items()
        if counts.yes or counts.no or counts.not_measured
    ]


def run_facts(gathered: RunData) -> list[tuple[str, list[str]]]:
    """Return who judged what, when, for how much; without verdicts yet, what the record of the run says."""
    record, tally = gathered.record, gathered.tally
    made, changed = (f"{moment:%Y-%m-%d %H:%M} UTC" for moment in (record.created, record.updated))
    rubrics = [f"{escape_hidden(name)} {escape_hidden(version)}" for name, version in gathered.versions.items()]
    facts = [
        ("Judged by", [escape_hidden(name) for name in [*tally.judges] or run_judges(record)] or ["nobody yet"]),
        ("Model, as returned", [escape_hidden(name) for name in sorted(tally.models)]),
        ("When", [made if made == changed else f"{made} to {changed}"]),
        (
            "Rubric",
            rubrics
            or [
                escape_hidden(f"{_rubric_line(rubric)} {rubric.get('version', '')}".strip())
                for rubric in record.rubrics
            ],
        ),
        (
            "Preferences",
            [
                describe_preferences(counts)
                for rubric in tally.rubrics.values()
                if (counts := rubric.count_preferences())
            ],
        ),
        ("Prompt digest", [digest[:12] for digest in prompt_digests(record).values()]),
        ("Cost", [_cost_lines(record.spent_usd, record.unpriced, tally.reused)]),
        ("Tokens", _token_lines(tally.usage)),
        ("State", [_state_line(record, tally)]),
        ("Tags", [escape_hidden(tag) for tag in record.tags]),
    ]
    return [(name, kept) for name, values in facts if (kept := [value for value in values if value])]


def _state_line(record: RunRecord, tally: Tally) -> str:
    """Return the state of a run that is not finished; of one over its budget with the number of cases not asked."""
    state = run_state(record, tally.not_asked)
    if state == FINISHED:
        return ""
    done = f": {format_done(tally.verdicts, record.total, tally.not_asked)}" if tally.not_asked else ""
    return humanize_state(state) + done


def run_judges(record: RunRecord) -> list[str]:
    """Return the judges that the suite of a run names."""
    judges = record.suite.get("judges")
    names = (
        [judge.get("judge") if isinstance(judge, dict) else judge for judge in judges]
        if isinstance(judges, list)
        else []
    )
    return [str(name) for name in names if name]


def prompt_digests(record: RunRecord) -> dict[str, str]:
    """Return for each rubric the SHA-256 of rubric and prompt as JSON: what all cases were asked with."""
    return {
        escape_hidden(_rubric_line(rubric)): hashlib.sha256(
            json.dumps([rubric, record.prompt], sort_keys=True, default=str).encode("utf-8", "surrogatepass")
        ).hexdigest()
        for rubric in record.rubrics
    }


def run_provenance(gathered: RunData) -> list[tuple[str, str]]:
    """Return ids, digests and versions, for a reader who wants to reproduce the run."""
    record = gathered.record
    rows = [("Run", record.id), ("Fingerprint", record.fingerprint)]
    rows += [(f"Prompt digest, {name}", digest) for name, digest in prompt_digests(record).items()]
    rows += [(name.capitalize(), version) for name, version in record.versions.items()]
    return [(escape_hidden(name), escape_hidden(value)) for name, value in rows]


def _rubric_line(values: Mapping[str, object]) -> str:
    return str(values.get("rubric", ""))


def _cost_lines(spent: Decimal | None, unpriced: int, reused: int) -> str:
    parts = ["unknown" if spent is None else "nothing" if not spent and not unpriced else f"${spent:.4f}"]
    if spent is not None and unpriced:
        parts.append(f"and {unpriced:,} of unknown cost")
    if reused:
        parts.append(f"({format_count(reused, 'verdict')} from the ledger, asked of nobody)")
    return " ".join(parts)


def _token_lines(usage: Mapping[str, int]) -> list[str]:
    counts = [
        f"{usage[name]:,} {name.removesuffix('_tokens')}"
        for name in ("input_tokens", "output_tokens")
        if usage.get(name)
    ]
    return [" + ".join(counts)] if counts else []


def count_outcomes(gathered: RunData) -> list[tuple[str, int, list[ExampleVerdict]]]:
    """Return states with counts and examples: scored first, then those without a score by frequency."""
    counts = {SCORED: gathered.tally.score.count} | {state: lack.count for state, lack in gathered.lacks.items()}
    lacks = gathered.lacks
    return [
        (state, count, list(lacks[state].examples) if state in lacks else []) for state, count in count_states(counts)
    ]


def count_states(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return states with counts: scored first, then those without a score by frequency."""
    rest = sorted((-count, state) for state, count in counts.items() if state != SCORED and count)
    return [(SCORED, counts.get(SCORED, 0)), *((state, -count) for count, state in rest)]


def count_grades(gathered: RunData) -> dict[str, list[HistogramBin]]:
    """Return the number of each grade by rubric, in the order of `grade_names`."""
    counts = {}
    for rubric, tally in gathered.tally.rubrics.items():
        if tally.grades:
            rubrics = [stored for stored in gathered.record.rubrics if stored.get("rubric") == rubric]
            counts[rubric] = [
                HistogramBin(escape_hidden(name), tally.grades[name]) for name in grade_names(rubrics, tally.grades)
            ]
    return counts


def grade_names(rubrics: Sequence[Mapping[str, object]], given: Collection[str]) -> list[str]:
    """Return the grades that rubrics list, best first, then others that were given."""
    listed: list[str] = []
    for rubric in rubrics:
        scoring = rubric.get("scoring")
        grades = scoring.get("grades", ()) if isinstance(scoring, Mapping) else ()
        listed += [str(grade["grade"]) for grade in grades if isinstance(grade, Mapping) and "grade" in grade]
    return [*dict.fromkeys(listed), *sorted(set(given) - set(listed))]


def count_failed(gathered: RunData) -> dict[str, tuple[str, int]]:
    """Return by column of who passed its rubric and the number of verdicts that did not pass."""
    rubrics = gathered.tally.rubrics
    return {
        "passed" if len(rubrics) == 1 else f"{name}.passed": (name, tally.passed[False])
        for name, tally in rubrics.items()
    }


def top_failing_assertions(gathered: RunData) -> list[tuple[AskedAssertion, FindingCount]]:
    """Return the assertions that fail most: by the number of No answers, then by share."""
    failing = [item for item in gathered.assertions.items() if item[1].count]
    failing.sort(key=lambda item: (-item[1].count, -item[1].count / item[1].of, item[0]))
    return failing[:MAX_LISTED]


def count_findings(gathered: RunData) -> dict[str, tuple[int, list[tuple[str, FindingCount]]]]:
    """Return for each kind of finding the number of all and the most common ones."""
    return {
        key: (sum(item.count for item in items.values()), most_common(items))
        for key, items in gathered.findings.items()
        if items
    }


def most_common(items: Mapping[Key, FindingCount]) -> list[tuple[Key, FindingCount]]:
    """Return the most frequent items with their counts."""
    return sorted(items.items(), key=lambda item: (-item[1].count, str(item[0])))[:MAX_LISTED]


def count_flags(gathered: RunData) -> list[tuple[str, bool, FindingCount]]:
    """Return the flags: those of the audit first, then by frequency."""
    return sorted(
        ((name, name in AUDIT_FLAGS, flag) for name, flag in gathered.flags.items()),
        key=lambda item: (not item[1], -item[2].count, item[0]),
    )
