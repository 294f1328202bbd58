"""The pytest plug-in, in real pytest runs: plain assertions, a judge that fails, a budget over all processes of xdist,
answers that are paid for once, one report; and nothing where it is not used."""

from __future__ import annotations

import json
import operator
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path

import cv2
import numpy as np
import pytest
from msgspec import structs

from beholder import Run, list_runs
from beholder.testing.base import Fault
from beholder.testing.server import JudgeServer

KEYS = ("unchanged_regions", "global_consistency", "identity_preservation")
WORDS = "the wall behind the car shows the same mortar lines and the same shading as it did before"
JUDGE = "--beholder-judge=openai:m"

Result = subprocess.CompletedProcess[str]
RunPytest = Callable[..., Result]


def answer(score: int) -> dict[str, object]:
    return {"criteria": {key: {"justification": WORDS, "score": score} for key in KEYS}}


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with JudgeServer(answer(6), keyless=True) as server:
        yield server


@pytest.fixture
def run_pytest(tmp_path: Path, server: JudgeServer) -> RunPytest:
    """Runs pytest in a project of its own; `body` is its test file, after the imports."""
    pixels = np.random.default_rng(1).integers(0, 255, (64, 64, 3), np.uint8)
    cv2.imwrite(str(tmp_path / "before.png"), pixels)
    cv2.imwrite(str(tmp_path / "after.png"), cv2.rotate(pixels, cv2.ROTATE_180))
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    # Only what a test needs is loaded: other plug-ins that happen to be installed take seconds to start.
    needed = {
        "-n2": "xdist.plugin",
        "--reruns=2": "pytest_rerunfailures",
        "--asyncio-mode=auto": "pytest_asyncio.plugin",
    }

    def run(body: str, *flags: str, env: dict[str, str] | None = None) -> Result:
        head = (
            "import pytest, beholder as b\n"
            "from beholder.integrations.pytest import beholder_cases\n"
            'PAIR = {"input": "before.png", "edited": "after.png"}\n'
        )
        (tmp_path / "test_it.py").write_text(head + body)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "BEHOLDER_"))}
        plugins = ["beholder.integrations.pytest", *(needed[flag] for flag in flags if flag in needed)]
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *(f"-p{name}" for name in plugins), *flags],
            cwd=tmp_path,
            env={
                **inherited,
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
                "OPENAI_BASE_URL": server.openai_url,
                "COLUMNS": "160",
                **(env or {}),
            },
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run


TWO_TESTS = """
def test_score(beholder):
    assert beholder("edit-preservation", **PAIR, instruction="make it red").score >= 0.8

def test_verdict(beholder):
    assert beholder("edit-preservation", **PAIR, instruction="make it blue") >= 0.8
"""


class TestAssertions:
    def test_plain_assertions_pass(self, run_pytest: RunPytest, server: JudgeServer) -> None:
        result = run_pytest(TWO_TESTS, JUDGE)
        assert result.returncode == 0, result.stdout
        assert "2 passed" in result.stdout
        assert "beholder: 2 verdicts" in result.stdout
        assert len(server.received) == 2

    def test_a_failure_is_explained_by_its_criteria_and_shows_the_card(
        self, run_pytest: RunPytest, server: JudgeServer
    ) -> None:
        server.default = answer(4)
        result = run_pytest(TWO_TESTS, JUDGE, "--junitxml=out.xml")
        assert result.returncode == 1
        assert "0.5 >= 0.8" in result.stdout
        assert f"unchanged_regions 4 of 7: {WORDS}" in result.stdout
        assert "beholder: test_it.py::test_score by edit-preservation" in result.stdout

    def test_other_comparisons_are_left_to_pytest(self, run_pytest: RunPytest) -> None:
        body = """
def test_it(beholder):
    beholder("edit-preservation", **PAIR, instruction="make it red")
    assert 0.5 >= 0.8
"""
        result = run_pytest(body, JUDGE)
        assert "assert 0.5 >= 0.8" in result.stdout
        assert "unchanged_regions 6 of 7" not in result.stdout.split("beholder:")[0]

    def test_a_verdict_by_itself_is_neither_true_nor_false(self, run_pytest: RunPytest) -> None:
        body = """
def test_it(beholder):
    assert beholder("edit-preservation", **PAIR, instruction="make it red")
"""
        result = run_pytest(body, JUDGE)
        assert "1 failed" in result.stdout
        assert "compare its score: verdict >= 0.8, or ask for verdict.passed" in result.stdout

    def test_a_verdict_without_a_score_compares_with_nothing(self) -> None:
        from beholder import JudgeUnavailable, Outcome, Verdict

        verdict = Verdict("c", "r", "1", "j", Outcome.REFUSED, detail="I would rather not")
        for compare in (operator.ge, operator.gt, operator.le, operator.lt):
            with pytest.raises(JudgeUnavailable, match="c has no score: refused, I would rather not") as caught:
                compare(verdict, 0.5)
            assert caught.value.verdict is verdict


class TestAFailedJudge:
    def test_is_an_error_and_no_failed_assertion(
        self, run_pytest: RunPytest, server: JudgeServer, tmp_path: Path
    ) -> None:
        server.default = "I'm sorry, I can't help with that."
        result = run_pytest(TWO_TESTS, JUDGE, "--junitxml=out.xml")
        assert result.returncode == 1
        assert "2 errors" in result.stdout
        assert "failed" not in result.stdout.splitlines()[-1]
        suite = next(ElementTree.parse(tmp_path / "out.xml").iter("testsuite"))
        assert (suite.get("errors"), suite.get("failures")) == ("2", "0")
        assert "JudgeUnavailable: refused" in next(suite.iter("error")).get("message", "")

    def test_can_be_a_failure_or_a_skip(self, run_pytest: RunPytest, server: JudgeServer) -> None:
        server.default = "I'm sorry, I can't help with that."
        assert "2 failed" in run_pytest(TWO_TESTS, JUDGE, "--beholder-unscored=fail").stdout
        skipped = run_pytest(TWO_TESTS, JUDGE, "--beholder-unscored=skip", "-rs")
        assert skipped.returncode == 0
        assert "2 skipped" in skipped.stdout
        assert "no score: refused" in skipped.stdout

    def test_an_expected_failure_is_one_without_a_score_too_unless_it_says_which(
        self, run_pytest: RunPytest, server: JudgeServer
    ) -> None:
        server.default = "I'm sorry, I can't help with that."
        body = TWO_TESTS.replace("def test_score", "@pytest.mark.xfail\ndef test_score")
        body = body.replace("def test_verdict", "@pytest.mark.xfail(raises=AssertionError)\ndef test_verdict")
        assert "1 xfailed, 1 error" in run_pytest(body, JUDGE).stdout

    @pytest.mark.parametrize("flags", [(), ("--beholder-unscored=skip",), ("--beholder-offline",)])
    def test_an_image_that_is_missing_is_wrong_use(
        self, run_pytest: RunPytest, server: JudgeServer, flags: tuple[str, ...]
    ) -> None:
        body = """
def test_it(beholder):
    assert beholder("edit-preservation", input="before.png", edited="gone.png", instruction="make it red") >= 0.8
"""
        result = run_pytest(body, JUDGE, *flags)
        assert result.returncode == 1
        assert "1 error" in result.stdout
        assert "gone.png" in result.stdout
        assert "session.py" not in result.stdout  # the traceback ends in the test, where the mistake is
        assert not server.received

    def test_a_missing_key_is_an_error_with_its_sentence(self, run_pytest: RunPytest) -> None:
        result = run_pytest(
            TWO_TESTS, "--beholder-judge=anthropic:m", env={"ANTHROPIC_API_KEY": "", "OPENAI_BASE_URL": ""}
        )
        assert "2 errors" in result.stdout
        assert "ANTHROPIC_API_KEY" in result.stdout

    def test_is_asked_again_by_a_rerun_and_an_answer_is_not(self, run_pytest: RunPytest, server: JudgeServer) -> None:
        server.say(Fault.status(400, "the image is too blue"), answer(6))
        body = """
def test_it(beholder):
    assert beholder("edit-preservation", **PAIR, instruction="make it red") >= 0.8
"""
        result = run_pytest(body, JUDGE, "--reruns=2")
        assert "1 passed, 1 rerun" in result.stdout
        assert "beholder: 1 verdict," in result.stdout  # and not one for each attempt
        server.default = answer(2)
        asked = len(server.received)
        failed = run_pytest(body.replace("red", "blue"), JUDGE, "--reruns=2")
        assert "1 failed, 2 rerun" in failed.stdout
        assert len(server.received) == asked + 1
        server.say("I'm sorry, I can't help with that.")
        server.default = answer(6)
        refused = body.replace("red", "green")
        assert "1 error, 2 rerun" in run_pytest(refused, JUDGE, "--reruns=2").stdout
        assert len(server.received) == asked + 2
        assert "1 passed" in run_pytest(refused, JUDGE).stdout  # the next session asks again


class TestProcesses:
    MANY = """
@pytest.mark.parametrize("number", range(8))
def test_it(beholder, number):
    assert beholder("edit-preservation", **PAIR, instruction=f"make it {number}") >= 0.8
"""

    def test_workers_share_one_run_and_one_report(self, run_pytest: RunPytest, tmp_path: Path) -> None:
        result = run_pytest(self.MANY, JUDGE, "-n2", "--beholder-report=out.html", "--beholder-ledger=l.db")
        assert result.returncode == 0, result.stdout + result.stderr
        assert "beholder: 8 verdicts" in result.stdout
        assert "beholder: report out.html" in result.stdout
        [record] = list_runs(tmp_path / "l.db")
        run = Run.load(record.id, tmp_path / "l.db")
        assert sorted(verdict.case for verdict in run.verdicts()) == [f"test_it.py::test_it[{n}]" for n in range(8)]
        assert "test_it.py::test_it[7]" in (tmp_path / "out.html").read_text("utf-8")

    def test_the_budget_holds_for_all_workers_together(
        self, run_pytest: RunPytest, server: JudgeServer, tmp_path: Path
    ) -> None:
        # Tokens are as the server counts them; what a call may cost at most is reserved, so fewer are asked.
        body = "pytestmark = pytest.mark.beholder(options={'price': {'input': 10, 'output': 10}})\n" + self.MANY
        free = run_pytest(body, JUDGE, "--beholder-ledger=free.db", "--beholder-budget=100")
        assert "8 passed" in free.stdout, free.stdout
        [all_of_it] = list_runs(tmp_path / "free.db")
        assert all_of_it.spent_usd is not None
        budget = float(all_of_it.spent_usd) / 2
        result = run_pytest(body, JUDGE, "-n2", "--beholder-ledger=l.db", f"--beholder-budget={budget:.8f}")
        assert result.returncode == 1
        assert "over_budget" in result.stdout
        [record] = list_runs(tmp_path / "l.db")
        assert record.spent_usd is not None
        assert float(record.spent_usd) <= budget
        assert f"without a score, ${record.spent_usd:.4f}; ledger" in result.stdout  # what was not asked cost nothing


class TestTheLedger:
    def test_an_answer_is_paid_for_once(self, run_pytest: RunPytest, server: JudgeServer) -> None:
        assert "2 passed" in run_pytest(TWO_TESTS, JUDGE).stdout
        asked = len(server.received)
        assert "2 passed" in run_pytest(TWO_TESTS, JUDGE).stdout
        assert len(server.received) == asked == 2

    def test_offline_asks_nobody_and_needs_no_key(self, run_pytest: RunPytest, server: JudgeServer) -> None:
        one = TWO_TESTS.split("def test_verdict")[0]
        assert "1 passed" in run_pytest(one, JUDGE).stdout
        asked = len(server.received)
        result = run_pytest(TWO_TESTS, JUDGE, "--beholder-offline", "-rs")
        assert "1 passed, 1 skipped" in result.stdout
        assert "the ledger has no answer of openai:m to this, and nobody is asked" in result.stdout
        assert len(server.received) == asked

    def test_offline_answers_what_was_asked_with_any_options(self, run_pytest: RunPytest, server: JudgeServer) -> None:
        options = {"base_url": server.openai_url, "params": {"temperature": 0, "max_side": 32}, "timeout_s": 30}
        options |= {"price": {"input": 1, "output": 1}, "structured_output": "off", "key_variable": "MY_KEY"}
        marked = f"pytestmark = pytest.mark.beholder(judge='openai:m', options={options}, budget=1)\n"
        one, two = marked + TWO_TESTS.split("def test_verdict")[0], marked + TWO_TESTS
        assert "1 passed" in run_pytest(one, env={"MY_KEY": "k" * 20}).stdout
        asked = len(server.received)
        result = run_pytest(two, "--beholder-offline")
        assert "1 passed, 1 skipped" in result.stdout, result.stdout
        assert len(server.received) == asked

    def test_without_the_cache_plugin_there_is_a_ledger_too(self, run_pytest: RunPytest) -> None:
        assert "2 passed" in run_pytest(TWO_TESTS, JUDGE, "-p", "no:cacheprovider").stdout


class TestMarkersAndSuites:
    def test_a_marker_names_judge_and_samples(self, run_pytest: RunPytest, server: JudgeServer) -> None:
        body = """
@pytest.mark.beholder(judge="openai:other", samples=3)
def test_it(beholder):
    verdict = beholder("edit-preservation", **PAIR, instruction="make it red")
    assert verdict.judge == "openai:other ×3"
"""
        assert run_pytest(body).returncode == 0
        assert len(server.received) == 3

    def test_the_command_line_comes_before_the_marker(self, run_pytest: RunPytest, server: JudgeServer) -> None:
        body = """
@pytest.mark.beholder(judge="openai:other")
def test_it(beholder):
    verdict = beholder("edit-preservation", **PAIR, instruction="make it red")
    assert verdict.judge == "openai:m"
"""
        assert run_pytest(body, JUDGE).returncode == 0

    @pytest.mark.parametrize("options", ["None", "b.Options(audit=False)", "{'audit': False}"])
    def test_a_marker_takes_options_in_any_form(self, run_pytest: RunPytest, options: str) -> None:
        body = f"""
@pytest.mark.beholder(options={options}, budget=None)
def test_it(beholder):
    verdict = beholder("edit-preservation", **PAIR, instruction="make it red")
    assert bool(verdict.measurements) == ({options} is None)
"""
        assert "1 passed" in run_pytest(body, JUDGE).stdout

    def test_of_several_budgets_the_smallest_counts(self, run_pytest: RunPytest, server: JudgeServer) -> None:
        body = """
@pytest.mark.beholder(budget=100, options={"price": {"input": 10, "output": 10}})
def test_it(beholder):
    assert beholder("edit-preservation", **PAIR, instruction="make it red") >= 0.8
"""
        result = run_pytest(body, JUDGE, "--beholder-budget=0.000001")
        assert "over_budget" in result.stdout
        assert not server.received

    def test_a_wrong_marker_is_one_sentence(self, run_pytest: RunPytest) -> None:
        body = """
@pytest.mark.beholder(jugde="openai:other")
def test_it(beholder):
    beholder("edit-preservation", **PAIR, instruction="make it red")
"""
        result = run_pytest(body, "--collect-only")  # before any test runs
        assert result.returncode == 2
        assert "test_it: @pytest.mark.beholder takes judge, samples, budget, options by name, and not" in result.stdout
        assert "1 error" in result.stdout

    def write_suite(self, folder: Path, threshold: str = "threshold: 0.8\n") -> None:
        (folder / "suite.yaml").write_text(
            f"rubric: edit-preservation\ncases: cases.jsonl\njudges: [openai:m]\n{threshold}"
        )
        rows = [
            {"id": f"c{n}", "input": "before.png", "edited": "after.png", "instruction": f"make it {n}"}
            for n in range(2)
        ]
        (folder / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    SUITE = """
@pytest.mark.parametrize("case", beholder_cases("suite.yaml"))
def test_suite(beholder, case):
    beholder.passes(case)
"""

    def test_each_case_of_a_suite_is_a_test(self, run_pytest: RunPytest, server: JudgeServer, tmp_path: Path) -> None:
        self.write_suite(tmp_path)
        result = run_pytest(self.SUITE, "-vv")
        assert result.returncode == 0, result.stdout
        assert "test_suite[c0] PASSED" in result.stdout
        server.default = answer(4)
        failed = run_pytest(self.SUITE, "--beholder-ledger=other.db")
        assert "2 failed" in failed.stdout
        summary = failed.stdout.split("short test summary info")[1]
        assert "did not pass: edit-preservation 0.5 is below the threshold 0.8" in summary
        assert "unchanged_regions 4 of 7" in failed.stdout

    def test_the_limits_of_a_suite_are_those_of_its_judges(
        self, run_pytest: RunPytest, server: JudgeServer, tmp_path: Path
    ) -> None:
        limits = "limits: {timeout_s: 30, requests_per_minute: 600, tokens_per_minute: 1000000, total_timeout_s: 60}\n"
        self.write_suite(tmp_path, f"threshold: 0.8\nbudget: 1\n{limits}")
        suite = (tmp_path / "suite.yaml").read_text()
        priced = "[{judge: openai:m, price: {input: 1, output: 1}}]"
        (tmp_path / "suite.yaml").write_text(suite.replace("[openai:m]", priced))
        result = run_pytest(self.SUITE)
        assert "2 passed" in result.stdout, result.stdout
        asked = len(server.received)
        assert "2 passed" in run_pytest(self.SUITE, "--beholder-offline").stdout
        assert len(server.received) == asked == 2

    def test_what_a_suite_sets_is_kept(self, tmp_path: Path) -> None:
        """Every key of a suite that is also an option, whatever keys there will be."""
        from beholder.api.arguments import make_suite
        from beholder.api.options import Options
        from beholder.integrations.pytest import _read_suite

        self.write_suite(tmp_path)
        (tmp_path / "styles").mkdir()
        (tmp_path / "own.md").write_text("Judge {{instruction}}.")
        given: dict[str, object] = {"setting": "offline", "orders": "given", "probe": True, "max_side": 64}
        given |= {"detail": "low", "allow_remote": True, "thumbnails": False, "audit": False, "timeout_s": 7.0}
        given |= {"total_timeout_s": 8.0, "requests_per_minute": 9.0, "tokens_per_minute": 10.0}
        files = {"styles": [str(tmp_path / "styles")], "prompt": str(tmp_path / "own.md")}
        allowed = {name: value for name, value in given.items() if name not in ("orders", "probe")}
        suite, _ = make_suite(tmp_path / "suite.yaml", allowed | files)
        suite = structs.replace(suite, orders="given", probe=True)  # which are not for this rubric
        found = Options.of(_read_suite(suite, own_judges=False).options)
        by_suite = {one.name for one in fields(Options)} & {*suite.__struct_fields__, *suite.limits.__struct_fields__}
        # The first three are in the rubrics of the suite, and no file can set the last.
        left = by_suite - {"threshold", "gates", "not_applicable", "allow_http_key"}
        assert left == given.keys() | files.keys() | {"calibration"}
        assert {name: getattr(found, name) for name in given} == given
        assert found.prompt_text == "Judge {{instruction}}."
        assert [Path(folder).name for folder in found.styles] == ["styles"]

    @pytest.mark.parametrize("call", ['"edit-preservation", **PAIR', '"edit-preservation"'])
    def test_passes_is_for_cases_of_a_suite(self, run_pytest: RunPytest, call: str) -> None:
        result = run_pytest(f"def test_it(beholder):\n    beholder.passes({call})\n")
        assert "UsageError: passes() takes a case of `beholder_cases`" in result.stdout

    def test_a_suite_without_a_threshold_is_named(self, run_pytest: RunPytest, tmp_path: Path) -> None:
        self.write_suite(tmp_path, threshold="")
        assert "has no threshold, so nothing can fail" in run_pytest(self.SUITE).stdout

    def test_a_wrong_suite_is_an_error_of_the_collection(self, run_pytest: RunPytest, tmp_path: Path) -> None:
        self.write_suite(tmp_path)
        (tmp_path / "cases.jsonl").write_text('{"id": "c0", "input": "before.png"}\n')
        result = run_pytest(self.SUITE)
        assert result.returncode == 2
        assert "cases.jsonl, line 1" in result.stdout


class TestElsewhere:
    def test_the_example_in_the_docs_runs(self, run_pytest: RunPytest, server: JudgeServer, tmp_path: Path) -> None:
        page = (Path(__file__).parents[2] / "docs" / "integrations.md").read_text("utf-8")
        example = page.split("```py\n")[1].split("```")[0]
        TestMarkersAndSuites().write_suite(tmp_path)
        (tmp_path / "photo.jpg").write_bytes((tmp_path / "before.png").read_bytes())
        (tmp_path / "out.png").write_bytes((tmp_path / "after.png").read_bytes())
        result = run_pytest(example, JUDGE, "-k", "not important")
        assert "3 passed" in result.stdout, result.stdout
        result = run_pytest(example, "--beholder-judge=instruments", "-k", "important", "--beholder-unscored=skip")
        assert "1 skipped" in result.stdout, result.stdout  # a restyle cannot be measured in full

    def test_tests_in_an_event_loop_may_judge(self, run_pytest: RunPytest) -> None:
        body = """
async def test_it(beholder):
    assert beholder("edit-preservation", **PAIR, instruction="make it red") >= 0.8
"""
        assert "1 passed" in run_pytest(body, JUDGE, "--asyncio-mode=auto").stdout

    def test_nothing_is_loaded_or_printed_where_it_is_not_used(self, tmp_path: Path) -> None:
        body = """
import sys
def test_it():
    loaded = [name for name in sys.modules if name.startswith("beholder.")]
    assert loaded == ["beholder.integrations", "beholder.integrations.pytest"], loaded
"""
        (tmp_path / "test_plain.py").write_text(body)
        result = subprocess.run(  # with all plug-ins, so that it is found by its entry point
            [sys.executable, "-m", "pytest", "-q", "test_plain.py"], cwd=tmp_path, capture_output=True, text=True
        )
        assert result.returncode == 0, result.stdout
        assert "beholder" not in result.stdout
        assert not (tmp_path / ".pytest_cache" / "d" / "beholder").exists()

    @pytest.mark.parametrize(
        ("flag", "sentence"),
        [
            ("--beholder-unscored=maybe", "is one of error, fail, skip, not 'maybe'"),
            ("--beholder-budget=much", "is an amount of US dollars, and 'much' is none"),
            ("--beholder-budget=-1", "is an amount of US dollars"),
            ("--beholder-report=out.pdf", "is an HTML file"),
        ],
    )
    def test_a_wrong_option_is_one_sentence(self, run_pytest: RunPytest, flag: str, sentence: str) -> None:
        result = run_pytest(TWO_TESTS, flag)
        assert result.returncode == 4
        assert sentence in result.stderr
