"""How a judge agrees with people, as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from beholder.reports.numbers import shown, with_interval
from beholder.statistics.agreement.agreeing import Agreement, Criterion
from beholder.statistics.intervals import Estimate

_OTHERS = ("exact", "within_one", "tau_b", "tau_c", "pearson")

Tabled = tuple[str, Sequence[str], list[Sequence[str]]]
"""Title, headers and rows."""


def tables(found: Agreement, *, full: bool) -> Iterable[Tabled]:
    """Title, headers and rows. Narrow ones, so that intervals have room."""

    def interval(estimate: Estimate | None) -> str:
        return "–" if estimate is None else with_interval(estimate, 2)

    def plain(estimate: Estimate | None) -> str:
        return "–" if estimate is None else shown(estimate.value, 2)

    def rows(cells: Callable[[Criterion], Sequence[str]], *, decides: bool | None = None) -> list[Sequence[str]]:
        picked = [one for one in found.criteria if decides is None or one.decides is decides]
        return [(one.aspect, *cells(one)) for one in picked]

    people = any(one.people for one in found.criteria)
    unit = "people's mean ratings" if found.against == "mean" else "people's single ratings"
    whose, single, majority = unit, "a single rating", "each rating"
    if found.reference != "people":
        whose, single, majority = "the other judge's scores", "the other judge", "the other judge"
    elif found.against == "mean":
        majority = "the majority of people (a tie is a failure)"
    scored, decided = (any(one.decides is wanted for one in found.criteria) for wanted in (False, True))
    if scored:
        yield (
            f"Ranking: does the judge put cases in the order of {whose} (1 the same, 0 as by chance)?",
            ("criterion", "cases", "Spearman ρ", *(("one rater", "judge less rater") if people else ())),
            rows(
                lambda one: (
                    f"{one.cases:,}",
                    interval(one.coefficients["spearman"]),
                    *(
                        (plain(one.people.get("rater_spearman")), interval(one.people.get("rater_difference")))
                        if people
                        else ()
                    ),
                ),
                decides=False,
            ),
        )
        yield (
            f"Distance: how far are its numbers from {whose}, and how far is always saying the same?",
            ("criterion", "MAE", "constant", "difference", "bias"),
            [
                *rows(
                    lambda one: (
                        interval(one.coefficients["mae"]),
                        plain(one.constant.mae),
                        interval(one.constant.difference),
                        plain(one.coefficients["bias"]),
                    ),
                    decides=False,
                ),
                *_overall_row(found, interval, plain),
            ],
        )
        yield (
            f"Same answer as {single} beyond chance (κ), exactly, at most one step away; other coefficients",
            ("criterion", "quadratic κ", "exact", "±1", "τb", "τc", "Pearson"),
            rows(
                lambda one: (
                    interval(one.coefficients["quadratic_kappa"]),
                    *(plain(one.coefficients[name]) for name in _OTHERS),
                ),
                decides=False,
            ),
        )
    if decided:
        yield (
            f"Yes or no, against {majority}: agreement beyond chance (κ); failures that are right (precision), and "
            "found (recall)",
            ("criterion", "cases", "Cohen's κ", "precision", "recall", "same"),
            rows(
                lambda one: (
                    f"{one.cases:,}",
                    *(interval(one.coefficients[name]) for name in ("kappa", "precision", "recall")),
                    plain(one.coefficients["exact"]),
                ),
                decides=True,
            ),
        )
    if people:
        yield (
            "People among themselves: 1 if they always agree, 0 if as by chance",
            ("criterion", "raters", "α ordinal", "α interval", "ICC(1,1)", "ICC(1,k)"),
            rows(
                lambda one: (
                    str(one.raters),
                    interval(one.people.get("alpha_ordinal")),
                    *(plain(one.people.get(name)) for name in ("alpha_interval", "icc_1", "icc_k")),
                )
            ),
        )
    if any(one.beside for one in found.criteria):
        yield (
            "Other metrics: their ranking, and how much better the judge ranks the same cases",
            ("criterion", "metric", "cases", "Spearman ρ", "judge better by"),
            [
                (one.aspect, metric.name, f"{metric.cases:,}", interval(metric.spearman), interval(metric.difference))
                for one in found.criteria
                for metric in one.beside
            ],
        )
    if full:
        yield from _in_full(found)


def _overall_row(
    found: Agreement, interval: Callable[[Estimate | None], str], plain: Callable[[Estimate | None], str]
) -> list[Sequence[str]]:
    if not found.overall:
        return []
    judge, constant, difference = (found.overall[name] for name in ("mae", "constant", "difference"))
    return [("mean of them", interval(judge), plain(constant), interval(difference), "")]


def _in_full(found: Agreement) -> Iterable[Tabled]:
    yield (
        "Every coefficient",
        ("criterion", "coefficient", "value"),
        [
            (one.aspect, name, with_interval(estimate) + (f": {estimate.why}" if estimate.why else ""))
            for one in found.criteria
            for name, estimate in (*one.coefficients.items(), *one.people.items(), ("constant", one.constant.mae))
        ],
    )
    everybody = [(one, rater) for one in found.criteria for rater in one.each_rater]
    if everybody:
        yield (
            "Every rater: mean and spread of the ratings, how far above the others, and the value given most",
            ("criterion", "rater", "rated", "mean", "sd", "bias", "most given"),
            [
                (
                    one.aspect,
                    rater.rater,
                    str(rater.rated),
                    shown(rater.mean, 2),
                    shown(rater.deviation, 2),
                    shown(rater.bias, 2),
                    f"{rater.usual:g} in {rater.share:.0%}" + (" (straight line)" if rater.straight else ""),
                )
                for one, rater in everybody
            ],
        )
