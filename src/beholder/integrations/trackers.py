"""Log a run to an experiment tracker: what `beholder log` does, and what MLflow and Weights & Biases have in common."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from beholder.api.run import Run
from beholder.errors import SetupError, UsageError
from beholder.ledger.export import COLUMN_TYPES, Cell, ExportColumns, flatten_verdict
from beholder.ledger.types import StoredVerdict
from beholder.statistics.data import criterion_column
from beholder.verdicts.verdict import SentImage

TRACKERS = ("mlflow", "wandb")
MAX_PICTURED = 200  # verdicts with images, unless more are asked for


def log_run(run: Run, *, to: str, project: str | None = None, images: int = MAX_PICTURED) -> str:
    """Log a run to a tracker: its means, a table of its verdicts with images, and its report.

    Args:
        run: The run.
        to: `"mlflow"` or `"wandb"`.
        project: The experiment of MLflow, or the project of Weights & Biases; else that of the tracker's own settings.
        images: How many verdicts have their images in the table: those without a score and the lowest scores first.

    Returns:
        The id of the run in the tracker.

    Raises:
        UsageError: There is no such tracker.
        SetupError: Its package is not installed, or it did not take the run: its server cannot be reached, say.
    """
    if to not in TRACKERS:
        raise UsageError(f"A run is logged to {' or '.join(TRACKERS)}, not to {to!r}.")
    if images < 0:
        raise UsageError(f"images is a number from 0, and {images} is not.")
    log: Callable[..., str] = import_module(f"beholder.integrations.{to}").log_run
    return log(run, project=project, images=images)


@contextmanager
def explain_failure(tracker: str, kind: type[Exception]) -> Iterator[None]:
    """Turn an error of a tracker, whose server cannot be reached say, into a sentence. Raises `SetupError`."""
    try:
        yield
    except kind as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise SetupError(f"{tracker} did not take the run: {why[:500]}") from error


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """What is logged of a run.

    Attributes:
        metrics: Means by name: `score`, `RUBRIC/CRITERION`, numbers of verdicts and of outcomes, `cost_usd`. What has
            no mean is not there: a score that is missing is no zero.
        params: What was judged, by whom, and where it is.
        columns: The names of the table's columns; `image_columns` the roles among them.
        rows: The table: cells by column, those of images the bytes of a JPEG file. What has no value is `None`.
        report: The HTML report.
    """

    metrics: Mapping[str, float]
    params: Mapping[str, str]
    columns: tuple[str, ...]
    image_columns: tuple[str, ...]
    rows: tuple[Mapping[str, Cell | bytes], ...]
    report: Path


@contextmanager
def collect_run(run: Run, images: int) -> Iterator[TrackedRun]:
    """Collect what is logged of a run; the report is deleted at the end of the context."""
    with tempfile.TemporaryDirectory(prefix="beholder-log-") as folder:
        report = Path(folder) / "report.html"
        run.report(report)
        rows, columns, roles = _list_rows(run, images)
        yield TrackedRun(_list_metrics(run), _list_params(run), columns, roles, tuple(rows), report)


def _list_metrics(run: Run) -> dict[str, float]:
    summary = run.summary
    metrics: dict[str, float | None] = {
        "verdicts": summary.verdicts,
        "unscored": summary.unscored,
        "cost_usd": None if run.spent_usd is None else float(run.spent_usd),
        "score": summary.score.value,
        **{f"outcomes/{outcome}": count for outcome, count in summary.outcomes.items()},
    }
    for name, rubric in summary.rubrics.items():
        metrics[f"{name}/score"] = rubric.score.value
        metrics |= {f"{name}/{criterion_column(key)}": mean.value for key, mean in rubric.criteria.items()}
    return {name: float(value) for name, value in metrics.items() if value is not None}


def _list_params(run: Run) -> dict[str, str]:
    params = {
        "beholder_run": run.id,
        "beholder_name": run.name,
        "beholder_ledger": run.ledger,
        "judges": ", ".join(run.summary.judges),
        "rubrics": ", ".join(f"{one.get('rubric')} {one.get('version', '')}".strip() for one in run.record.rubrics),
        "tags": ", ".join(run.tags),
    }
    return {name: value for name, value in params.items() if value}


def _list_rows(run: Run, images: int) -> tuple[list[dict[str, Cell | bytes]], tuple[str, ...], tuple[str, ...]]:
    """Return the rows, worst first, with the names of their columns and of those that are images."""
    columns = ExportColumns()
    with run.open() as ledger:
        stored = sorted(ledger.stored_verdicts(run.id), key=_worst_first)
        rows: list[dict[str, Cell | bytes]] = []
        roles: dict[str, None] = {}
        for one in stored:
            columns.add(one)
            row: dict[str, Cell | bytes] = dict(flatten_verdict(one))
            shown = list(_name_images(one)) if images > 0 else []
            images -= bool(shown)
            for role, image in shown:
                roles[role] = None
                row[role] = ledger.thumbnail(image.source_digest)
            rows.append(row)
    kinds = [
        name for name in columns.kinds if name not in COLUMN_TYPES or any(row.get(name) is not None for row in rows)
    ]
    names = ("case", *roles, *(name for name in kinds if name != "case"))
    return [{name: row.get(name) for name in names} for row in rows], names, tuple(roles)


def _worst_first(stored: StoredVerdict) -> tuple[float, int]:
    score = stored.verdict.score
    return (-1 if score is None else score), stored.position


def _name_images(stored: StoredVerdict) -> Iterator[tuple[str, SentImage]]:
    """Return the images of a verdict, one for each file, with names that are no columns of the export."""
    from beholder.cases.case import number_repeats

    distinct = {(image.role, image.source_digest): image for image in stored.verdict.images}.values()
    for role, image in zip(number_repeats(image.role for image in distinct), distinct, strict=True):
        yield (f"image {role}" if role in COLUMN_TYPES else role), image
