"""Agreement and estimates in sentences, for a reader who is no statistician, and reasons for undefined numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from beholder.cases.case import format_case_count
from beholder.statistics.aspects import can_rescale, describe_matches, format_scale
from beholder.statistics.bootstrap import CONFIDENCE_LEVEL, Interval, undefined_estimate
from beholder.statistics.claims import MIN_OTHER_ANSWERS, is_shown
from beholder.statistics.coefficients import MAX_LEVELS, RANK_BINS
from beholder.statistics.data import Column, Ratings, Scores
from beholder.statistics.raters import MIN_SHARED_CASES, PEOPLE_COEFFICIENTS, STRAIGHTLINING_SHARE
from beholder.statistics.regression import MIN_RATED_GROUPS, RatingsNeeded
from beholder.verdicts.verdict import format_count

if TYPE_CHECKING:
    from beholder.statistics.agreement import CriterionAgreement, JudgeAgreement
    from beholder.statistics.estimation import AspectEstimate, HumanScoreEstimate


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


def describe_overall(agreement: JudgeAgreement) -> str:
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
    if few := _explain_few_answers(criterion, other_judge):
        return f"Whether the judge ranks cases better than chance cannot be told ({rho}): {few}."
    p = criterion.p_holm.get("spearman")
    if judge.excludes_zero and not is_shown(judge, p):
        told = "the rank test gives none" if p is None else f"p = {p:.3f} after Holm's correction over the criteria"
        return f"Whether the judge ranks cases better than chance cannot be told from these ({rho}; {told})."
    if judge.low <= 0 <= judge.high:
        return f"Whether the judge ranks cases better than chance cannot be told from these ({rho})."
    if judge.high < 0:
        return f"The judge's ranking is the reverse of {whose}: what the one puts high the other puts low ({rho})."
    if other_judge:
        return f"The judge's ranking goes with {whose}: {rho}."
    if ceiling is None or ceiling.value is None:
        why = f": {ceiling.why}" if ceiling is not None else ""
        return f"The judge's ranking goes with {whose} ({rho}); there is no ceiling to hold it against{why}."
    rhos = _format_rater_correlations(criterion)
    return (
        f"The judge ranks cases {_compare_with_rater(criterion)}: in a rater's place it has ρ {rhos}, on "
        f"{format_case_count(criterion.rated_by_several)} that two people or more rated."
    )


def _explain_few_answers(criterion: CriterionAgreement, other_judge: bool) -> str:
    """Return why too few cases have different answers to tell a ranking from chance; empty where there are enough."""
    reference = "the other judge gives" if other_judge else "people's mean rating gives"
    for who, answers in (("it gives", criterion.judge_answers), (reference, criterion.reference_answers)):
        if answers.cases <= MIN_OTHER_ANSWERS:
            return f"that takes more than {MIN_OTHER_ANSWERS} cases"
        if not answers.is_enough:
            return (
                f"{who} the same answer to {answers.same:,} of {format_case_count(answers.cases)}, and it takes "
                f"{MIN_OTHER_ANSWERS} others at least"
            )
    return ""


def _compare_with_rater(criterion: CriterionAgreement) -> str:
    difference = criterion.people["rater_difference"]
    if is_shown(difference, criterion.p_holm.get("rater_difference")) and difference.value is not None:
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
    if is_shown(constant.difference, criterion.p_holm.get("constant")) and constant.difference.value is not None:
        how = f"further from {whom}" if constant.difference.value > 0 else f"nearer to {whom}"
    lean = ""
    if is_shown(bias, criterion.p_holm.get("bias")) and bias.value is not None:
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


def _describe_difference(difference: Interval, whom: str) -> str:
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
    name: str, estimate: Interval, column: Column, ratings: Ratings, *, other_judge: bool = False
) -> Interval:
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


# With fewer rated cases, skewed scores make intervals too narrow (simulated: 90 instead of 95 % coverage).
FEW_RATINGS = 30


def describe_aspect(aspect_estimate: AspectEstimate) -> list[str]:
    """Return the result for one aspect."""
    estimated = aspect_estimate.estimated
    together, bias = estimated.combined, estimated.bias
    sentences = []
    if together.value is not None and together.low is not None and together.high is not None:
        sentences.append(
            f"If people rated endlessly many cases like these, the result would lie between {together.low:.3f} and "
            f"{together.high:.3f}; the best guess is {together.value:.3f}."
        )
    else:
        sentences.append(f"There is no interval: {(together.why or 'not defined').removeprefix('no interval: ')}.")
    if bias.excludes_zero and bias.value is not None:
        way = "more" if bias.value > 0 else "less"
        where = f" on the {estimated.bias_cases:,} rated cases" if estimated.bias_rated_only else ""
        sentences.append(
            f"The judge alone says {abs(bias.value):.3f} {way} than people{where}: do not report its mean."
        )
    if estimated.bias_rated_only:
        sentences.append(
            "“Judge less people” is over the rated cases only, since these do not tell how it depends on the judge's "
            "score; on the others it may be another."
        )
    if estimated.weight is not None:
        correlation = "" if estimated.correlation is None else f" (correlation with people {estimated.correlation:.2f})"
        sentences.append(f"A point of the judge counts for {estimated.weight:.3g} points of people{correlation}.")
    sentences += _scale_sentences(aspect_estimate)
    if aspect_estimate.judge_passes:
        sentences.append(f"The judge passes a case where {aspect_estimate.judge_passes}.")
    if (corrected := estimated.correction) is not None:
        if corrected.sensitivity is not None and corrected.specificity is not None:
            sentences.append(
                f"It passes {corrected.sensitivity:.0%} of what people pass (sensitivity) and fails "
                f"{corrected.specificity:.0%} of what they fail (specificity); the corrected rate undoes these errors."
            )
        if corrected.rate.value is None:
            sentences.append(f"The corrected rate is {corrected.rate.why}.")
        if corrected.clipped:
            sentences.append("The corrected rate or its interval fell outside 0 and 1 and was cut there.")
    return sentences


def _scale_sentences(aspect_estimate: AspectEstimate) -> list[str]:
    if aspect_estimate.scales is None:
        return []
    judge, people, sentences = aspect_estimate.scales.judge, aspect_estimate.scales.people, []
    if aspect_estimate.scales.guessed:
        rests = (
            "where the judge passes a case rests"
            if aspect_estimate.judge_passes
            else "the judge alone and its bias rest"
        )
        few = aspect_estimate.estimated.rated < FEW_RATINGS
        sentences.append(
            f"{'Warning: people' if few else 'People'}'s scale was not given and is taken to be {format_scale(people)}"
            f", as far as their ratings reach; {rests} on that, and intervals are not cut at its ends. Give it "
            "(--rating-scale or rating_scale=)."
        )
    if not aspect_estimate.judge_passes and judge != people and can_rescale(judge, people):
        sentences.append(
            f"The judge's {format_scale(judge)} is shown on people's {format_scale(people)}, end on end; the estimate "
            "itself does not depend on its scale."
        )
    return sentences


def describe_estimate(estimate: HumanScoreEstimate) -> list[str]:
    """Return the sentences a reader needs to interpret an estimate."""
    percent = f"{CONFIDENCE_LEVEL:.0%}"
    by = f" of {estimate.groups:,} groups" if estimate.groups < estimate.rated else ""
    sentences = [
        f"People rated {estimate.rated:,} {'case' if estimate.rated == 1 else 'cases'}{by} of {estimate.cases:,}. "
        "Right only where these were drawn at random from all: if people chose what to rate, the estimate is of what "
        "they chose. "
        f"Intervals are {percent}."
    ]
    if (warning := estimate.sampling_warning) is not None:
        seldom = f"{warning.probability:.2%}" if warning.probability >= 0.0001 else "less than 0.01%"
        sentences.append(
            f"Warning: these do not look drawn at random. The judge gives {warning.rated:.3g} to the rated cases and "
            f"{warning.others:.3g} to the others; chance makes such a difference in {seldom} of draws. "
            "What more ratings would give is therefore not told: that can be known of random draws only."
        )
    if estimate.clipped_to is not None:
        sentences.append(
            f"An interval reached beyond the scale, {estimate.clipped_to[0]:g} to {estimate.clipped_to[1]:g}, and was "
            "cut there; widths for other numbers of ratings are before the cut."
        )
    if estimate.judged < estimate.cases:
        missing = format_count(estimate.cases - estimate.judged, "case has no score", "cases have no score")
        sentences.append(f"{missing} from the judge, and so it tells nothing of what people would say there.")
    if estimate.rated < 2:
        sentences.append("An interval needs at least two rated cases.")
    elif estimate.weight is None and estimate.groups < MIN_RATED_GROUPS:
        sentences.append(f"The judge is not used: that takes rated cases of at least {MIN_RATED_GROUPS} groups.")
    elif estimate.weight is None:
        sentences.append("The judge is not used: among the rated cases it does not go along with people.")
    if 2 <= estimate.rated < FEW_RATINGS:
        sentences.append(
            f"With fewer than {FEW_RATINGS} rated cases the interval is too narrow where scores pile up at an end of "
            "the scale."
        )
    return sentences


def describe_ratings_needed(needed: RatingsNeeded, cases: int, *, known: bool) -> str:
    """Return how many rated cases the wanted width takes; `known` if that can be told at all."""

    def how(count: int | None) -> str:
        return f"more than all {format_case_count(cases)}" if count is None else f"{count:,} rated cases"

    if not known:
        return f"How many rated cases a width of {needed.width:g} takes cannot be told from these."

    with_judge = "" if needed.with_judge is None else f"{how(needed.with_judge)} with the judge, "
    return f"A width of {needed.width:g} takes {with_judge}{how(needed.people)} by people alone."
