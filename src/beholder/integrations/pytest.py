"""The pytest plug-in: the fixture `beholder`, the marker of that name, and the options `--beholder-…`.

pytest loads this module in every project where Beholder is installed, so it imports nothing but pytest; the rest is
imported when a test first uses the fixture. Tests with the same judge, samples and options are one run in one ledger,
in all processes of pytest-xdist: its budget holds for all of them together, and the report has the verdicts of all.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import secrets
import tempfile
import warnings
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from beholder.api.options import Judges, RubricLike
    from beholder.api.session import Session
    from beholder.cases.case import Case
    from beholder.errors import JudgeUnavailable
    from beholder.judges.base import Judge
    from beholder.rubrics.rubric import Rubric
    from beholder.runs.suite import Suite
    from beholder.verdicts.verdict import Verdict

PROPERTY = "beholder"  # name of the properties that carry verdicts to the summary, and into JUnit files
UNSCORED = ("error", "fail", "skip")
MARKER_KEYS = ("judge", "samples", "budget", "options")
MAX_EXPLAINED = 6  # lines; pytest cuts longer explanations off

_OPTIONS = {
    "judge": "who judges, such as openai:gpt-5-mini; by default the instruments, which measure offline",
    "budget": "US dollars that all tests with the same judge and options, in all processes, never pass together",
    "ledger": "where verdicts are stored: a file or a postgresql:// URL; by default in pytest's cache folder",
    "report": "write the verdicts of this session as one HTML file",
    "unscored": "what becomes of a test whose judge gave no score: error (default), fail or skip",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("beholder", "judging images (beholder)")
    for name, about in _OPTIONS.items():
        group.addoption(f"--beholder-{name}", dest=f"beholder_{name}", default=None, help=about, metavar=name.upper())
        parser.addini(f"beholder_{name}", about)
    about = "ask nobody: use the answers that the ledger has, and skip tests for which it has none"
    group.addoption("--beholder-offline", dest="beholder_offline", action="store_true", default=None, help=about)
    parser.addini("beholder_offline", about, type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "beholder(judge=None, samples=1, budget=None, options=None): how the fixture `beholder` judges in this test",
    )
    _check_options(config)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Summary(config), "beholder-summary")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist which run it works on."""
    state = _state(node.config)
    node.workerinput["beholder"] = [state.name, state.ledger]


@pytest.fixture
def beholder(request: pytest.FixtureRequest) -> Beholder:
    """Judge images in a test: `verdict = beholder("edit-preservation", input=…, edited=…, instruction=…)`."""
    return Beholder(_state(request.config), request.node)


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(
    collector: pytest.Collector,
) -> Generator[None, pytest.Item | pytest.Collector | list[Any] | None, Any]:
    made = yield
    for one in made if isinstance(made, list) else [made]:
        if isinstance(one, pytest.Item) and (problem := _find_marker_problem(one)):
            raise collector.CollectError(problem)
    return made


def pytest_runtest_setup(item: pytest.Item) -> None:
    if (state := item.config.stash.get(_STATE, None)) is not None:
        state.verdicts = []


def pytest_assertrepr_compare(config: pytest.Config, op: str, left: object, right: object) -> list[str] | None:
    """Explain a comparison of a verdict, or of its score, by its criteria."""
    state = config.stash.get(_STATE, None)
    if state is None:
        return None
    for one, other in ((left, right), (right, left)):
        # By identity: a score is the very object that the verdict has, and no other number of that value is.
        verdict = next((made for made in state.verdicts if one is made or (one is made.score and one != 0)), None)
        if verdict is not None and isinstance(other, int | float):
            numbers = [value.score if value is verdict else value for value in (left, right)]
            return [f"{_show(numbers[0])} {op} {_show(numbers[1])}", *_explain(verdict)]
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    state = item.config.stash.get(_STATE, None)
    if state is None or call.when != "call" or call.excinfo is None:
        return report
    from beholder.errors import JudgeUnavailable

    if isinstance(error := call.excinfo.value, JudgeUnavailable) and state.unscored != "fail":
        # A test that could not be judged has neither passed nor failed: like one whose fixture could not be set up, it
        # is an error, for the terminal and in JUnit files.
        report.when = "setup"
        report.longrepr = f"JudgeUnavailable: {error}"
    if report.failed:
        report.sections += [(f"beholder: {one.case} by {one.rubric}", one.card()) for one in state.verdicts]
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    if (state := session.config.stash.get(_STATE, None)) is not None:
        for problem in state.close():
            warnings.warn(pytest.PytestWarning(f"beholder: {problem}"), stacklevel=1)


def beholder_cases(suite: str | os.PathLike[str]) -> list[Any]:
    """Return the cases of a suite, for `@pytest.mark.parametrize("case", beholder_cases("suite.yaml"))`.

    Args:
        suite: The `suite.yaml`; a relative path is relative to the file of the test.

    Returns:
        A parameter for each case, with its id. What it holds is for the fixture: `beholder.passes(case)`.

    Raises:
        UsageError: Something is wrong with the suite or a case; pytest shows it as an error of the collection.
    """
    from beholder.api.arguments import make_suite
    from beholder.errors import CaseError

    frame = inspect.currentframe()
    caller = frame.f_back if frame is not None else None
    folder = Path(caller.f_globals.get("__file__", "")).parent if caller is not None else Path()
    loaded, _ = make_suite(folder / suite, {})
    rows = list(loaded.rows())
    if wrong := [f"{row.location} {problem}" for row in rows for problem in row.problems]:
        raise CaseError("\n".join(wrong))
    return [pytest.param(SuiteCase(row.case, loaded), id=row.case.id) for row in rows if row.case is not None]


@dataclass(frozen=True)
class SuiteCase:
    """A case of a suite, for `beholder.passes`."""

    case: Case
    suite: Suite

    def __repr__(self) -> str:
        return f"<{self.case.id} of {self.suite.name}>"


class Beholder:
    """What the fixture `beholder` is: judges cases in one test, with the session that its marker asks for."""

    def __init__(self, state: _State, item: pytest.Item) -> None:
        self._state = state
        self._item = item
        self._made = 0

    def __call__(self, rubric: RubricLike, case: Case | None = None, /, **inputs: object) -> Verdict:
        """Judge one case by one rubric; see `Session.judge`. A case made of inputs has the name of the test as its id.

        Raises:
            JudgeUnavailable: There is no score, because of a judge or an image. What becomes of the test then is for
                `--beholder-unscored` to say; but an image that cannot be read is never a reason to skip it.
        """
        __tracebackhide__ = True
        setup = self._state.make_setup(self._item)
        return self._judge(setup, rubric, case, inputs)

    def passes(self, case: SuiteCase, /, **inputs: object) -> list[Verdict]:
        """Judge a case of a suite by its rubrics, and fail the test if a verdict has not passed.

        Returns:
            The verdicts, one for each rubric.

        Raises:
            AssertionError: A verdict has not passed.
            JudgeUnavailable: There is no score.
            UsageError: It is no case of a suite, or a rubric has no threshold and no gate, so that nothing can fail.
        """
        from beholder.errors import UsageError

        __tracebackhide__ = True
        if not isinstance(case, SuiteCase) or inputs:
            raise UsageError(
                "passes() takes a case of `beholder_cases`, and nothing else; by a rubric and inputs it is "
                "`assert beholder(rubric, …) >= 0.8`."
            )
        setup = self._state.make_setup(self._item, case.suite)
        rubrics = case.suite.rubrics()
        verdicts = [self._judge(setup, rubric, case.case, {}) for rubric in rubrics]
        for verdict in verdicts:
            if verdict.passed is None:
                instead = "set `threshold` in the suite, or judge the case with beholder(rubric, case.case) and assert "
                if verdict.preference is not None:
                    instead = "judge the case with beholder(rubric, case.case) and assert verdict.preference.winner or "
                raise UsageError(
                    f"{verdict.rubric} has no threshold, so nothing can fail: {instead}what you expect of its score."
                )
        if failed := [pair for pair in zip(verdicts, rubrics, strict=True) if not pair[0].passed]:
            why = "; ".join(f"{one.rubric} {', '.join(_find_failures(one, rubric))}" for one, rubric in failed)
            lines = [line for one, _ in failed for line in (repr(one), *_explain(one))]
            raise AssertionError("\n".join([f"did not pass: {why}", *lines]))
        return verdicts

    def _judge(self, setup: _Setup, rubric: RubricLike, case: Case | None, inputs: Mapping[str, object]) -> Verdict:
        from beholder.api.options import Options, make_case
        from beholder.errors import JudgeUnavailable, SetupError, UsageError

        __tracebackhide__ = True
        try:
            made = make_case(Options().load_rubrics(rubric), case, inputs)
            if case is None:
                made = replace(made, id=self._make_id())
            session = self._state.open_session(setup)
            verdict = session.judge(rubric, made)
        except SetupError as error:
            self._give_up(JudgeUnavailable(str(error)))
        except UsageError as error:
            raise error.with_traceback(None) from None  # the mistake is in the test, and not in what it calls
        verdict = _verdict_type()(**{one.name: getattr(verdict, one.name) for one in fields(verdict)})
        self._state.verdicts.append(verdict)
        told = {
            "case": verdict.case,
            "rubric": verdict.rubric,
            "judge": verdict.judge,
            "outcome": str(verdict.outcome),
            "score": verdict.score,
            "cost_usd": None if verdict.cost_usd is None else float(verdict.cost_usd),
            "run": session.run_id,
        }
        self._item.user_properties.append((PROPERTY, json.dumps(told)))
        if verdict.score is None:
            self._give_up(JudgeUnavailable(verdict.missing_score_reason, verdict))
        return verdict

    def _give_up(self, error: JudgeUnavailable) -> NoReturn:
        from beholder.verdicts.verdict import Outcome, Verdict

        __tracebackhide__ = True
        is_unreadable = isinstance(error.verdict, Verdict) and error.verdict.outcome is Outcome.UNREADABLE
        if (self._state.unscored == "skip" or self._state.offline) and not is_unreadable:
            pytest.skip(f"no score: {error}")
        raise error from None

    def _make_id(self) -> str:
        """Return an id for the next case of this test: the same when the test is run again."""
        from beholder.integrations.shared import fit_id

        self._made += 1
        return fit_id(f"{self._item.nodeid} #{self._made}" if self._made > 1 else self._item.nodeid)


@dataclass(frozen=True)
class _Setup:
    """How a test wants its cases judged. Each setup is a run of its own, with a budget of its own."""

    judge: Judges = None
    samples: int = 1
    budget: float | None = None
    options: Mapping[str, object] = field(default_factory=dict)
    suite: Suite | None = None

    @property
    def key(self) -> str:
        """A name for the setup that is the same in all processes."""
        judges = self.judge if isinstance(self.judge, list | tuple) else [self.judge]
        names = [getattr(judge, "name", judge) for judge in judges]
        suite = self.suite.public_dict() if self.suite is not None else None
        parts = [names, self.samples, self.budget, sorted(self.options.items()), suite]
        return hashlib.sha256(json.dumps(parts, default=repr).encode()).hexdigest()[:6]

    def make_judges(self) -> Judges:
        """Return who is asked. Raises `SetupError`."""
        if self.judge is not None or self.suite is None:
            return self.judge
        from beholder.runs.limits import RunLimits
        from beholder.runs.suite_judges import make_judges

        return make_judges(self.suite, RunLimits())  # which send keys only where the suite may

    def make_offline_judges(self) -> Judges:
        """Return judges that ask nobody, in place of the models."""
        from beholder.api.options import Options, as_judges, make_settings
        from beholder.judges.base import INSTRUMENTS
        from beholder.judges.factory import judge_sizing
        from beholder.judges.recorded import StoredAnswersJudge
        from beholder.runs.suite_file import JudgeEntry

        of_suite = self.judge is None and self.suite is not None
        given = [] if of_suite else as_judges(self.judge)
        settings = self.suite if of_suite else make_settings(given, Options.of(self.options), self.samples)
        assert settings is not None
        judges: list[Judge | str] = []
        for position, entry in enumerate(settings.judges):
            assert isinstance(entry, JudgeEntry)
            if entry.judge == INSTRUMENTS or (given and not isinstance(given[position], str)):
                judges.append(given[position] if given else INSTRUMENTS)
            else:
                sizing = judge_sizing(entry.judge, {**settings.image_params(), **entry.params})
                identity = str(entry.identity_key(settings.image_params())[0])
                judges.append(StoredAnswersJudge(entry.judge, identity, sizing))
        return judges


class _State:
    """What the plug-in has in one process: its options, and a session for each setup."""

    def __init__(self, config: pytest.Config) -> None:
        self.judge = _option(config, "judge") or None
        self.budget = float(budget) if (budget := _option(config, "budget")) else None
        self.unscored = _option(config, "unscored") or "error"
        self.offline = _is_offline(config)
        self.verdicts: list[Verdict] = []  # of the test under way
        self._sessions: dict[str, Session] = {}
        given: list[str] = getattr(config, "workerinput", {}).get("beholder", [])
        self.name, self.ledger = given or [f"pytest-{secrets.token_hex(4)}", _find_ledger(config)]

    def make_setup(self, item: pytest.Item, suite: Suite | None = None) -> _Setup:
        """Return how a test is judged: the command line comes before its marker, and that before its suite. Of several
        budgets the smallest counts."""
        said = _read_marker(item)
        own_judges = not (self.judge or said.get("judge"))
        setup = _read_suite(suite, own_judges=own_judges) if suite is not None else _Setup()
        budgets = [one for one in (setup.budget, said.pop("budget", None), self.budget) if one is not None]
        options = {**setup.options, **said.pop("options", {})}
        setup = replace(setup, budget=min(budgets, default=None), options=options, **said)
        return replace(setup, judge=self.judge) if self.judge else setup

    def open_session(self, setup: _Setup) -> Session:
        """Return the session of a setup. Raises `SetupError` and other `UsageError`s."""
        from beholder.api.options import Options
        from beholder.api.session import Session

        if setup.key not in self._sessions:
            options = Options.of(setup.options)
            self._sessions[setup.key] = Session(
                setup.make_offline_judges() if self.offline else setup.make_judges(),
                ledger=self.ledger,
                name=f"{self.name}-{setup.key}",
                budget=None if self.offline else setup.budget,
                samples=setup.samples,
                options=options.without_model() if self.offline else options,
            )
        return self._sessions[setup.key]

    def close(self) -> Iterator[str]:
        """Close all sessions, and return a sentence on each that could not store everything."""
        from beholder.errors import BeholderError

        while self._sessions:
            try:
                self._sessions.popitem()[1].close()
            except BeholderError as error:
                yield str(error)


_STATE = pytest.StashKey[_State]()


def _state(config: pytest.Config) -> _State:
    if _STATE not in config.stash:
        config.stash[_STATE] = _State(config)
    return config.stash[_STATE]


class _Summary:
    """Adds up the verdicts of all processes, writes the report, and says so at the end. Not in workers of xdist."""

    def __init__(self, config: pytest.Config) -> None:
        self._report = _option(config, "report")
        self._verdicts: dict[str, list[dict[str, Any]]] = {}  # by test
        self._lines: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        told = [json.loads(str(value)) for name, value in report.user_properties if name == PROPERTY]
        if told:  # a later report of a test has those of earlier ones, too
            self._verdicts[report.nodeid] = told

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        # The last of a case in a test: a test that is run again judges it again.
        told = {
            (test, one["run"], one["case"], one["rubric"]): one
            for test, verdicts in self._verdicts.items()
            for one in verdicts
        }.values()
        if not told:
            return
        state = _state(session.config)
        unscored = sum(one["score"] is None for one in told)
        lacking = f", {unscored} without a score" if unscored else ""
        runs = list(dict.fromkeys(one["run"] for one in told))
        cost = _describe_cost(runs, state.ledger)
        self._lines.append(f"{len(told)} verdict{'s' * (len(told) > 1)}{lacking}, {cost}; ledger {state.ledger}")
        if self._report:
            self._lines += _write_reports(Path(self._report), runs, state.ledger)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for line in self._lines:
            terminalreporter.write_line(f"beholder: {line}")


def _describe_cost(runs: Sequence[str], ledger: str) -> str:
    """Return what the runs have spent, all attempts together; an answer that the ledger had cost nothing."""
    from beholder.errors import BeholderError
    from beholder.ledger.ledger import Ledger

    try:
        with Ledger.open(ledger, read_only=True) as opened:
            records = [opened.run(run) for run in runs]
    except BeholderError:
        return "cost unknown"
    spent, unpriced = sum(record.spent_usd or 0 for record in records), sum(record.unpriced for record in records)
    if unpriced and not spent:
        return "cost unknown"
    return f"${spent:.4f}" + (f" + {unpriced} of unknown cost" if unpriced else "")


def _write_reports(path: Path, runs: Sequence[str], ledger: str) -> Iterator[str]:
    """Write a report for each run, the first at `path`, and return a line on each."""
    from beholder.api.run import Run
    from beholder.errors import BeholderError

    for number, run in enumerate(runs, 1):
        file = path if number == 1 else path.with_stem(f"{path.stem}-{number}")
        try:
            Run.load(run, ledger).report(file)
            yield f"report {file}"
        except BeholderError as error:
            yield f"there is no report of run {run}: {error}"


def _option(config: pytest.Config, name: str) -> str:
    """Return an option of the command line, or of the configuration file."""
    value = config.getoption(f"beholder_{name}", None)
    return str(value if value is not None else config.getini(f"beholder_{name}")).strip()


def _is_offline(config: pytest.Config) -> bool:
    return bool(config.getoption("beholder_offline", None) or config.getini("beholder_offline"))


def _check_options(config: pytest.Config) -> None:
    """Raise `pytest.UsageError` for a wrong option, before any test is collected."""
    if (unscored := _option(config, "unscored")) and unscored not in UNSCORED:
        raise pytest.UsageError(f"--beholder-unscored is one of {', '.join(UNSCORED)}, not {unscored!r}.")
    budget = _option(config, "budget")
    try:
        is_right = not budget or 0 < float(budget) < float("inf")
    except ValueError:
        is_right = False
    if not is_right:
        raise pytest.UsageError(f"--beholder-budget is an amount of US dollars, and {budget!r} is none.")
    report = _option(config, "report")
    if report and not report.endswith((".html", ".htm")):
        raise pytest.UsageError(f"--beholder-report is an HTML file, and {report!r} does not end in .html.")


def _find_ledger(config: pytest.Config) -> str:
    """Return where verdicts are stored: in pytest's own cache unless something else is said, so that answers that were
    paid for are found by the next run of the tests."""
    if said := _option(config, "ledger"):
        return said if "://" in said else os.path.abspath(said)
    cache = getattr(config, "cache", None)
    folder = cache.mkdir("beholder") if cache is not None else tempfile.mkdtemp(prefix="beholder-pytest-")
    return str(Path(folder) / "beholder.db")


def _find_marker_problem(item: pytest.Item) -> str:
    """Return what is wrong with the markers of a test, as far as pytest alone can tell; empty if nothing is."""
    for marker in item.iter_markers("beholder"):
        unknown = [*map(repr, marker.args), *(name for name in marker.kwargs if name not in MARKER_KEYS)]
        if unknown:
            return f"{item.name}: @pytest.mark.beholder takes {', '.join(MARKER_KEYS)} by name, and not {unknown[0]}."
    return ""


def _read_marker(item: pytest.Item) -> dict[str, Any]:
    """Return what the markers of a test say, the nearest first. Raises `pytest.UsageError`."""
    if problem := _find_marker_problem(item):  # of a marker that was added while the test runs
        raise pytest.UsageError(problem)
    said: dict[str, Any] = {}
    for marker in item.iter_markers("beholder"):
        said = {**{name: value for name, value in marker.kwargs.items() if value is not None}, **said}
    if "options" in said:
        from beholder.integrations.shared import list_options

        said["options"] = list_options(said["options"])
    return said


def _read_suite(suite: Suite, *, own_judges: bool) -> _Setup:
    """Return the setup of a suite, which its own judges judge, or others."""
    from beholder.integrations.shared import suite_options

    return _Setup(None, suite.samples, suite.budget, suite_options(suite, own_judges=own_judges), suite)


@cache
def _verdict_type() -> type[Verdict]:
    """Return the type of what the fixture returns: a verdict that `assert` alone does not pass."""
    from beholder.verdicts.verdict import Verdict

    class ComparedVerdict(Verdict):
        __slots__ = ()

        def __bool__(self) -> bool:
            raise TypeError(
                "A verdict is neither true nor false; compare its score: verdict >= 0.8, or ask for verdict.passed."
            )

    return ComparedVerdict


def _find_failures(verdict: Verdict, rubric: Rubric) -> Iterator[str]:
    """Yield why a verdict has not passed: the threshold, and each gate."""
    threshold = rubric.scoring.threshold
    if threshold is not None and verdict.score is not None and verdict.score < threshold:
        yield f"{_show(verdict.score)} is below the threshold {_show(threshold)}"
    yield from (f"gate {flag.at}: {flag.why}" for flag in verdict.flags if flag.flag == "gate")


def _explain(verdict: Verdict) -> list[str]:
    """Return a line for each of the lowest criteria, with its reason."""
    from beholder.integrations.shared import criterion_share, explain_criterion

    shares = {key: share for key, one in verdict.criteria.items() if (share := criterion_share(one)) is not None}
    lowest = sorted(shares, key=lambda key: shares[key])[:MAX_EXPLAINED]
    return [shorten(explain_criterion(key, verdict.criteria[key]), 120) for key in lowest]


def _show(number: object) -> str:
    return f"{number:.4g}" if isinstance(number, float) else str(number)
