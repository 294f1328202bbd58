"""Sentences that explain the agreement of a judge with people, and reasons for numbers that are not defined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from beholder.cases.case import format_case_count
from beholder.statistics.aspects import describe_matches
from beholder.statistics.bootstrap import Estimate, undefined_estimate
from beholder.statistics.coefficients import MAX_LEVELS, RANK_BINS
from beholder.statistics.data import Column, Ratings, Scores
from beholder.statistics.raters import MIN_SHARED_CASES, PEOPLE_COEFFICIENTS, STRAIGHTLINING_SHARE

if TYPE_CHECKING:
    from beholder.statistics.agreement import Agreement, CriterionAgreement

MAX_EXAMPLES = 3
RATER_RANK_COEFFICIENTS = ("judge_as_rater", "rater_spearman", "rater_difference")
LOW_ALPHA = 0.2  # Krippendorff's α: below, people barely agree


def describe_criterion(criterion: CriterionAgreement, other_judge: bool = False) -> Iterator[str]:
    """Yield sentences that explain the numbers of one criterion."""
    yield (
        _describe_decisions(criterion, other_judge)
        if criterion.is_decision
        else _describe_ranking(criterion, other_judge)
    )
    yield from _describe_rater_agreement(criterion)
    if not criterion.is_decision:
        yield from _describe_distance(criterion, _name_reference(other_judge))


def describe_overall(agreement: Agreement) -> str:
    """Return a sentence on all criteria together; empty where they cannot be averaged."""
    if not agreement.overall:
        return ""
    judge, constant, difference = (agreement.overall[name] for name in ("mae", "constant", "difference"))
    if judge.value is None or constant.value is None:
        return ""
    count = sum(criterion.kind == "criterion" for criterion in agreement.criteria)
    return (
        f"Over the {count} criteria together the judge is off by "
        f"{judge.value:.2f} and the constant by {constant.value:.2f}: "
        f"{_describe_difference(difference, _name_reference(agreement.reference != 'people'))}."
    )


def _name_reference(other_judge: bool) -> str:
    return "the other judge" if other_judge else "people"


def _describe_ranking(criterion: CriterionAgreement, other_judge: bool) -> str:
    judge, ceiling = criterion.coefficients["spearman"], criterion.people.get("rater_spearman")
    whom = _name_reference(other_judge)
    whose = "the other judge's" if other_judge else "people's"
    if judge.value is None:
        return f"Whether the judge ranks cases as {whom} would cannot be told: {judge.why}."
    rho = f"ρ {judge.value:.2f}"
    if judge.low is None or judge.high is None:
        why = f": {judge.why.removeprefix('no interval: ')}" if judge.why else ""
        return f"Whether the judge ranks cases better than chance cannot be told: {rho} has no interval{why}."
    if judge.high < 0:
        return f"The judge's ranking is the reverse of {whose}: what the one puts high the other puts low ({rho})."
    if judge.low <= 0:
        return f"Whether the judge ranks cases better than chance cannot be told from these ({rho})."
    if other_judge:
        return f"The judge's ranking goes with {whose}: {rho}."
    if ceiling is None or ceiling.value is None:
        why = f": {ceiling.why}" if ceiling is not None else ""
        return f"The judge's ranking goes with {whose} ({rho}); there is no ceiling to hold it against{why}."
    rhos = _format_rater_correlations(criterion)
    return f"The judge ranks cases {_compare_with_rater(criterion)}: in a rater's place it has ρ {rhos}."


def _compare_with_rater(criterion: CriterionAgreement) -> str:
    difference = criterion.people["rater_difference"]
    if difference.excludes_zero and difference.value is not None:
        return "better than a single person would" if difference.value > 0 else "less well than a single person would"
    return "as a single person would, as far as these cases tell"


def _format_rater_correlations(criterion: CriterionAgreement) -> str:
    judge, ceiling = (criterion.people[name].value for name in ("judge_as_rater", "rater_spearman"))
    known = (f"{value:.2f}" if value is not None else "not defined" for value in (judge, ceiling))
    return "{} where the rater has {}".format(*known)


def _describe_rater_agreement(criterion: CriterionAgreement) -> Iterator[str]:
    alpha = criterion.people.get("alpha_ordinal")
    if alpha is not None and alpha.value is not None and alpha.value < LOW_ALPHA:
        yield f"People barely agree among themselves (α {alpha.value:.2f})."


def _describe_distance(criterion: CriterionAgreement, whom: str) -> Iterator[str]:
    judge, constant, bias = criterion.coefficients["mae"], criterion.constant, criterion.coefficients["bias"]
    if judge.value is None or constant.mae.value is None:
        return
    always = f"than always saying {constant.value:.3g} (off by {judge.value:.2f} against {constant.mae.value:.2f})"
    how = f"not measurably nearer to {whom} or further"
    if constant.difference.excludes_zero and constant.difference.value is not None:
        how = f"further from {whom}" if constant.difference.value > 0 else f"nearer to {whom}"
    lean = ""
    if bias.excludes_zero and bias.value is not None:
        lean = f", and {abs(bias.value):.2f} too {'high' if bias.value > 0 else 'low'} on average"
    yield f"Its raw numbers are {how} {always}{lean}."


def describe_straightlining(criteria: Sequence[CriterionAgreement]) -> str:
    """Return a sentence on raters who give nearly always the same rating; empty where nobody does."""
    counts = Counter(rater.rater for criterion in criteria for rater in criterion.each_rater if rater.is_straightlining)
    if not counts:
        return ""
    most = counts.most_common(MAX_EXAMPLES)
    named = ", ".join(f"{rater} in {count} of {len(criteria)} criteria" for rater, count in most)
    rest = len(counts) - len(most)
    more = f" and {rest} more" if rest else ""
    return (
        f"Nearly always the same rating ({STRAIGHTLINING_SHARE:.0%} or more): {named}{more} (--full shows every rater)."
    )


def _describe_difference(difference: Estimate, whom: str) -> str:
    if not difference.excludes_zero or difference.value is None:
        return "no difference that these cases could show"
    return f"its raw numbers are {'further from' if difference.value > 0 else 'nearer to'} {whom}"


def _describe_decisions(criterion: CriterionAgreement, other_judge: bool) -> str:
    they_fail = "the other fails" if other_judge else "people fail"
    kappa, precision, recall = (criterion.coefficients[name] for name in ("kappa", "precision", "recall"))
    right = (
        f"of what the judge fails {they_fail} {precision.value:.0%}"
        if precision.value is not None
        else f"precision is not defined, since {precision.why}"
    )
    found = (
        f"of what {they_fail} the judge finds {recall.value:.0%}"
        if recall.value is not None
        else f"recall is not defined, since {recall.why}"
    )
    beyond = f"kappa {kappa.value:.2f}" if kappa.value is not None else f"kappa is not defined, since {kappa.why}"
    sentence = f"{right}, and {found}; agreement beyond chance: {beyond}."
    return sentence[0].upper() + sentence[1:]


def explain_undefined(
    name: str, estimate: Estimate, column: Column, ratings: Ratings, *, other_judge: bool = False
) -> Estimate:
    """Return the estimate; where its value is undefined, with the reason for these scores and ratings."""
    if estimate.value is not None:
        return estimate
    x = column.values[~np.isnan(column.values)]
    rated = ~np.isnan(ratings.values)
    known = ratings.values[rated]
    if not len(x):
        return undefined_estimate(f"no case has both a score and {'another' if other_judge else 'a rating'}")
    reasons = (
        (name in PEOPLE_COEFFICIENTS and not bool((rated.sum(axis=1) > 1).any()), "no case was rated by two people"),
        (name in PEOPLE_COEFFICIENTS and np.ptp(known) == 0, "people gave the same rating everywhere"),
        (name in RATER_RANK_COEFFICIENTS, f"no rater shares {MIN_SHARED_CASES} cases with others and tells them apart"),
        (name == "precision", "the judge fails no case"),
        (name == "recall", "the other judge fails no case" if other_judge else "people fail no case"),
        (name in ("constant", "difference"), "all cases are of one group, so that there is no other to learn from"),
        (len(x) < 2, "there is one case"),
        (np.ptp(x) == 0, "the judge gives every case the same score"),
        (other_judge, "the other judge gives every case the same score"),
        (np.ptp(known) > 0 and name == "kappa", "the majority of people says the same of every case"),
        (np.ptp(known) > 0, "people's mean rating is the same for every case"),
        (True, "people rate every case the same"),
    )
    return undefined_estimate(next(why for applies, why in reasons if applies))


def describe_data(
    scores: Scores,
    ratings: Mapping[str, Ratings],
    columns: Mapping[str, Column],
    pairs: Sequence[str],
    *,
    other_judge: bool,
) -> Iterator[str]:
    """Yield sentences on names that were inferred and on cases that were left out."""
    yield from describe_matches(columns, () if other_judge else ratings, pairs)
    judged, rated = set(scores.cases), {case for aspect in columns for case in ratings[aspect].cases}
    who = "the other judge scored" if other_judge else "people rated"
    if judged - rated:
        both = len(judged & rated)
        yield f"Of {format_case_count(len(judged))} that were judged, {who} {both:,}; the others do not count."
    if rated - judged:
        not_judged = rated - judged
        yield f"Not judged: {format_case_count(len(not_judged))} that {who}, such as {_quote_examples(not_judged)}."
    lacking = [case for case in scores.cases if case in rated and case in scores.missing_reasons]
    if lacking:
        first = f"{lacking[0]} ({scores.missing_reasons[lacking[0]]})"
        more = ", …" if len(lacking) > 1 else ""
        yield f"Without a score, or without all of them: {format_case_count(len(lacking))}, {first}{more}."


def describe_rank_bins(aspects: Sequence[str]) -> Iterator[str]:
    """Yield a sentence on the aspects whose rank coefficients were binned for the draws."""
    if aspects:
        yield (
            f"Rank coefficients are exact; their intervals are drawn over {RANK_BINS} classes where there are more "
            f"than {MAX_LEVELS} distinct numbers: {', '.join(aspects)}."
        )


def explain_no_shared_cases(scores: Scores, ratings: Mapping[str, Ratings], columns: Mapping[str, Column]) -> str:
    """Explain why no case has both a score and a rating."""
    rated = {case for aspect in columns for case in ratings[aspect].cases}
    shared = [case for case in scores.cases if case in rated]
    if shared:
        why = f"; {shared[0]!r}: {scores.missing_reasons[shared[0]]}" if shared[0] in scores.missing_reasons else ""
        which = "The one case" if len(shared) == 1 else f"None of the {len(shared):,} cases"
        has = "has no score" if len(shared) == 1 else "has a score"
        return f"{which} that {scores.name} and the ratings share {has}{why}."
    return (
        f"{scores.name} and the ratings share no case: the one has {_quote_examples(scores.cases)}, the other "
        f"{_quote_examples(rated)}; the ids must be the same."
    )


def _quote_examples(cases: Sequence[str] | set[str]) -> str:
    first = sorted(cases)[:MAX_EXAMPLES] if isinstance(cases, set) else list(cases[:MAX_EXAMPLES])
    return ", ".join(repr(case) for case in first) + (", …" if len(cases) > len(first) else "")
