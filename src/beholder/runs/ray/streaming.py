"""The part that is Ray Data's: chunks from the office, through a pool of workers. Imported late: loads Ray Data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import ray
import ray.data
from ray.data import ActorPoolStrategy, DataContext
from ray.data.context import AutoscalingConfig

from beholder.runs.ray.source import Chunks
from beholder.runs.ray.worker import Worker

if TYPE_CHECKING:
    from ray.actor import ActorHandle

STRETCH = 4096  # chunks that one dataset streams: Ray Data keeps a note of each as long as it lasts
# Ray Data looks ten times a second for chunks that were read. By itself it lets two wait until then, which would leave
# workers with nothing to do. The name is Ray Data's own business: where there is no such setting, it is only slower.
WAITING = "_max_num_blocks_in_streaming_gen_buffer"
WORKER_CPUS = 0.01  # so that a worker that died finds room on the nodes that are left, however few they are

_SETTINGS: Mapping[str, object] = {
    "target_max_block_size": 1,  # a chunk is a block: it goes on as soon as it is read
    "execution_no_progress_timeout_s": -1,  # a judge may think for as long as its own time limit allows
    # Workers stay for as long as the run does: new ones would set up their judges and connections again.
    "autoscaling_config": AutoscalingConfig(
        actor_pool_util_upscaling_threshold=0.5, actor_pool_util_downscaling_threshold=-1.0
    ),
    "enable_progress_bars": False,
    "enable_operator_progress_bars": False,
    "enable_auto_log_stats": False,
    "print_on_execution_start": False,
}


def stream(office: ActorHandle[Any], recipe: bytes, here: str, workers: int, calls: int, deaths: int) -> None:
    """Moves all chunks of the office through `workers` actors, `calls` at a time in each; returns after the last.

    An actor whose process or node dies is started again, wherever there is room, and gets what it had once more, as
    often as it takes (so Ray Data does it unless told otherwise): which cases are better left is for the office to say.
    After so many `deaths` of actors in a row that had not even begun, it raises.
    """
    first = 0
    with _settings({**_SETTINGS, "max_consecutive_actor_init_deaths": deaths, WAITING: workers * calls}):
        while ray.get(office.is_more.remote(first)):
            source = ray.data.read_datasource(
                Chunks(office, first, STRETCH),
                override_num_blocks=1,
                num_cpus=0,
                label_selector={"ray.io/node-id": here},
            )
            done = source.map_batches(
                Worker,
                fn_constructor_args=(office, recipe),
                batch_size=None,
                batch_format="pyarrow",
                compute=ActorPoolStrategy(
                    min_size=1,
                    max_size=workers,
                    initial_size=workers,
                    max_tasks_in_flight_per_actor=calls + 1,
                    max_concurrent_calls_per_actor=calls,
                ),
                num_cpus=WORKER_CPUS,
            )
            for _ in done.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0):
                pass
            first += STRETCH


@contextmanager
def _settings(settings: Mapping[str, object]) -> Iterator[None]:
    """Ray Data as a run needs it, in this process and until the end of the context."""
    context = DataContext.get_current()
    before = {name: getattr(context, name) for name in settings if hasattr(context, name)}
    for name in before:
        setattr(context, name, settings[name])
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(context, name, value)
