"""Weights & Biases: log a run as metrics, a table with images, and its report as an artifact."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from beholder.api.run import Run
from beholder.errors import SetupError
from beholder.integrations.trackers import MAX_PICTURED, TrackedRun, collect_run, explain_failure


def log_run(run: Run, *, project: str | None = None, images: int = MAX_PICTURED) -> str:
    """Log a run of Beholder to Weights & Biases, also offline (`WANDB_MODE=offline`).

    It goes into the active run, or where there is none into a new one of the same name, which is finished. See
    `beholder.integrations.trackers.log_run` for the arguments.
    """
    try:
        import wandb
    except ImportError:
        raise SetupError("Weights & Biases is not installed: pip install 'beholder[wandb]'.") from None
    with collect_run(run, images) as tracked, explain_failure("Weights & Biases", wandb.Error):
        if wandb.run is not None:
            _log(wandb, wandb.run, tracked, run.id)
            return str(wandb.run.id)
        started = wandb.init(project=project, name=run.name, config=dict(tracked.params), job_type="beholder")
        try:
            _log(wandb, started, tracked, run.id)
        finally:
            started.finish()
        return str(started.id)


def _log(wandb: Any, active: Any, tracked: TrackedRun, run_id: str) -> None:
    from PIL import Image

    active.config.update(dict(tracked.params), allow_val_change=True)
    # Cells may be empty. Mixed types are not allowed: they would make a text of every image.
    table = wandb.Table(columns=list(tracked.columns), optional=True)
    for row in tracked.rows:
        cells = (row[name] for name in tracked.columns)
        table.add_data(*(wandb.Image(Image.open(BytesIO(one))) if isinstance(one, bytes) else one for one in cells))
    active.log({"beholder/table": table, **{f"beholder/{name}": value for name, value in tracked.metrics.items()}})
    report = wandb.Artifact(f"beholder-{run_id}", type="report")
    report.add_file(str(tracked.report))
    active.log_artifact(report)
