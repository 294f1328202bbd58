"""Scorers and a task for inspect_ai: `--scorer beholder/edit-preservation`, `inspect eval beholder/suite`.

inspect_ai loads this module by its entry point in every project where Beholder is installed, so it imports nothing
else; the rest is imported when a scorer is made. A scorer's session has an event loop in a thread of its own, so that
it works on asyncio and trio alike.
"""

from __future__ import annotations

import os
import re
import threading
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from anyio import CapacityLimiter
from anyio.lowlevel import RunVar
from anyio.to_thread import run_sync
from inspect_ai import Task, task
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageUser, Content, ContentImage, ContentText
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver

if TYPE_CHECKING:
    from beholder.api.session import Session
    from beholder.cases.case import Case
    from beholder.rubrics.rubric import Rubric
    from beholder.runs.suite import Suite
    from beholder.verdicts.verdict import Verdict

# Each is a scorer of that name. Not listed from the files, which takes a second at every start of inspect_ai.
RUBRICS = (
    "description",
    "description-preference",
    "edit-fidelity",
    "edit-preference",
    "edit-preservation",
    "edit-quality",
    "generation-preference",
    "restyle",
    "restyle-confidence",
    "restyle-preference",
)
PLACES = "user[0], assistant[0], tool[0], output[0] (images by their order, from 0 or -1) or metadata.KEY"
TEXT_PLACES = "input, output, target or metadata.KEY"
SAMPLE_KEY = "beholder"  # in the metadata of the samples of a suite: which image is which, and the texts

_IMAGE_PLACE = re.compile(r"(user|assistant|tool|output)\[(-?\d+)\]|metadata\.(.+)")
_TEXT_PLACE = re.compile(r"(input|output|target)|metadata\.(.+)")
_USUAL_TEXTS = {"instruction": "input", "input": "input", "output": "output", "expected_output": "target"}
_REASONS = {"unreadable": "scoring_failed", "over_budget": "scoring_failed", "interrupted": "scoring_failed"}
_METRICS = {"*": [mean(), stderr()]}  # a column for the score and for each criterion
_threads: RunVar[CapacityLimiter] = RunVar("beholder_threads")
_opening = threading.Lock()
_suite_sessions: WeakValueDictionary[str, Session] = WeakValueDictionary()


class _NoInput(Exception):
    """A sample has no such image or text; the message is a sentence."""


@dataclass(frozen=True)
class _SampleReader:
    """Makes a case of a sample.

    Attributes:
        rubric: By which it is judged.
        images: Where the image of each role is.
        texts: Where the text of each field is.
        roots: Folders, besides the working folder, whose images anything but a user message may name.
    """

    rubric: Rubric
    images: Mapping[str, str]
    texts: Mapping[str, str]
    roots: tuple[str, ...]

    def read(self, state: TaskState, target: Target) -> Case:
        """Return the case. Raises `_NoInput`, and `CaseError` for values of a wrong type."""
        from beholder.cases.case import Case
        from beholder.integrations.shared import fit_id

        said = state.metadata.get(SAMPLE_KEY) or {}
        if problem := said.get("problem"):
            raise _NoInput(problem)
        given: dict[str, list[str]] = said.get("images", {})
        images: dict[str, Any] = {}
        for image in self.rubric.images:
            role = image.role
            if places := [self.images[role]] if role in self.images else given.get(role, []):
                found = [self._find_image(state, role, place) for place in places]
                images[role] = found if len(found) > 1 else found[0]
            elif role in state.metadata:
                images[role] = self._find_image(state, role, f"metadata.{role}")
        texts: dict[str, Any] = {**said.get("texts", {})}
        for name in (field.name for field in self.rubric.fields):
            place = self.texts.get(name) or ("" if name in texts else _usual_place(name, state))
            if place and (text := _find_text(state, target, place)):
                texts[name] = text
        model, sample = str(state.model), f"{state.sample_id}"
        epoch = f" epoch {state.epoch}" if state.epoch > 1 else ""
        groups = {"model": model, **said.get("groups", {})}
        return Case(fit_id(f"{model}/{sample}{epoch}"), images, texts, groups)

    def _find_image(self, state: TaskState, role: str, place: str) -> Any:
        """Return an image. Only those of user messages are surely the data set's own: what else names a file may be the
        words of a model, or of a tool."""
        from beholder.integrations.file_access import find_output_images

        found = _find_image(state, role, place)
        if place.startswith("user["):
            return found
        return find_output_images(role, found, self.roots, "roots of the scorer")


def _usual_place(name: str, state: TaskState) -> str:
    return f"metadata.{name}" if name in state.metadata else _USUAL_TEXTS.get(name, "")


def _find_image(state: TaskState, role: str, place: str) -> Any:
    from beholder.integrations.shared import pick_image

    matched = _IMAGE_PLACE.fullmatch(place)
    assert matched is not None  # as was checked
    who, number, key = matched.groups()
    if key is not None:
        if state.metadata.get(key) in (None, ""):
            raise _NoInput(f"The image {role!r} should be in the sample's metadata as {key!r}, and is not.")
        return state.metadata[key]
    messages = [one for one in state.messages if one.role == who]
    if who == "output":
        messages = [state.output.message] if state.output.choices else []
    parts = [part for one in messages if not isinstance(one.content, str) for part in one.content]
    found = [part.image for part in parts if isinstance(part, ContentImage)]
    image = pick_image(found, int(number), role, place, f"what is called {who}")
    if image.startswith("<base64-data-removed"):
        raise _NoInput(
            f"The log was made without images, so that {role!r} ({place}) is not in it: run the evaluation with "
            "--log-images."
        )
    return image


def _find_text(state: TaskState, target: Target, place: str) -> Any:
    if place == "input":
        return state.input_text
    if place == "output":
        return state.output.completion
    if place == "target":
        return list(target) if len(target) > 1 else target.text
    value = state.metadata.get(place.partition(".")[2])
    return value if value is None or isinstance(value, str | list) else str(value)


def judge(
    rubric: str = "",
    judge: str | list[str] | None = None,
    images: dict[str, str] | list[str] | str | None = None,
    fields: dict[str, str] | list[str] | str | None = None,
    samples: int = 1,
    budget: float | None = None,
    ledger: str | None = None,
    name: str | None = None,
    options: dict[str, Any] | None = None,
    roots: list[str] | str | None = None,
) -> Scorer:
    """A scorer that judges images by a rubric: a column for the score from 0 to 1, and one for each criterion.

    Args:
        rubric: The name of a rubric, its folder or its YAML file.
        judge: Who judges, such as `openai:gpt-5-mini`; several are a jury. By default the instruments, which measure
            offline.
        images: Where the image of each role is: `{"input": "user[0]", "edited": "output[0]"}`, or a key of the
            sample's metadata, `"metadata.photo"`. A role that is not named is looked for in the metadata.
        fields: Where the text of each field is: `input`, `output`, `target` or `metadata.KEY`. By default in the
            metadata under the field's name; else an `instruction` is the input, an `output` what the model said, and
            an `expected_output` the target.
        samples: How often each judge is asked.
        budget: US dollars that are never passed.
        ledger: Where verdicts are stored; by default nowhere but in the log.
        name: What the run in the ledger is called.
        options: See `beholder.Options`.
        roots: Folders, besides the working folder, in which images may be that a model, a tool or the metadata name:
            what they name must not send any other file of this machine to a judge.

    Raises:
        PrerequisiteError: Something of it is wrong, or a judge cannot be asked: its key is missing, say.
    """

    def open_session(place: str | None, called: str | None) -> Session:
        from beholder.api.session import Session

        return Session(judge, ledger=place, name=called, budget=budget, samples=samples, options=options)

    def load_rubric() -> Rubric:
        from beholder.api.options import Options
        from beholder.errors import UsageError

        if not rubric:
            raise UsageError(
                f"Say by which rubric: -S rubric=NAME, one of {', '.join(RUBRICS)}, or a file of your own."
            )
        return Options.of(options).load_one_rubric(rubric)

    try_session = partial(open_session, None, None if ledger else name)
    return _make_scorer(load_rubric, try_session, partial(open_session, ledger, name), images, fields, roots)


def _make_scorer(
    load_rubric: Callable[[], Rubric],
    try_session: Callable[[], Session],
    find_session: Callable[[], Session],
    images: object = None,
    fields: object = None,
    roots: str | Sequence[str] | None = None,
) -> Scorer:
    """Return the scorer.

    Args:
        load_rubric: Returns the rubric.
        try_session: Opens a session without a ledger. It is closed at once: what is wrong is said before anything is
            asked.
        find_session: Returns the session of the scores. Called by the first one.
        images: See `judge`; so are `fields` and `roots`.
    """
    from beholder.errors import BeholderError

    try:
        rubric = load_rubric()
        reader = _SampleReader(
            rubric,
            _check_places(images, "images", [image.role for image in rubric.images], _IMAGE_PLACE, PLACES),
            _check_places(fields, "fields", [field.name for field in rubric.fields], _TEXT_PLACE, TEXT_PLACES),
            tuple(roots.split(",") if isinstance(roots, str) else roots or ()),
        )
        try_session().close()
    except BeholderError as error:
        raise PrerequisiteError(f"beholder: {error}") from None
    sessions: list[Session] = []

    def score_sample(state: TaskState, target: Target) -> Score:
        try:
            with _opening:  # samples are scored in several threads
                if not sessions:
                    sessions.append(find_session())
            session = sessions[0]
            verdict = session.judge(rubric, reader.read(state, target))
        except (_NoInput, BeholderError) as error:
            return Score.unscored(reason="scoring_failed", explanation=f"**No score**: {error}")
        return _to_score(verdict, rubric, session.run_id)

    async def score(state: TaskState, target: Target) -> Score:
        try:
            limiter = _threads.get()
        except LookupError:
            _threads.set(limiter := CapacityLimiter(32))  # as many as a session asks at once
        return await run_sync(partial(score_sample, state, target), abandon_on_cancel=True, limiter=limiter)

    return score


def _check_places(
    given: object, what: str, known: list[str], pattern: re.Pattern[str], allowed: str
) -> Mapping[str, str]:
    from beholder.api.options import suggest_name
    from beholder.errors import UsageError
    from beholder.integrations.shared import parse_places

    pairs = parse_places(given, what)
    for name, place in pairs.items():
        if name not in known:
            raise UsageError(f"{what} names {name!r}, which this rubric does not take; {suggest_name(name, known)}")
        if not pattern.fullmatch(place):
            raise UsageError(f"{what} says that {name} is {place!r}; say {allowed}.")
    return pairs


def _to_score(verdict: Verdict, rubric: Rubric, run_id: str | None) -> Score:
    """Return a verdict as a score. A number that is missing is NaN, which all metrics leave out: None counts as 0."""
    from beholder.integrations.shared import verdict_markdown, verdict_summary
    from beholder.statistics.data import criterion_column

    explanation = verdict_markdown(verdict)
    metadata = {"beholder": verdict_summary(verdict, run_id)}
    reason = _REASONS.get(str(verdict.outcome), "grader_failed")
    if not verdict.answered:
        return Score.unscored(reason=reason, explanation=explanation, metadata=metadata)
    missing = float("nan")
    value: dict[str, float] = {"score": missing if verdict.score is None else verdict.score}
    if rubric.scoring.threshold is not None or rubric.scoring.gates:
        value["passed"] = missing if verdict.passed is None else float(verdict.passed)
    for criterion in rubric.criteria:  # the same keys for every sample, which metrics insist on
        result = verdict.criteria.get(criterion.key)
        value[criterion_column(criterion.key)] = (
            missing if result is None or result.score is None else float(result.score)
        )
    answer = verdict.preference.winner if verdict.preference is not None else verdict.grade
    return Score(
        value=value,
        answer=answer,
        explanation=explanation,
        reason=None if verdict.scored else reason,
        metadata=metadata,
    )


_register = scorer(metrics=_METRICS, name="judge")
judge = _register(judge)


def _register_rubric(rubric: str) -> None:
    def by_rubric(
        judge: str | list[str] | None = None,
        images: dict[str, str] | list[str] | str | None = None,
        fields: dict[str, str] | list[str] | str | None = None,
        samples: int = 1,
        budget: float | None = None,
        ledger: str | None = None,
        name: str | None = None,
        options: dict[str, Any] | None = None,
        roots: list[str] | str | None = None,
    ) -> Scorer:
        return _judge(rubric, judge, images, fields, samples, budget, ledger, name, options, roots)

    scorer(metrics=_METRICS, name=rubric)(by_rubric)


_judge = judge
for _rubric in RUBRICS:
    _register_rubric(_rubric)


def suite_scorer(suite: str, rubric: str, ledger: str | None = None, name: str | None = None) -> Scorer:
    """A scorer by one rubric of a suite, with the suite's judges, samples, thresholds and budget.

    Args:
        suite: The `suite.yaml`.
        rubric: The name of the rubric.
        ledger: Where verdicts are stored; by default nowhere but in the log.
        name: What the run in the ledger is called.

    Raises:
        PrerequisiteError: Something of it is wrong, or a judge cannot be asked: its key is missing, say.
    """

    def load_rubric() -> Rubric:
        from beholder.errors import UsageError

        rubrics = {one.name: one for one in _load_suite(suite).rubrics()}
        if rubric not in rubrics:
            raise UsageError(f"{suite} does not judge by {rubric!r}; it has {', '.join(rubrics)}.")
        return rubrics[rubric]

    def try_session() -> Session:
        return _open_suite_session(_load_suite(suite), None, None if ledger else name)

    def find_session() -> Session:
        # One for all rubrics of the suite: its budget is for them together.
        key = repr((os.path.abspath(suite), ledger, name))
        session = _suite_sessions.get(key)
        if session is None:
            session = _suite_sessions[key] = _open_suite_session(_load_suite(suite), ledger, name)
        return session

    return _make_scorer(load_rubric, try_session, find_session)


suite_scorer = scorer(metrics=_METRICS, name="suite")(suite_scorer)


def _open_suite_session(suite: Suite, ledger: str | None, name: str | None) -> Session:
    from beholder.api.session import Session
    from beholder.integrations.shared import suite_options
    from beholder.runs.limits import RunLimits
    from beholder.runs.suite_judges import make_judges

    judges = make_judges(suite, RunLimits())  # which send keys only where the suite may
    return Session(
        judges, ledger=ledger, name=name, budget=suite.budget, samples=suite.samples, options=suite_options(suite)
    )


def _load_suite(suite: str) -> Suite:
    from beholder.api.arguments import make_suite

    return make_suite(suite, {})[0]


def suite(suite: str, ledger: str | None = None, name: str | None = None) -> Task:
    """A task that judges the cases of a suite as they are: its images and texts become the samples, and nothing is
    generated (`--model none`).

    Args:
        suite: The `suite.yaml`.
        ledger: Where verdicts are stored; by default nowhere but in the log.
        name: What the run in the ledger is called.

    Raises:
        PrerequisiteError: Something is wrong with the suite or a case.
    """
    from beholder.errors import BeholderError

    try:
        loaded = _load_suite(suite)
        rows = list(loaded.rows())
    except BeholderError as error:
        raise PrerequisiteError(f"beholder: {error}") from None
    wrong = [f"{row.location} {problem}" for row in rows for problem in row.problems]
    cases = [(row.location, row.case) for row in rows if row.case is not None]
    missing = [(place, paths[0]) for place, case in cases if (paths := _list_missing_files(case))]
    if len(missing) == len(cases):  # else those cases have no score, and the others are judged
        wrong += [f"{place} has no image at {path!r}" for place, path in missing]
    if wrong:
        raise PrerequisiteError("beholder: " + "\n".join(wrong))
    dataset = [_make_sample(case) for _, case in cases]
    scorers = [suite_scorer(suite, rubric.name, ledger, name) for rubric in loaded.rubrics()]
    return Task(dataset=dataset, solver=as_given(), scorer=scorers, name=loaded.name)


suite = task(name="suite")(suite)


def _as_given() -> Solver:
    """A solver that leaves everything as it is: what is judged is in the sample."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        return state

    return solve


as_given = solver(name="as-given")(_as_given)


def _list_missing_files(case: Case) -> list[str]:
    paths = [os.fspath(source) for _, source in case.list_images() if not isinstance(source, bytes)]
    return [path for path in paths if not re.match(r"data:|\w+://", path) and not os.path.isfile(path)]


def _make_sample(case: Case) -> Sample:
    """Return a case as a sample that says which of its images is which. inspect_ai would end the evaluation at an image
    that is missing, so that such a sample has none, and says why."""
    if missing := _list_missing_files(case):
        problem = f"There is no image at {', '.join(map(repr, missing))}."
        return Sample(input=problem, id=case.id, metadata={SAMPLE_KEY: {"problem": problem}})
    content: list[Content] = []
    places: dict[str, list[str]] = {}
    for number, (role, source) in enumerate(case.list_images()):
        places.setdefault(role, []).append(f"user[{number}]")
        image = f"data:image;base64,{b64encode(source).decode()}" if isinstance(source, bytes) else os.fspath(source)
        content += [ContentText(text=f"{role}:"), ContentImage(image=image)]
    texts = dict(case.fields)
    content += [ContentText(text=f"{name}: {text}") for name, text in texts.items()]
    said = {"images": places, "texts": texts, "groups": dict(case.groups)}
    return Sample(input=[ChatMessageUser(content=content)], id=case.id, metadata={SAMPLE_KEY: said})
