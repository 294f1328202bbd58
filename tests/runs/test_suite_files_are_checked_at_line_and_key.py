"""What is wrong in a suite is told with its line and key, or with its flag; a suite never holds a key."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path

import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beholder.errors import RubricError, UsageError
from beholder.runs.suite import load_suite
from beholder.runs.suite_file import suite_schema

QUIET = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]

CASE = {"id": "p1", "original": "a.jpg", "restyled": "b.png", "style": "Anime"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cases.jsonl").write_text(json.dumps(CASE))
    return tmp_path


def wrong(folder: Path, text: str) -> str:
    (folder / "suite.yaml").write_text(text)
    with pytest.raises(RubricError) as error:
        load_suite(folder / "suite.yaml")
    return str(error.value).replace(str(folder / "suite.yaml"), "suite.yaml")


START = "rubric: restyle\ncases: cases.jsonl\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{START}sample: 3\n", "line 3, sample: is not a key that is known here; did you mean 'samples'?"),
        (f"{START}judge: openai:x\n", "line 3, judge: is not a key that is known here; did you mean 'judges'"),
        (
            f"{START}timeout_s: 9\n",
            "line 3, timeout_s: .*in a file it is limits.timeout_s",
        ),
        (f"{START}limits:\n  request_per_minute: 3\n", "line 4, limits.request_per_minute: .* 'requests_per_minute'"),
        (f"{START}judges:\n  - {{judge: openai:x, url: http://x}}\n", r"line 4, judges\[0\].url: .* 'base_url'"),
        (f"{START}xyzzy: 3\n", "line 3, xyzzy: .*the keys are name, cases"),
        (f"{START}address: 10.0.0.1:6379\n", "line 3, address: .*the engine is local; set engine to ray"),
        (f"{START}samples: 0\n", "line 3, samples: should be a whole number of at least 1, not 0"),
        (f"{START}samples: many\n", "line 3, samples: should be a whole number"),
        (f"{START}concurrency: 100000\n", "line 3, concurrency"),
        (f"{START}budget: -1\n", "line 3, budget"),
        (f"{START}budget: .nan\n", "line 3, budget: should be a number of at least 0, not nan"),
        (f"{START}budget: .inf\n", "line 3, budget: inf should be a number"),
        (f"{START}threshold: 70\n", "line 3, threshold"),
        (f"{START}limits: {{timeout_s: 0}}\n", "line 3, limits.timeout_s"),
        (f"{START}max_unscored: many\n", "line 3, max_unscored: 'many' should be a number of cases, or a share"),
        (f"{START}max_unscored: 101%\n", "line 3, max_unscored"),
        (f"{START}max_unscored: -3\n", "line 3, max_unscored"),
        (f"{START}not_applicable: maybe\n", "line 3, not_applicable"),
        (f"{START}gates: [hallucinations]\n", r"line 3, gates\[0\]: restyle has no finding 'hallucinations'"),
        (f"{START}fail_under:\n  acuracy: 4\n", "line 4, fail_under.acuracy: is not a criterion of restyle"),
        (f"{START}fail_under:\n  accuracy: good\n", "line 4, fail_under.accuracy: 'good' should be a number"),
        (f"{START}setting: online\n", "line 3, setting: 'online' is not a setting here; there is none"),
        (f"{START}styles: [mine]\n", r"line 3, styles\[0\]: there is no folder"),
        (f"{START}prompt: mine.md\n", "line 3, prompt: .* cannot be read"),
        (f"{START}fields:\n  mood: dark\n", "line 4, fields.mood: is not a field of restyle; there are style"),
        (f"{START}fields:\n  style: 12\n", "line 4, fields.style: should be a text"),
        (f"{START}judges: [gpt-5]\n", r"line 3, judges\[0\]: 'gpt-5' names no judge"),
        (f"{START}name: |\n  a\n  b\n", "line 3, name: .* one line"),
        (f"{START}pairs: {{original: a}}\n", "line 3, pairs: `cases` and `pairs` are both given"),
        ("rubric: restyle\npairs:\n  original: 12\n", "line 3, pairs.original: should be a pattern"),
        (
            "rubric: restyle\npairs:\n  photo: a\n",
            "line 3, pairs.photo: is not an image of restyle",
        ),
        ("rubric: restlye\ncases: cases.jsonl\n", "line 1, rubric: There is no rubric 'restlye'.*'restyle'"),
        ("rubric: restyle\ncases: none.jsonl\n", "line 2, cases: there is no case file"),
        ("rubric: restyle\n", "line 1, cases: no cases are given"),
        ("cases: cases.jsonl\n", "line 1, rubric: no rubric is named"),
        ("rubric: restyle\nrubric: edit\n", "line 2, rubric: stands here twice"),
        ("", "is empty"),
        ("- a\n", "line 1: should be "),
        ("a: [\n", "line 2: is not valid YAML"),
    ],
)
def test_each_mistake_has_its_line_and_key(folder: Path, text: str, said: str) -> None:
    assert re.search(f"^suite.yaml: {said}", wrong(folder, text), re.MULTILINE)


def test_all_mistakes_are_told_at_once(folder: Path) -> None:
    said = wrong(folder, f"{START}judges: [x, openai:a]\nstyles: [none]\nfail_under: {{beauty: 1}}\nprompt: none.md\n")
    assert len(said.splitlines()) == 4


GOOD: dict[str, object] = {"rubric": "restyle", "cases": "cases.jsonl", "judges": ["openai:x"]}
SECRET = "sk-do-not-show-me-1234567890"


@pytest.mark.parametrize(
    "judge",
    [
        f"{{judge: openai:x, key: {SECRET}}}",
        f"{{judge: openai:x, api_key: {SECRET}}}",
        f"{{judge: openai:x, key_variable: {SECRET}}}",
        f"{{judge: openai:x, params: {{api_key: {SECRET}}}}}",
        f"{{judge: openai:x, params: {{extra_headers: {{Authorization: {SECRET}}}}}}}",
        f"{{judge: openai:x, base_url: 'https://me:{SECRET}@host/v1'}}",
        f"{{judge: openai:x, base_url: 'https://host/v1?key={SECRET}'}}",
    ],
)
def test_a_suite_never_holds_a_key_and_never_shows_one(folder: Path, judge: str) -> None:
    said = wrong(folder, f"{START}judges:\n  - {judge}\n")
    assert SECRET not in said
    assert "line 4, judges[0]" in said
    assert "variable" in said or "leave that part out" in said


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({}, "--cases: no cases are given"),
        ({"rubric": "restyle", "cases": "none.jsonl"}, "--cases: there is no case file 'none.jsonl'"),
        ({"rubric": "restyle", "cases": "cases.jsonl", "judges": ["gpt"]}, r"--judge \(\[0\]\): 'gpt' names no judge"),
        ({"rubric": "restyle", "pairs": {"photo": "x"}}, r"--pair \(photo\): is not an image of restyle"),
        ({"budget": -1}, "--budget: should be a number of at least 0, not -1"),
        ({"fail_under": {"beauty": 1}, "rubric": "restyle", "cases": "cases.jsonl"}, r"--fail-under \(beauty\)"),
        ({"max_unscored": "x", "rubric": "restyle", "cases": "cases.jsonl"}, "--max-unscored: 'x' should be"),
        (
            {"rubric": "restyle", "cases": "cases.jsonl", "judges": ["openai:x"], "base_url": "nowhere"},
            "--base-url: 'nowhere' is no base URL",
        ),
        ({"limits": {"timeout_s": 0}}, "--timeout: [^-]*$"),
        ({"limits": {"total_timeout_s": -1}}, "--total-timeout: "),
        ({"limits": {"requests_per_minute": 0}}, "--requests-per-minute: "),
        ({"limits": {"tokens_per_minute": 0}}, "--tokens-per-minute: "),
        ({"price": {"input": -1, "output": 1}}, "--price-input: "),
        ({"price": {"input": 1, "output": -1}}, "--price-output: "),
        ({**GOOD, "price": {"input": 1, "output": float("inf")}}, "--price-output: inf should be a number.$"),
        ({**GOOD, "params": {"api_key": "x"}}, "--param: 'api_key': a suite never holds a key"),
        ({**GOOD, "key_variable": "sk-1"}, "--key-variable: is not the name of a variable"),
        ({**GOOD, "gates": ["beauty"]}, r"--gate \(\[0\]\): "),
        ({**GOOD, "tags": ["a\nb"]}, "--tag: "),
        ({**GOOD, "fields": {"mood": "dark"}}, r"--set \(mood\): "),
        ({**GOOD, "judges": ["openai:x"] * 2}, r"--judge \(\[1\]\): stands here twice; use `samples`"),
        ({"samples": 0, "limit": 0}, "--limit: .*\n--samples: "),
    ],
)
def test_a_wrong_flag_is_told_as_a_flag(folder: Path, flags: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=f"^{said}"):
        load_suite(None, flags)


@pytest.mark.parametrize(
    "twice",
    [
        "[openai:x, openai:y, openai:x]",
        "[openai:x, openai:y, {judge: openai:x}]",
        "[openai:x, openai:y, {judge: openai:x, key_variable: OTHER_KEY, price: {input: 1, output: 2}}]",
        "[openai:x, openai:y, {judge: openai:x, base_url: 'https://api.openai.com/v1/'}]",
        "[{judge: openai:x, params: {a: 1, b: 2}}, openai:x, {judge: openai:x, params: {b: 2, a: 1}}]",
    ],
)
def test_a_judge_that_would_give_one_answer_twice_is_refused(folder: Path, twice: str) -> None:
    said = wrong(folder, f"{START}judges: {twice}\n")
    assert said == ("suite.yaml: line 3, judges[2]: stands here twice; use `samples` to ask one judge several times")


@pytest.mark.parametrize("other", ["params: {temperature: 1}", "params: {max_side: 9}", "base_url: http://localhost"])
def test_one_model_may_judge_in_two_ways(folder: Path, other: str) -> None:
    (folder / "suite.yaml").write_text(f"{START}judges: [openai:x, {{judge: openai:x, {other}}}]\n")
    assert len(load_suite("suite.yaml").judges) == 2


def test_a_flag_for_all_judges_over_a_file_is_told_as_a_flag_once(folder: Path) -> None:
    (folder / "suite.yaml").write_text(f"{START}judges: [openai:x, openai:y]\n")
    with pytest.raises(UsageError, match=r"^--base-url: 'nowhere' is no base URL[^\n]*$"):
        load_suite("suite.yaml", {"base_url": "nowhere"})


def test_what_the_file_says_wrong_is_not_told_as_a_flag(folder: Path) -> None:
    (folder / "suite.yaml").write_text(f"{START}limits: {{tokens_per_minute: .inf}}\nfields: {{mood: dark}}\n")
    flags = {"limits": {"timeout_s": 5}, "fields": {"style": "Anime"}}
    with pytest.raises(RubricError, match=r"line 3, limits.tokens_per_minute: inf(.|\n)*line 4, fields.mood: is not"):
        load_suite("suite.yaml", flags)


def test_a_flag_over_a_file_is_told_as_a_flag(folder: Path) -> None:
    (folder / "suite.yaml").write_text(START)
    with pytest.raises(UsageError, match=r"^--cases: there is no case file 'none\.csv'"):
        load_suite("suite.yaml", {"cases": "none.csv"})


def test_the_schema_takes_what_we_take_and_refuses_what_we_refuse() -> None:
    validator = jsonschema.Draft202012Validator(suite_schema())
    jsonschema.Draft202012Validator.check_schema(suite_schema())
    good = yaml.safe_load(
        """
        rubric: restyle
        pairs: {original: "a/{name}.jpg"}
        judges: [openai:x, {judge: openai:y, base_url: http://localhost, price: {input: 1, output: 2.5}}]
        fail_under: {accuracy: 4}
        max_unscored: 2%
        limits: {requests_per_minute: 10}
        """
    )
    assert validator.is_valid(good)
    for bad in ({"samples": 0}, {"sample": 1}, {"pairs": {"a": 1}}, {"judges": [{"judge": "x", "key": "y"}]}):
        assert not validator.is_valid({**good, **bad})


@settings(max_examples=150, deadline=None, suppress_health_check=QUIET)
@given(
    st.dictionaries(
        st.sampled_from(sorted(suite_schema()["$defs"]["SuiteFile"]["properties"])),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
            max_leaves=4,
        ),
    )
)
def test_any_values_are_a_suite_or_wrong_use(folder: Path, values: dict[str, object]) -> None:
    values = {"rubric": "restyle", "cases": "cases.jsonl", **values}
    (folder / "suite.yaml").write_text(yaml.safe_dump(values))
    for path, flags in ((folder / "suite.yaml", None), (None, values)):
        with suppress(UsageError):
            load_suite(path, flags).public_dict()
