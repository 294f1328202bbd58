"""A preference is shown as what it is: the winner, both answers and flips; on cards, in exports, lists and reports."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from support.preferences import candidates, choose, judge_by, paint, pair, prefer_red

from beholder import Case, Ledger, Run, ScriptedJudge, Unreachable, UsageError, import_ratings, judge, run
from beholder.cli.output import means_table, print_summary
from beholder.ledger.types import VerdictFilter
from beholder.reports.cards import verdict_html
from beholder.rubrics.brief import Brief


def say(brief: Brief) -> Any:
    """Prefer red; of pairs with a 77 follow the position, and of those with a 99 fail in one order."""
    if 77 in candidates(brief):
        return choose("A")
    if candidates(brief)[0] == 99:
        return Unreachable("the line is dead")
    return prefer_red(brief)


@pytest.fixture
def judged(tmp_path: Path) -> Run:
    cases = [pair(200, 10), pair(10, 220), pair(10, 230), pair(77, 200), pair(1, 2), pair(120, 121), pair(99, 10)]
    return run(rubric="edit-preference", cases=cases, judge=judge_by(say), ledger=tmp_path / "runs.db", name="pairs")


COUNTS = {"first": 1, "second": 2, "tie": 2, "both_bad": 1, "flipped": 1, "failed": 1}


def test_a_run_counts_wins_ties_flips_and_failures(judged: Run, capsys: pytest.CaptureFixture[str]) -> None:
    values: Any = judged.summary.to_dict()
    assert values["rubrics"]["edit-preference"]["preference"] == COUNTS
    assert values["flags"]["order_flip"] == 1
    summary = {"spent_usd": 0.0, "done": 7, "total": 7, "reused": 0, "run": judged.id}
    print_summary(summary, judged.summary, {})
    told = " ".join(capsys.readouterr().out.split())
    assert "first better in 1, second in 2, 2 ties, both bad in 1, 1 with a flip, 1 failed" in told
    assert means_table(judged.summary, {}).row_count == 4


def test_a_flip_of_one_juror_is_no_tie_of_the_jury(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jury = [judge_by(name="fair"), judge_by(name="too"), ScriptedJudge(choose("A"), name="follows")]
    done = run(rubric="edit-preference", cases=[pair(200, 10)], judge=jury, ledger=tmp_path / "runs.db")
    print_summary({"spent_usd": 0.0, "done": 1, "total": 1, "reused": 0, "run": done.id}, done.summary, {})
    told = " ".join(capsys.readouterr().out.split())
    assert "first better in 1, second in 0, 0 ties, both bad in 0, 1 with a flip" in told


def test_a_run_of_scores_says_nothing_of_preferences(tmp_path: Path) -> None:
    block = {"justification": " ".join(["seen"] * 16), "score": 6}
    keys = ("unchanged_regions", "global_consistency", "identity_preservation")
    case = Case("c1", {"input": paint(1), "edited": paint(2)}, {"instruction": "make it red"})
    scored = ScriptedJudge({"criteria": dict.fromkeys(keys, block)})
    done = run(rubric="edit-preservation", cases=[case], judge=scored, ledger=tmp_path / "runs.db")
    [verdict] = done.verdicts()
    assert "preference" not in verdict.to_dict()
    assert "choice" not in verdict.to_dict()["criteria"]["unchanged_regions"]
    assert "preference" not in str(done.summary.to_dict())
    assert not {"winner", "flipped"} & set(done.frame().columns)


def test_columns_of_an_export(judged: Run, tmp_path: Path) -> None:
    judged.export(tmp_path / "pairs.csv")
    rows = {row["case"]: row for row in csv.DictReader(io.StringIO((tmp_path / "pairs.csv").read_text("utf-8")))}
    won, flipped, failed = rows["200-10"], rows["77-200"], rows["99-10"]
    assert (won["winner"], won["strength"], won["flipped"], won["natural.choice"]) == ("first", "3.0", "False", "first")
    assert (flipped["winner"], flipped["flipped"], flipped["score"]) == ("tie", "True", "0.5")
    assert (failed["winner"], failed["outcome"], failed["score"]) == ("", "unreachable", "")
    assert next(iter(judged.frame()["winner"])) == "first"


def test_lists_are_filtered_by_winner_and_flip(judged: Run, tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "runs.db", create=False) as ledger:

        def find(**wanted: str) -> set[str]:
            page = ledger.browse(judged.id, VerdictFilter(**wanted), offset=0, limit=50)  # type: ignore[arg-type]  # texts
            return {stored.verdict.case for stored in page.verdicts}

        assert find(winner="second") == {"10-220", "10-230"}
        assert find(flag="order_flip") == {"77-200"}
        assert find(winner="tie") == {"77-200", "120-121"}
        assert ledger.filter_values(judged.id).winners == ("first", "second", "tie", "both_bad")
        assert ledger.check() == []


def test_the_report_has_both_answers(judged: Run, tmp_path: Path) -> None:
    judged.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "first better in 1, second in 2" in page
    assert '"order":"swapped"' in page.replace(" ", "")


def test_a_card_says_who_is_better_and_what_each_order_said() -> None:
    verdict = judge("edit-preference", pair(200, 10), judge=judge_by())
    card = verdict.card()
    assert "first is better   strength 3 of 3" in card
    assert "given order (A is first): first is better, strength 3 – it is A" in card
    assert "swapped order (A is second): first is better, strength 3 – it is B" in card
    assert "swapped order" in str(verdict_html(verdict))
    assert "scored first" in repr(verdict)
    flipped = judge("edit-preference", pair(200, 10), judge=ScriptedJudge(choose("A"))).card()
    assert "tie   the answer followed the order of the two" in flipped
    failed = judge("edit-preference", pair(99, 10), judge=judge_by(say)).card()
    assert "no score: unreachable" in failed
    assert "swapped order (A is second): second is better" in failed or "given order: unreachable" in failed


def test_people_do_not_rate_pairs_as_scores(judged: Run, tmp_path: Path) -> None:
    (tmp_path / "ratings.csv").write_text("case,rater,aspect,score\n200-10,anna,natural,2\n", "utf-8")
    with pytest.raises(UsageError, match="which of two is better"):
        import_ratings(judged, tmp_path / "ratings.csv")
