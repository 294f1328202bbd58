"""Tables of `beholder agree`, and its result for a notebook: a judge and people, and people among themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from markupsafe import Markup

from beholder.cases.case import format_case_count
from beholder.reports.charts import html_result, html_sentences, html_table, interval_chart
from beholder.reports.text import format_interval, format_number
from beholder.statistics.agreement import CriterionAgreement, JudgeAgreement
from beholder.statistics.bootstrap import Interval
from beholder.statistics.sentences import describe_criterion, describe_overall, describe_straightlining

_OTHER_METRICS = ("exact", "within_one", "tau_b", "tau_c", "pearson")

TableSpec = tuple[str, Sequence[str], list[Sequence[str]]]
"""Title, headers and rows of a table."""


def agreement_tables(agreement: JudgeAgreement, *, full: bool) -> Iterable[TableSpec]:
    """Yield narrow tables that fit a terminal with their intervals; with `full` also every coefficient and rater."""
    people = any(criterion.people for criterion in agreement.criteria)
    if any(not criterion.is_decision for criterion in agreement.criteria):
        yield from _scored_tables(agreement, people=people)
    if any(criterion.is_decision for criterion in agreement.criteria):
        yield _decided_tables(agreement)
    if people:
        yield _people_tables(agreement)
    if any(criterion.baselines for criterion in agreement.criteria):
        yield _metric_rows(agreement)
    if full:
        yield from _full_tables(agreement)


def agreement_conclusions(agreement: JudgeAgreement) -> list[str]:
    """Return the result in sentences: one for each criterion, and on all of them together."""
    other_judge = agreement.reference != "people"
    sentences = [
        f"{_name_with_cases(one, agreement.cases)}: {' '.join(describe_criterion(one, other_judge))}"
        for one in agreement.criteria
    ]
    return [*sentences, *filter(None, (describe_overall(agreement), describe_straightlining(agreement.criteria)))]


def _name_with_cases(criterion: CriterionAgreement, cases: int) -> str:
    """Return the aspect, with the number of its cases where it lacks some: a judge may abstain on a criterion."""
    some = criterion.cases < cases
    return f"{criterion.aspect} ({criterion.cases:,} of {format_case_count(cases)})" if some else criterion.aspect


def agreement_html(agreements: Iterable[JudgeAgreement]) -> Markup:
    """Return agreements for a notebook: of each judge a chart of its main coefficients, its tables, and sentences."""
    return Markup("").join(_judge_html(agreement) for agreement in agreements)


def _judge_html(agreement: JudgeAgreement) -> Markup:
    charts = []
    for criterion in agreement.criteria:
        name, key = ("Cohen's κ", "kappa") if criterion.is_decision else ("Spearman ρ", "spearman")
        coefficient = criterion.coefficients[key]
        chart = interval_chart(coefficient, (-1.0, 1.0), middle=0.0)
        charts.append((criterion.aspect, name, _format_estimate(coefficient), chart))
    parts = [html_table(("criterion", "", "judge", "−1 to 1"), charts)]
    for title, headers, rows in agreement_tables(agreement, full=False):
        parts += [html_sentences([title]), html_table(headers, rows)]
    sentences = [*agreement_conclusions(agreement), *agreement.notes, agreement.intervals]
    title = f"{agreement.judge} against {agreement.reference}, {format_case_count(agreement.cases)}"
    return html_result(title, [*parts, html_sentences(sentences)])


def _ranking_table(agreement: JudgeAgreement, whose: str, *, people: bool) -> TableSpec:
    def cells(criterion: CriterionAgreement) -> tuple[str, ...]:
        judge_cells = (f"{criterion.cases:,}", _format_estimate(criterion.coefficients["spearman"]))
        if not people:
            return judge_cells
        rater = (
            _format_plain(criterion.people.get("rater_spearman")),
            _format_estimate(criterion.people.get("rater_difference")),
        )
        return (*judge_cells, *rater)

    return (
        f"Ranking: does the judge put cases in the order of {whose} (1 the same, 0 as by chance)?",
        ("criterion", "cases", "Spearman ρ", *(("one rater", "judge less rater") if people else ())),
        _rows(agreement, cells, decides=False),
    )


def _scored_tables(agreement: JudgeAgreement, *, people: bool) -> Iterable[TableSpec]:
    whose = "people's mean ratings" if agreement.against == "mean" else "people's single ratings"
    single = "a single rating"
    if agreement.reference != "people":
        whose, single = "the other judge's scores", "the other judge"
    yield _ranking_table(agreement, whose, people=people)
    yield (
        f"Distance: how far are its numbers from {whose}, and how far is always saying the same?",
        ("criterion", "MAE", "constant", "difference", "bias"),
        [
            *_rows(
                agreement,
                lambda one: (
                    _format_estimate(one.coefficients["mae"]),
                    _format_plain(one.constant.mae),
                    _format_estimate(one.constant.difference),
                    _format_plain(one.coefficients["bias"]),
                ),
                decides=False,
            ),
            *_overall_row(agreement),
        ],
    )
    yield (
        f"Same answer as {single} beyond chance (κ), exactly, at most one step away; other coefficients",
        ("criterion", "quadratic κ", "exact", "±1", "τb", "τc", "Pearson"),
        _rows(
            agreement,
            lambda one: (
                _format_estimate(one.coefficients["quadratic_kappa"]),
                *(_format_plain(one.coefficients[name]) for name in _OTHER_METRICS),
            ),
            decides=False,
        ),
    )


def _decided_tables(agreement: JudgeAgreement) -> TableSpec:
    majority = "each rating"
    if agreement.reference != "people":
        majority = "the other judge"
    elif agreement.against == "mean":
        majority = "the majority of people (a tie is a failure)"
    return (
        f"Yes or no, against {majority}: agreement beyond chance (κ); failures that are right (precision), and "
        "found (recall)",
        ("criterion", "cases", "Cohen's κ", "precision", "recall", "same"),
        _rows(
            agreement,
            lambda one: (
                f"{one.cases:,}",
                *(_format_estimate(one.coefficients[name]) for name in ("kappa", "precision", "recall")),
                _format_plain(one.coefficients["exact"]),
            ),
            decides=True,
        ),
    )


def _people_tables(agreement: JudgeAgreement) -> TableSpec:
    return (
        "People among themselves: 1 if they always agree, 0 if as by chance",
        ("criterion", "raters", "α ordinal", "α interval", "ICC(1,1)", "ICC(1,k)"),
        _rows(
            agreement,
            lambda one: (
                str(one.raters),
                _format_estimate(one.people.get("alpha_ordinal")),
                *(_format_plain(one.people.get(name)) for name in ("alpha_interval", "icc_1", "icc_k")),
            ),
        ),
    )


def _metric_rows(agreement: JudgeAgreement) -> TableSpec:
    return (
        "Other metrics: their ranking, and the judge's ρ less theirs (without its sign) on the same cases",
        ("criterion", "metric", "cases", "Spearman ρ", "judge less metric"),
        [
            (
                criterion.aspect,
                metric.name,
                f"{metric.cases:,}",
                _format_estimate(metric.spearman),
                _format_estimate(metric.difference),
            )
            for criterion in agreement.criteria
            for metric in criterion.baselines
        ],
    )


def _rows(
    agreement: JudgeAgreement, cells: Callable[[CriterionAgreement], Sequence[str]], *, decides: bool | None = None
) -> list[Sequence[str]]:
    return [
        (criterion.aspect, *cells(criterion))
        for criterion in agreement.criteria
        if decides is None or criterion.is_decision is decides
    ]


def _format_estimate(estimate: Interval | None) -> str:
    return "–" if estimate is None else format_interval(estimate, 2)


def _format_plain(estimate: Interval | None) -> str:
    return "–" if estimate is None else format_number(estimate.value, 2)


def _overall_row(agreement: JudgeAgreement) -> list[Sequence[str]]:
    if not agreement.overall:
        return []
    judge, constant, difference = (agreement.overall[name] for name in ("mae", "constant", "difference"))
    return [("mean of them", _format_estimate(judge), _format_plain(constant), _format_estimate(difference), "")]


def _full_tables(agreement: JudgeAgreement) -> Iterable[TableSpec]:
    yield (
        "Every coefficient",
        ("criterion", "coefficient", "value"),
        [
            (criterion.aspect, name, format_interval(estimate) + (f": {estimate.why}" if estimate.why else ""))
            for criterion in agreement.criteria
            for name, estimate in (
                *criterion.coefficients.items(),
                *criterion.people.items(),
                ("constant", criterion.constant.mae),
            )
        ],
    )
    everybody = [(criterion, rater) for criterion in agreement.criteria for rater in criterion.each_rater]
    if everybody:
        yield (
            "Every rater: mean and spread of the ratings, how far above the others, and the value given most",
            ("criterion", "rater", "rated", "mean", "sd", "bias", "most given"),
            [
                (
                    criterion.aspect,
                    rater.rater,
                    str(rater.rated),
                    format_number(rater.mean, 2),
                    format_number(rater.deviation, 2),
                    format_number(rater.bias, 2),
                    f"{rater.most_frequent:g} in {rater.most_frequent_share:.0%}"
                    + (" (straight line)" if rater.is_straightlining else ""),
                )
                for criterion, rater in everybody
            ],
        )
