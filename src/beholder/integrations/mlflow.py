"""MLflow: log a run, and a scorer for `mlflow.genai.evaluate`. A missing score is an error there, and never a zero."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from io import BytesIO
from typing import TYPE_CHECKING, Any

from beholder.api.arguments import check_session_alone
from beholder.api.options import Judges, Options, OptionsLike, RubricLike
from beholder.api.run import Run
from beholder.api.session import Session
from beholder.errors import SetupError, UsageError
from beholder.integrations.file_access import find_output_images
from beholder.integrations.inputs import choose_output, find_inputs
from beholder.integrations.shared import explain_criterion
from beholder.integrations.trackers import MAX_PICTURED, TrackedRun, collect_run, explain_failure
from beholder.judges.base import INSTRUMENTS
from beholder.rubrics.rubric import Rubric
from beholder.verdicts.verdict import Verdict

if TYPE_CHECKING:
    from mlflow.entities import Feedback
    from mlflow.genai.scorers import Scorer


def log_run(run: Run, *, project: str | None = None, images: int = MAX_PICTURED) -> str:
    """Log a run of Beholder as a run of MLflow: metrics, tags, the table `verdicts.json` and the report.

    It goes into the active run of MLflow, or where there is none into a new one of the same name. A second one that is
    logged into the same run of MLflow takes the place of the first, but for the rows of the table. See
    `beholder.integrations.trackers.log_run` for the arguments; `project` is the experiment.
    """
    mlflow = _import_mlflow()
    try:
        import pandas  # noqa: F401  # tables need it, and mlflow-skinny does not bring it
    except ImportError:
        raise SetupError("MLflow needs pandas for tables: pip install 'beholder[mlflow]'.") from None
    with collect_run(run, images) as tracked, explain_failure("MLflow", mlflow.exceptions.MlflowException):
        if project is not None:
            mlflow.set_experiment(project)
        active = mlflow.active_run()
        if active is not None:
            _log(mlflow, tracked)
            return str(active.info.run_id)
        with mlflow.start_run(run_name=run.name, description=f"Beholder run {run.id}") as started:
            _log(mlflow, tracked)
            return str(started.info.run_id)


def _log(mlflow: Any, tracked: TrackedRun) -> None:
    from PIL import Image

    def show(cell: object) -> object:
        return mlflow.Image(Image.open(BytesIO(cell))) if isinstance(cell, bytes) else cell

    # Tags, since params of a run can never change. With a prefix, since the program may have tags of its own.
    mlflow.set_tags({f"beholder.{name.removeprefix('beholder_')}": value for name, value in tracked.params.items()})
    mlflow.log_metrics(tracked.metrics)
    # A column of a table that is logged at once has images only, or none; what is logged later is appended.
    parts: dict[tuple[bool, ...], list[Mapping[str, object]]] = {}
    for row in tracked.rows:
        parts.setdefault(tuple(row[role] is None for role in tracked.image_columns), []).append(row)
    for rows in parts.values():
        mlflow.log_table({name: [show(row[name]) for row in rows] for name in tracked.columns}, "verdicts.json")
    mlflow.log_artifact(str(tracked.report))


def scorer(
    rubric: RubricLike,
    *,
    judge: Judges = None,
    criterion: str | None = None,
    threshold: float | None = None,
    output: str | None = None,
    roots: Sequence[str] = (),
    name: str | None = None,
    session: Session | None = None,
    ledger: str | None = None,
    budget: float | Decimal | None = None,
    samples: int = 1,
    options: OptionsLike = None,
) -> Scorer:
    """Return a scorer for `mlflow.genai.evaluate(data=…, scorers=[…])`.

    The images and texts that the rubric declares are taken by their names from `outputs`, `inputs` and `expectations`
    of a row, whichever has them first. Where `outputs` is no mapping, it is the image or text `output`.

    Args:
        rubric: A rubric, or its name, folder or YAML file.
        judge: Who judges; by default the instruments. With `budget`, `samples`, `ledger` and `options` as in `Session`.
        criterion: The value is the score of this criterion, on its own scale, and not the score of the verdict (0–1).
        threshold: The value from which `result.passed` counts a row as passed. Not for a rubric with gates, of which
            MLflow would know nothing.
        output: What `outputs` is; by default the one thing that the rubric needs and `inputs` lacks.
        roots: Folders, besides the working folder, whose images `outputs` may name: what they name may be a model's
            words, which must not send any other file of this machine to a judge.
        name: The name of the feedback; by default that of the rubric, and of the criterion if there is one.
        session: In place of `judge` and what goes with it, a session of yours, so that several scorers share its
            answers.

    Raises:
        UsageError: The rubric has no such criterion, or `session` was given together with what it replaces.
        SetupError: MLflow is not installed, or the judge cannot be asked.
    """
    _import_mlflow()
    from mlflow.genai.scorers import scorer as decorate

    loaded = Options.of(options).load_one_rubric(rubric, criterion)
    check_session_alone(session, judge, ledger, None, budget, samples, options)
    asked = session or Session(judge, ledger=ledger, budget=budget, samples=samples, options=options)
    if threshold is not None:
        scales = {one.key: one.scale for one in loaded.criteria}
        low, high = scales[criterion] if criterion else (0, 1)
        if not low <= threshold <= high:
            raise UsageError(f"threshold: the value goes from {low:g} to {high:g}, and {threshold:g} is not in it.")
        if loaded.scoring.gates and criterion is None:
            gates = ", ".join(gate.finding or gate.criterion for gate in loaded.scoring.gates)
            raise UsageError(
                f"threshold: MLflow compares nothing but the score, and {loaded.name} has gates, which fail a case "
                f"whatever its score ({gates}). Leave it out, and read `beholder.passed` in the metadata of the "
                "feedback."
            )
    called = name or ".".join([loaded.name, *([criterion] if criterion else [])])

    def score(inputs: Any = None, outputs: Any = None, expectations: Any = None) -> Feedback:
        found = find_inputs(loaded, (expectations, inputs))
        found |= _find_outputs(loaded, output, found, outputs, roots)
        return _make_feedback(called, criterion, asked.judge(loaded, **found))

    passes: dict[str, Callable[[Any], bool]] = {}
    if threshold is not None:
        passes["pass_if"] = lambda value: value >= threshold
    made: Scorer = decorate(score, name=called, description=f"Beholder, {loaded.name}", **passes)
    return made


def _find_outputs(
    rubric: Rubric, output: str | None, given: Mapping[str, object], outputs: Any, roots: Sequence[str]
) -> dict[str, object]:
    """Return what the outputs of a row are of the rubric. Raises `UsageError`."""
    if outputs is None or isinstance(outputs, Mapping):
        found = find_inputs(rubric, (outputs,))
    else:
        found = {choose_output(rubric, output, given, f"scorer({rubric.name!r}, output=…)"): outputs}
    roles = {image.role for image in rubric.images}
    return {
        name: find_output_images(name, value, roots, "`roots` of the scorer") if name in roles else value
        for name, value in found.items()
    }


def _make_feedback(name: str, criterion: str | None, verdict: Verdict) -> Feedback:
    from mlflow.entities import AssessmentError, AssessmentSource, Feedback

    kind = "CODE" if verdict.judge == INSTRUMENTS else "LLM_JUDGE"
    result = verdict.criteria.get(criterion) if criterion else None
    value = result.score if result is not None else (None if criterion else verdict.score)
    known: dict[str, object] = {
        "beholder.outcome": verdict.outcome,
        "beholder.case": verdict.case,
        "beholder.rubric_version": verdict.rubric_version,
        "beholder.brief_digest": verdict.brief_digest,
        "beholder.cost_usd": verdict.cost_usd,
        "beholder.passed": verdict.passed,
        **{key: one.score for key, one in verdict.criteria.items()},
    }
    said: dict[str, Any] = {
        "source": AssessmentSource(kind, verdict.judge),
        "metadata": {key: str(one) for key, one in known.items() if one not in (None, "")},
    }
    if value is None:
        code, why = str(verdict.outcome), verdict.missing_score_reason
        if verdict.score is not None:
            code, why = "not_applicable", f"{criterion} has no score here"
        return Feedback(name, error=AssessmentError(error_code=code, error_message=why), **said)
    return Feedback(name, value=value, rationale=_explain(verdict, criterion), **said)


def _explain(verdict: Verdict, criterion: str | None) -> str:
    lines = [
        explain_criterion(key, one)
        for key, one in verdict.criteria.items()
        if one.score is not None and criterion in (None, key)
    ]
    return "\n".join([*([verdict.assessment] if verdict.assessment and criterion is None else []), *lines])


def _import_mlflow() -> Any:
    try:
        import mlflow
    except ImportError:
        raise SetupError("MLflow is not installed: pip install 'beholder[mlflow]'.") from None
    return mlflow
