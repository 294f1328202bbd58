"""A ledger gives back what it was given: every verdict, its raw answer, its case, to the last digit."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from support.ledger import case, entry, run_record, stored, unscored, verdict
from support.verdicts import verdicts

from beholder.cases.case import Case
from beholder.errors import LedgerError
from beholder.images.image import ImageSource
from beholder.ledger.ledger import Ledger
from beholder.ledger.query import tally_verdicts
from beholder.verdicts.verdict import Flag, Juror, Jury, Outcome, Verdict


def test_a_verdict_with_its_answer_and_its_exact_cost(ledger: Ledger) -> None:
    ledger.write("r1", [entry(3)])
    [found] = ledger.verdict("r1", "photo-00003/model-a")
    assert found == verdict(3)
    assert found.cost_usd == Decimal("0.0018632500000000000001")


def test_a_verdict_without_a_score_keeps_what_was_said(ledger: Ledger) -> None:
    ledger.write("r1", [entry(1, unscored(1))])
    [found] = ledger.verdict("r1", "photo-00001/model-a")
    assert found == unscored(1)
    assert ledger.raw_answers("r1", found.case) == {"edit-preservation": ["I will not"]}


def test_a_jurys_answers_are_all_kept(ledger: Ledger) -> None:
    jurors = tuple(Juror("openai:x", sample, Outcome.SCORED, 0.5) for sample in range(2))
    whole = verdict(1, answer="", jury=Jury(2, 0, {"score": 0.1}, 0.75, jurors))
    answers = tuple(replace(stored(verdict(1), sample), text=f"answer {sample}") for sample in range(2))
    ledger.write("r1", [entry(1, whole, answers=answers)])
    assert ledger.verdict("r1", whole.case) == [whole]
    assert ledger.raw_answers("r1", whole.case) == {"edit-preservation": ["answer 0", "answer 1"]}


def test_a_case_with_its_groups_and_lists(ledger: Ledger) -> None:
    fields = {"output": "a cup", "expected_output": ("a cup", "a mug")}
    ledger.write("r1", [entry(1, case=case(verdict(1), fields=fields))])
    found = ledger.case("r1", "photo-00001/model-a")
    assert found.fields == fields
    assert found.groups == {"model": "model-a", "source": "photo-00001-model-a"}
    assert list(ledger.cases("r1")) == [found]


def test_paths_are_absolute_and_nothing_secret_of_an_address_is_kept(ledger: Ledger) -> None:
    images: dict[str, ImageSource] = {
        "a": "photos/x.jpg",
        "b": "https://me:pw@host/x.jpg?sig=abc#f",
        "c": "data:image/png;base64,AAAA",
        "d": b"x",
    }
    ledger.write("r1", [entry(1, case=Case("photo-00001/model-a", images))])
    assert ledger.case("r1", "photo-00001/model-a").images == {
        "a": str(Path.cwd() / "photos/x.jpg"),
        "b": "https://host/x.jpg",
        "c": "data:image/png",
        "d": "bytes:",
    }


def test_a_run_with_everything(ledger: Ledger) -> None:
    given = run_record("r2", prompt="Rate {{output}}", skipped=3, spent_usd=Decimal("1.5"), tags=("a", "b"))
    ledger.start(given)
    assert ledger.run("r2") == given


def test_verdicts_come_in_the_order_of_their_cases(ledger: Ledger) -> None:
    for number in (700, 3, 512, 0, 255, 256, 257):
        ledger.write("r1", [entry(number)])
    ledger.write("r1", [entry(number) for number in range(10, 600, 7)])
    found = [one.case for one in ledger.verdicts("r1")]
    assert found == sorted(found)
    assert len(found) == len(set(found))


def test_a_verdict_that_is_given_again_replaces_the_first(ledger: Ledger) -> None:
    ledger.write("r1", [entry(1, unscored(1)), entry(2)])
    ledger.write("r1", [entry(1)])
    assert [one.outcome for one in ledger.verdicts("r1")] == ["scored", "scored"]
    assert ledger.progress()["r1"].done == 2


def test_verdicts_can_be_chosen_by_outcome_and_rubric(ledger: Ledger) -> None:
    ledger.write("r1", [entry(1), entry(2, unscored(2)), entry(2, verdict(2, rubric="edit-quality"))])
    assert [one.case for one in ledger.verdicts("r1", outcome="refused")] == ["photo-00002/model-a"]
    assert [one.rubric for one in ledger.verdicts("r1", rubric="edit-quality")] == ["edit-quality"]
    assert len(ledger.verdict("r1", "photo-00002/model-a")) == 2


def test_outcomes_are_told_for_the_cases_asked_for(ledger: Ledger) -> None:
    ledger.write("r1", [entry(number) for number in range(1200)])
    ids = [f"photo-{number:05d}/model-a" for number in range(100, 1300)]
    found = ledger.outcomes("r1", ids)
    assert len(found) == 1100
    assert found["photo-00100/model-a", "edit-preservation"] == "scored"
    assert ledger.outcomes("r1", []) == {}


def test_half_a_surrogate_pair_is_no_reason_to_lose_a_verdict(ledger: Ledger) -> None:
    odd = verdict(1, case="p\ud800", assessment="\udfff", answer="said \ud83d", judge="j\udc00", model="m\ud800")
    ledger.write("r1", [entry(1, odd, case=case(odd, groups={"g": "\ud800"}))])
    assert ledger.verdict("r1", "p\ud800") == [odd]
    assert ledger.outcomes("r1", ["p\ud800"]) == {("p\ud800", "edit-preservation"): "scored"}
    assert ledger.case("r1", "p\ud800").groups == {"g": "\ud800"}
    assert ledger.check() == []


def test_neither_is_a_nul(ledger: Ledger) -> None:
    odd = verdict(1, case="p\0", assessment="\0", answer="said \0", judge="j\0", model="m\0", grade="\0")
    ledger.write("r1", [entry(1, odd, case=case(odd, groups={"g\0": "\0"}, fields={"f": "\0"}))])
    assert ledger.verdict("r1", "p\0") == [odd]
    assert ledger.raw_answers("r1", "p\0") == {"edit-preservation": ["said \0"]}
    assert ledger.outcomes("r1", ["p\0"]) == {("p\0", "edit-preservation"): "scored"}
    assert ledger.case("r1", "p\0") == case(odd, groups={"g\0": "\0"}, fields={"f": "\0"})
    assert ledger.cached_answers([stored(odd).key])[stored(odd).key].text == "said \0"
    ledger.rename("r1", "n\0")
    ledger.tag("r1", "t\0")
    assert ledger.run("n\0").id == "r1"
    assert ledger.check() == []


def test_a_count_past_all_bounds_is_unknown(ledger: Ledger) -> None:
    ledger.write("r1", [entry(1, verdict(1, usage={"input_tokens": 10**30, "output_tokens": 5}))])
    [found] = ledger.verdict("r1", "photo-00001/model-a")
    assert found.usage == {"input_tokens": None, "output_tokens": 5}


def test_nothing_is_written_of_a_batch_that_fails(ledger: Ledger) -> None:
    with pytest.raises(Exception, match=r"NOT NULL|position"):
        ledger.write("r1", [entry(1), entry(2, position=None)])
    assert list(ledger.verdicts("r1")) == []


def test_a_deleted_run_cannot_be_written_to(ledger: Ledger) -> None:
    ledger.delete("r1")
    with pytest.raises(LedgerError, match="no run 'r1'"):
        ledger.write("r1", [entry(1)])


def test_money_adds_up_and_the_unknown_is_counted(ledger: Ledger) -> None:
    ledger.write("r1", [entry(1, spent_usd=Decimal("0.1")), entry(2, spent_usd=Decimal("0.2"))])
    ledger.write("r1", [entry(1, spent_usd=Decimal("0.1"))])  # asked again, paid again
    assert ledger.run("r1").spent_usd == Decimal("0.4")
    ledger.write("r1", [entry(3, spent_usd=None), entry(4, spent_usd=None, reused=True)])
    assert (ledger.run("r1").spent_usd, ledger.run("r1").unpriced) == (Decimal("0.4"), 1)


def test_an_unknown_cost_is_not_nothing(ledger: Ledger) -> None:
    assert ledger.run("r1").spent_usd == 0
    ledger.write("r1", [entry(1, spent_usd=None)])
    assert ledger.run("r1").spent_usd is None


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(verdicts())
def test_any_verdict(ledger: Ledger, given: Verdict) -> None:
    ledger.write("r1", [entry(1, given, case=Case(given.case))])
    found = [one for one in ledger.verdict("r1", given.case) if one.rubric == given.rubric]
    assert [one.to_dict() for one in found] == [given.to_dict()]
    assert [one.answer for one in found] == [given.answer]
    assert [one.cost_usd for one in found] == [given.cost_usd]
    assert ledger.tally("r1") == tally_verdicts(ledger.stored_verdicts("r1"))  # which reads only what it counts


def test_odd_values_in_flags_come_back_as_json_holds_them(ledger: Ledger) -> None:
    flags = (Flag("x", said=Decimal("4.5")), Flag("y", said=("a", "b")), Flag("z", said=10**20))
    ledger.write("r1", [entry(1, verdict(1, flags=flags))])
    [found] = ledger.verdict("r1", "photo-00001/model-a")
    assert [flag.said for flag in found.flags] == [4.5, ["a", "b"], "a huge number"]
    assert found.to_dict() == verdict(1, flags=flags).to_dict()
