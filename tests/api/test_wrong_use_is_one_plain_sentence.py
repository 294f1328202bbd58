"""What is wrong with a call is said in one sentence, before anything is asked, and with the name that was meant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import beholder
from beholder import (
    BeholderError,
    Case,
    CaseError,
    Options,
    Rubric,
    RubricError,
    ScriptedJudge,
    Session,
    SetupError,
    UsageError,
    collect,
    judge,
    judge_rubrics,
    make_briefs,
    qualify,
    run,
)
from beholder.testing.server import JudgeServer

RUBRIC = "edit-preservation"
INPUTS: dict[str, Any] = {"input": "before.png", "edited": "after0.png", "instruction": "make it red"}


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"edted": "x.png"}, "Did you mean 'edited'"),
        ({"instructions": "x"}, "Did you mean 'instruction'"),
        ({"smaples": 3}, "Did you mean 'samples'"),
        ({"id": "a"}, "give a Case, which has an id"),
        ({"case": {}}, "A case is given by position, as a Case: judge(rubric, case)."),
        ({"groups": {}}, "give a Case, which has groups"),
        ({"colour": 3}, "the images 'input', 'target', 'edited' and the fields 'instruction'"),
        ({"instruction": 3}, "should be a text or a list of texts"),
        ({"input": 3.5}, "The image 'input'"),
    ],
)
def test_an_input_that_the_rubric_does_not_take(changed: dict[str, Any], sentence: str) -> None:
    asked = ScriptedJudge("x")
    with pytest.raises(UsageError) as error:
        judge(RUBRIC, judge=asked, **{**INPUTS, **changed})
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)
    assert asked.briefs == []


@pytest.mark.parametrize("call", [run, collect])
def test_who_cannot_be_told_of_progress_is_found_before_a_run_is_made(
    call: Callable[..., object], make_case: Callable[[int], Case]
) -> None:
    with pytest.raises(UsageError, match="progress is True, False, None or an object with the methods on_skipped"):
        call(rubric=RUBRIC, cases=[make_case(0)], ledger="a.db", progress="x")
    assert not Path("a.db").exists()


def test_a_case_and_inputs_exclude_one_another(make_case: Callable[[int], Case]) -> None:
    with pytest.raises(UsageError, match="both given"):
        judge(RUBRIC, make_case(0), edited="x.png")
    with pytest.raises(UsageError, match="nothing to judge"):
        judge(RUBRIC)
    with pytest.raises(UsageError, match=r"One case is judged at a time.* for many: judge_many"):
        judge(RUBRIC, [make_case(0)])  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"this is a dict; give its entries as keywords \(\*\*case\), or a Case"):
        judge(RUBRIC, INPUTS)  # type: ignore[arg-type]
    with Session() as session, pytest.raises(UsageError, match="'judge' is no input here; a Session takes it"):
        session.judge(RUBRIC, judge="openai:x", **INPUTS)
    with pytest.raises(CaseError, match="lacks the field 'instruction'"):
        judge(RUBRIC, input="before.png", edited="after0.png", judge=ScriptedJudge("x"))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"timeot_s": 3}, "did you mean 'timeout_s'"),
        ({"temperature": 3}, "There is no option 'temperature'; there are base_url"),
        ({"timeout_s": "long"}, "timeout_s: "),
        ({"timeout_s": 0}, "timeout_s: "),
        ({"params": ["x"]}, "params: "),
        ({"params": {"api_key": "x"}}, "never holds a key"),
        ({"base_url": "nowhere"}, "is no base URL"),
        ({"base_urls": "http://x.example"}, "base_urls"),
        ({"price": {"input": 1}}, "price"),
        ({"threshold": 2}, "threshold"),
        ({"not_applicable": "maybe"}, "not_applicable"),
        ({"max_side": 0}, "max_side"),
        ({"styles": ["nowhere"]}, "nowhere"),
        ({"styles": "nowhere"}, "styles"),
        ({"calibration": "nowhere.json"}, "nowhere.json"),
        ({"audit": "no"}, "audit: "),
        ({"styles": None}, "styles: should be a list of folders, not None."),
        ({"styles": [1]}, "styles: should be a list of folders, not [1]."),
        ({"calibration": 5}, "calibration: should be the path of a file, not 5."),
        ({"prompt": 5}, "prompt: should be the path of a file, not 5."),
        ({"prompt_text": 5}, "prompt_text: should be a text, not 5."),
        ({"prompt": "nowhere.md"}, "The prompt 'nowhere.md' cannot be read: "),
        ({"prompt": "mine.md", "prompt_text": "Look."}, "both given; keep one."),
        ({"cache": "x"}, "cache: should be True or False, not 'x'."),
        ({"threshold": "x"}, "threshold: should be a number, not 'x'."),
        ({"threshold": True}, "threshold: should be a number, not True."),
        (3, "options are Options or a mapping"),
    ],
)
def test_an_option_that_is_wrong(options: Any, sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    with pytest.raises(UsageError) as error:
        judge("restyle", judge="openai:gpt-5-mini", options=options, original="a", restyled="b", style="Anime")
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"threshold": "x"}, "threshold: "),
        ({"threshold": 2}, "threshold: "),
        ({"prompt": 5}, "prompt: "),
        ({"params": ["x"]}, "params: "),
        ({"max_side": 0}, "max_side: "),
    ],
)
def test_an_option_that_is_wrong_for_a_brief(options: Any, sentence: str, make_case: Callable[[int], Case]) -> None:
    with pytest.raises(UsageError) as error:
        make_briefs(RUBRIC, make_case(0), options=options)
    assert sentence in str(error.value)


@pytest.mark.parametrize("id_", [5, None])
def test_an_id_that_is_no_text(id_: Any) -> None:
    with pytest.raises(CaseError, match="The id of a case should be a text, not"):
        Case(id_, {"input": "before.png"})


@pytest.mark.parametrize("id_", ["a\nb", "x" * 201])
def test_a_case_is_not_judged_under_an_id_that_cannot_be_shown(id_: str, make_case: Callable[[int], Case]) -> None:
    with pytest.raises(CaseError, match="cannot be judged: its id "):
        judge(RUBRIC, replace(make_case(0), id=id_))


@pytest.mark.parametrize("limit", ["requests_per_minute", "tokens_per_minute", "timeout_s"])
def test_limits_are_for_judges_that_are_given_by_name(limit: str, make_case: Callable[[int], Case]) -> None:
    sentence = f"{limit}: is for judges that are given by name"
    with pytest.raises(UsageError, match=sentence):
        Session(ScriptedJudge("x"), options={limit: 10})
    with pytest.raises(UsageError, match=sentence):
        run(rubric=RUBRIC, cases=[make_case(0)], judge=ScriptedJudge("x"), ledger="b.db", limits={limit: 10})


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"judge": 3}, "A judge is a name such as"),
        ({"judge": []}, "At least one judge"),
        ({"judge": ["instruments", 3]}, "A judge is a name such as"),
        ({"judge": "gpt-5-mini"}, "names no judge"),
        ({"samples": 0}, "samples"),
        ({"samples": "many"}, "samples"),
        ({"options": {"base_url": "http://x.example/v1"}}, "base_url is for a model, and no judge was named"),
        ({"judge": ScriptedJudge("x"), "options": {"params": {"a": 1}}}, "no judge is given by its name"),
    ],
)
def test_a_judge_that_is_none(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError) as error:
        judge(RUBRIC, **arguments, **INPUTS)
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"budget": "much"}, "budget is a number of US dollars"),
        ({"budget": -1}, "budget: "),
        ({"concurrency": 0}, "concurrency: "),
        ({"name": 3}, "name is a text"),
        ({"ledger": 3}, "ledger is a path"),
        ({"judge": ScriptedJudge("x"), "budget": 1}, "The price of scripted is not known"),
    ],
)
def test_a_session_that_cannot_be(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError) as error:
        Session(**arguments)
    assert sentence in str(error.value)


def test_a_missing_key_is_said_when_the_session_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(SetupError, match="OPENAI_API_KEY"):
        Session("openai:gpt-5-mini")


def test_rubrics_that_are_none() -> None:
    with pytest.raises(UsageError, match="Did you mean"):
        judge("edit-preservatoin", **INPUTS)
    with pytest.raises(UsageError, match="A rubric is a Rubric, its name or its path"):
        judge(3, **INPUTS)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="stands there twice"):
        judge_rubrics([RUBRIC, RUBRIC], **INPUTS)
    with pytest.raises(UsageError, match="At least one rubric"):
        judge_rubrics([], **INPUTS)


def test_a_closed_session_says_so(make_case: Callable[[int], Case]) -> None:
    session = Session(ScriptedJudge("no JSON"), options={"audit": False})
    session.close()
    session.close()
    for use in (
        lambda: session.judge(RUBRIC, make_case(0)),
        lambda: session.judge_rubrics(RUBRIC, make_case(0)),
        lambda: session.judge_many(RUBRIC, [make_case(0)]),
    ):
        with pytest.raises(UsageError, match="closed"):
            use()


@pytest.mark.parametrize("name", ["judge", "samples", "options", "case", "rubric"])
@pytest.mark.parametrize("part", ["images", "fields"])
def test_a_rubric_may_not_use_the_names_of_arguments(name: str, part: str, tmp_path: Path) -> None:
    text = "rubric: mine\ncriteria: [{key: a, title: A, question: Is it?}]\nimages: [{role: image}]\n"
    if part == "images":
        text = text.replace("{role: image}", f"{{role: image}}, {{role: {name}}}")
    else:
        text += f"fields: [{{name: {name}}}]\n"
    (tmp_path / "rubric.yaml").write_text(text)
    with pytest.raises(RubricError, match=f"'{name}' is an argument of `judge` in Python"):
        Rubric.load(tmp_path)


def test_the_same_inputs_are_the_same_case(make_case: Callable[[int], Case], server: JudgeServer) -> None:
    make_case(0)
    make_case(1)
    asked = ScriptedJudge("no JSON")
    ids = [
        judge(RUBRIC, judge=asked, options={"audit": False}, **{**INPUTS, **changed}).case
        for changed in ({}, {}, {"instruction": "make it blue"}, {"edited": "after1.png"})
    ]
    assert ids[0] == ids[1]
    assert len(set(ids)) == 3
    assert ids[0].startswith("after0-")
    assert len(ids[0]) == len("after0-") + 8


def test_options_are_a_value_or_a_mapping(make_case: Callable[[int], Case]) -> None:
    brief = make_briefs(RUBRIC, make_case(0), options=Options(prompt_text="Look."))[RUBRIC]
    assert brief.digest == make_briefs(RUBRIC, make_case(0), options={"prompt_text": "Look."})[RUBRIC].digest
    Path("mine.md").write_text("Look.")
    assert brief.digest == make_briefs(RUBRIC, make_case(0), options={"prompt": "mine.md"})[RUBRIC].digest
    assert brief.digest != make_briefs(RUBRIC, make_case(0))[RUBRIC].digest
    assert list(make_briefs("edit", make_case(0))) == ["edit-preservation", "edit-quality", "edit-fidelity"]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: beholder.judge_from("openai:x", bas_url="z"),  # type: ignore[call-arg]  # on purpose
            "no setting 'bas_url' of a judge; did you mean 'base_url'",
        ),
        (lambda: judge(RUBRIC, judge={"judge": "openai:x"}, **INPUTS), "or a Judge, and dict is none"),  # type: ignore[arg-type]  # on purpose
        (lambda: list(beholder.score(["junk", "{}"], "edit")), "This holds no answer.*answers, line 1"),
    ],
)
def test_a_mistake_in_an_argument_names_what_was_meant(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: qualify("opnai:x"),
        lambda: Session(ledger="new.db", name="latest"),
    ],
)
def test_wrong_names_leave_no_files(call: Callable[[], object], tmp_path: Path) -> None:
    with pytest.raises(BeholderError):
        call()
    assert list(tmp_path.iterdir()) == []


def test_a_server_of_ones_own_has_no_list_price() -> None:
    with pytest.raises(UsageError, match="the prices of a server of your own are in no list"):
        Session("openai:gpt-5-mini", budget=1, options={"base_url": "http://127.0.0.1:1/v1"})


def test_the_checks_of_doctor_are_json_values() -> None:
    checks = beholder.doctor()
    assert checks.to_dict() == {"checks": [check.to_dict() for check in checks]}
    assert repr(checks).startswith("<CheckList, ")


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        ({"input": "before.png", "editd": "after0.png", "instruction": "x"}, "'edited'; is it the column 'editd'?"),
        ({"input": "before.png", "edited": "after0.png", "instructions": "x"}, "is it the column 'instructions'?"),
    ],
)
def test_a_column_with_nearly_the_right_name_is_named(record: dict[str, object], sentence: str) -> None:
    with Session(ScriptedJudge("x")) as session, pytest.raises(CaseError) as error:
        list(session.judge_many(RUBRIC, [record]))
    assert sentence in str(error.value)


def test_a_record_whose_id_is_none_gets_one(make_case: Callable[[int], Case]) -> None:
    images = {role: str(path) for role, path in make_case(0).list_images()}
    with Session() as session:
        (verdict,) = session.judge_many(RUBRIC, [{"id": None, **images, "instruction": "make it red"}])
    assert verdict.case.startswith("after0-")


def test_a_lazy_frame_is_a_source_of_cases(make_case: Callable[[int], Case]) -> None:
    import polars

    images = {role: str(path) for role, path in make_case(0).list_images()}
    frame = polars.LazyFrame([{"id": "a", **images, "instruction": "make it red"}])
    assert run(rubric=RUBRIC, cases=frame, ledger="new.db").summary.verdicts == 1


@pytest.mark.parametrize(
    ("there", "name", "hint"),
    [
        (["suite-edits.yaml", "other.yaml"], "suite-edit.yaml", "did you mean 'suite-edits.yaml'?"),
        (["edits.yaml", "restyles.yml", "notes.txt"], "nosuite.yaml", "the folder has edits.yaml, restyles.yml"),
        ([], "nosuite.yaml", "`beholder init` writes a suite to start from"),
        ([], "nowhere/suite.yaml", "there is no folder 'nowhere'"),
    ],
)
@pytest.mark.parametrize("function", [beholder.run, beholder.plan])
def test_a_suite_that_is_not_there_is_answered_with_those_that_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: Any, there: list[str], name: str, hint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for file in there:
        (tmp_path / file).touch()
    with pytest.raises(beholder.BeholderError) as error:
        function(name)
    assert hint in str(error.value)


@pytest.mark.parametrize("ratings", [3, True, object()])
def test_what_are_no_ratings_is_not_called_cases(tmp_path: Path, ratings: Any) -> None:
    scores = tmp_path / "scores.csv"
    scores.write_text("case,judge,aspect,score\na,j,score,1\n", "utf-8")
    with pytest.raises(beholder.UsageError, match=r"^Ratings are given as .* this is of type \w+\.$"):
        beholder.agree(scores=scores, ratings=ratings)


def test_a_verdict_keeps_the_answer_that_its_mapping_has() -> None:
    made = {"case": "a", "rubric": "r", "rubric_version": "1", "judge": "j", "outcome": "refused", "answer": "No."}
    verdict = beholder.Verdict.from_dict(made)
    assert verdict.answer == "No."
    assert "answer" not in verdict.to_dict()
    assert beholder.Verdict.from_dict({**verdict.to_dict(), "answer": verdict.answer}) == verdict
    assert beholder.Verdict.from_dict(verdict.to_dict()).answer == ""
