"""Tables of `beholder arena fit`, `show`, `agree` and `estimate`, for the terminal and for a notebook."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from beholder.arena.agreement import ArenaAgreement, VoteAgreement
from beholder.arena.estimation import ArenaEstimate
from beholder.arena.leaderboard import Leaderboard, ModelRating
from beholder.arena.run_votes import ArenaStatistics
from beholder.reports.charts import html_result, html_sentences, html_table
from beholder.reports.text import format_interval, format_number
from beholder.statistics.bootstrap import Interval

LEADERBOARD_HEADERS = ("rank", "model", "rating", "votes", "win rate", "both bad")
ARENA_HEADERS = (*LEADERBOARD_HEADERS, "flips", "no vote")
ESTIMATE_HEADERS = ("rank", "model", "rating", "people alone", "judge alone", "judge favors by")
AGREEMENT_HEADERS = ("judge", "pairs", "same vote", "where both decide", "κ", "leans to the first")


def leaderboard_rows(board: Leaderboard) -> list[Sequence[str]]:
    """Return a row for each model, under `LEADERBOARD_HEADERS`."""
    return [
        (
            format_rank(row),
            row.model + (" (anchored)" if row.anchored else ""),
            format_interval(row.rating, 0),
            f"{row.votes:,}",
            format_share(row.win_rate.value),
            format_share(row.both_bad_rate.value),
        )
        for row in board.ratings
    ]


def leaderboard_title(board: Leaderboard) -> str:
    """Return what the board was made of: `699 votes on 5 models, 212 groups by prompt`."""
    groups = f", {_count(board.groups, 'group')} by {board.group}" if board.group else ""
    derived = ", derived from scores" if board.derived else ""
    return f"{_count(board.votes, 'vote')} on {len(board.ratings)} models{groups}{derived}"


def leaderboard_sentences(board: Leaderboard) -> list[str]:
    """Return the sentences below a board: the position, what cannot be told, and how intervals were computed."""
    sentences = []
    if board.position is not None:
        sentences.append(f"Shown first is worth {_format_points(board.position)}.")
    return [*sentences, *board.notes, board.interval_note]


def leaderboard_html(board: Leaderboard) -> Markup:
    """Return a board for a notebook: its table and sentences."""
    table = html_table(LEADERBOARD_HEADERS, leaderboard_rows(board))
    return html_result(leaderboard_title(board), [table, html_sentences(leaderboard_sentences(board))])


def arena_rows(board: Leaderboard, statistics: ArenaStatistics) -> list[Sequence[str]]:
    """Return a row for each model of a run's board, under `ARENA_HEADERS`."""
    counts = statistics.models
    return [
        (*cells, f"{counts[row.model].flips:,}", f"{counts[row.model].failed:,}")
        for row, cells in zip(board.ratings, leaderboard_rows(board), strict=True)
    ]


def arena_sentences(board: Leaderboard, statistics: ArenaStatistics) -> list[str]:
    """Return the sentences below the board of a run."""
    return [*statistics.sentences(), *leaderboard_sentences(board)]


def arena_html(board: Leaderboard, statistics: ArenaStatistics, name: str) -> Markup:
    """Return the board of a run for a notebook: its table and sentences."""
    table = html_table(ARENA_HEADERS, arena_rows(board, statistics))
    sentences = html_sentences(arena_sentences(board, statistics))
    return html_result(f"{name}: {leaderboard_title(board)}", [table, sentences])


def arena_estimate_title(found: ArenaEstimate) -> str:
    """Return what an estimate was made of."""
    has = "has" if found.unanswered == 1 else "have"
    lost = f" ({found.unanswered:,} more {has} none)" if found.unanswered else ""
    return (
        f"The board of people, estimated: {_count(found.board.votes, 'vote')} of people on {found.shared:,} of "
        f"{_count(found.pairs, 'pair')} with a vote of the judge{lost}"
    )


def arena_estimate_rows(found: ArenaEstimate) -> list[Sequence[str]]:
    """Return a row for each model of an estimated board, under `ESTIMATE_HEADERS`."""
    return [
        (
            format_rank(row),
            row.model,
            format_interval(row.rating, 0),
            format_interval(found.people[row.model].rating, 0),
            format_interval(found.judge[row.model].rating, 0),
            format_interval(found.bias[row.model], 0),
        )
        for row in found.board.ratings
    ]


def arena_estimate_sentences(found: ArenaEstimate) -> list[str]:
    """Return the sentences below an estimated board."""
    judge = found.agreement.judges[0]
    sentences = [
        f"The judge gives the vote of most people in {format_interval(judge.accuracy, 2)} of the pairs that both voted "
        f"on; where both name a winner, in {format_interval(judge.accuracy_decided, 2)}."
    ]
    sentences += [
        f"{'It' if one is judge else one.judge} leans to what was shown first by {format_interval(one.lean, 2)}."
        for one in found.agreement.judges
        if one.lean.value is not None
    ]
    return [*sentences, *found.notes, *found.board.notes, found.board.interval_note]


def arena_estimate_html(found: ArenaEstimate) -> Markup:
    """Return an estimated board for a notebook."""
    parts = [html_table(ESTIMATE_HEADERS, arena_estimate_rows(found))]
    parts.append(html_table(*confusion_table(found.agreement.judges[0])))
    return html_result(arena_estimate_title(found), [*parts, html_sentences(arena_estimate_sentences(found))])


def agreement_rows(agreement: ArenaAgreement) -> list[Sequence[str]]:
    """Return a row for each judge, and one for two people, under `AGREEMENT_HEADERS`."""
    rows: list[Sequence[str]] = [
        (
            judge.judge,
            f"{judge.pairs:,}",
            format_interval(judge.accuracy, 2),
            format_interval(judge.accuracy_decided, 2),
            format_interval(judge.kappa, 2),
            format_interval(judge.lean, 2),
        )
        for judge in agreement.judges
    ]
    people = agreement.people
    if people is not None:
        same = (format_interval(people.same, 2), format_interval(people.same_decided, 2))
        rows.append(("two people", f"{people.pairs:,}", *same, f"α {format_interval(people.alpha, 2)}", ""))
    return rows


def agreement_sentences(agreement: ArenaAgreement) -> list[str]:
    """Return what the table does not say: rows without a vote, pairs without a majority, the ceiling."""
    sentences = [sentence for judge in agreement.judges for sentence in _describe_judge(judge)]
    return [*sentences, *agreement.notes, agreement.interval_note]


def _describe_judge(judge: VoteAgreement) -> list[str]:
    sentences = []
    if judge.unanswered:
        which = "1 row, which counts" if judge.unanswered == 1 else f"{judge.unanswered:,} rows, which count"
        sentences.append(f"{judge.judge} has no vote in {which} nowhere else.")
    if judge.without_majority:
        which = (
            "1 pair, which counts" if judge.without_majority == 1 else f"{judge.without_majority:,} pairs, which count"
        )
        sentences.append(f"{judge.judge}: people have no majority on {which} for single votes only.")
    if judge.less_rater.value is not None:
        sentences.append(
            f"{judge.judge} gives the vote of a single person in {format_interval(judge.one_rater, 2)}; less how often "
            f"two people agree: {format_interval(judge.less_rater, 2)}."
        )
    return sentences


def confusion_table(judge: VoteAgreement) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Return headers and rows of a judge's confusion table: what most people voted by what the judge voted."""
    headers = ("people \\ judge", *(name.replace("_", " ") for name in judge.confusion))
    rows: list[Sequence[str]] = [
        (name.replace("_", " "), *(f"{count:,}" for count in counts.values()))
        for name, counts in judge.confusion.items()
    ]
    return headers, rows


def arena_agreement_html(agreement: ArenaAgreement) -> Markup:
    """Return the agreement of judges and people for a notebook: the table, confusion tables and sentences."""
    parts = [html_table(AGREEMENT_HEADERS, agreement_rows(agreement))]
    for judge in agreement.judges:
        if judge.pairs:
            parts += [html_sentences([judge.judge]), html_table(*confusion_table(judge))]
    return html_result("Votes of judges and of people", [*parts, html_sentences(agreement_sentences(agreement))])


def format_rank(row: ModelRating) -> str:
    """Return the rank of a model, or the range of it: `2–3`."""
    best, worst = row.rank
    return str(best) if best == worst else f"{best}–{worst}"


def format_share(share: float | None) -> str:
    """Return a share as a percentage, a dash where it is not known."""
    return "–" if share is None else f"{format_number(100 * share, 0)}%"


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _format_points(points: Interval) -> str:
    return f"{format_interval(points, 0)} points"
