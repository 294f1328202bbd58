"""Chunks of cases as a Ray Data source, streamed through workers; imported late, since it loads Ray Data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow
import ray
from ray.data import ActorPoolStrategy, DataContext, Datasource, ReadTask
from ray.data.block import BlockMetadata
from ray.data.context import AutoscalingConfig

from beholder.runs.ray.coordinator import CHUNK_COLUMN
from beholder.runs.ray.worker import RayWorker

if TYPE_CHECKING:
    from ray.actor import ActorHandle

    from beholder.runs.ray.driver import WorkerLayout


class ChunkSource(Datasource):
    """The coordinator's chunks from number `first` on, at most `count`, each a block of one row.

    They are read by one task that streams, so that neither the number of tasks nor the memory of the driver depends on
    the number of cases. How far it reads ahead is up to Ray Data, and in the end to the coordinator, which waits until
    verdicts have been written. Chunks have numbers: a task that is restarted reads the same ones.
    """

    def __init__(self, coordinator: ActorHandle[Any], first: int, count: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Ray has some types only
        self._coordinator = coordinator
        self._first = first
        self._count = count

    def estimate_inmemory_data_size(self) -> int | None:
        return None

    def get_read_tasks(self, parallelism: int, *_: object, **__: object) -> list[ReadTask]:
        coordinator: Any = self._coordinator
        numbers = range(self._first, self._first + self._count)

        def read() -> Iterator[pyarrow.Table]:
            for number in numbers:
                body: bytes | None = ray.get(coordinator.chunk.remote(number))
                if body is None:
                    return
                yield pyarrow.table({CHUNK_COLUMN: pyarrow.array([body], pyarrow.binary())})

        return [ReadTask(read, BlockMetadata(num_rows=None, size_bytes=None, exec_stats=None, input_files=None))]


CHUNKS_PER_DATASET = 4096  # chunks that one dataset streams: Ray Data keeps metadata of each as long as it lasts
# Ray Data checks ten times a second for chunks that were read. By default it buffers two until then, which would leave
# workers idle. The setting is private to Ray Data: where there is none of that name, it is only slower.
READ_AHEAD_SETTING = "_max_num_blocks_in_streaming_gen_buffer"
WORKER_CPUS = 0.01  # so that a worker that died can be restarted on the nodes that are left, however few they are

_RAY_DATA_SETTINGS: Mapping[str, object] = {
    "target_max_block_size": 1,  # each chunk is a block: it is passed on as soon as it is read
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


def stream_chunks(coordinator: ActorHandle[Any], setup: bytes, here: str, layout: WorkerLayout) -> None:
    """Move all chunks of the coordinator through the workers; returns after the last.

    Ray Data restarts an actor whose process or node died, on any node, and gives it its chunks again, as often as it
    takes: the coordinator decides which cases are given up. It raises after `layout.max_failed_starts` actors in a row
    that died before they were ready.

    Args:
        coordinator: Has the chunks.
        setup: A pickled `WorkerSetup`.
        here: The node of the driver, where chunks are read.
        layout: How many workers there are, and how many chunks each has at once.
    """
    first = 0
    chunks = layout.chunks_per_worker
    settings = {
        **_RAY_DATA_SETTINGS,
        "max_consecutive_actor_init_deaths": layout.max_failed_starts,
        READ_AHEAD_SETTING: layout.workers * chunks,
    }
    with _apply_settings(settings):
        while ray.get(coordinator.is_more.remote(first)):
            source = ray.data.read_datasource(
                ChunkSource(coordinator, first, CHUNKS_PER_DATASET),
                override_num_blocks=1,
                num_cpus=0,
                label_selector={"ray.io/node-id": here},
            )
            done = source.map_batches(
                RayWorker,
                fn_constructor_args=(coordinator, setup),
                batch_size=None,
                batch_format="pyarrow",
                compute=ActorPoolStrategy(
                    min_size=1,
                    max_size=layout.workers,
                    initial_size=layout.workers,
                    max_tasks_in_flight_per_actor=chunks + 1,
                    max_concurrent_calls_per_actor=chunks,
                ),
                num_cpus=WORKER_CPUS,
            )
            for _ in done.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0):
                pass
            first += CHUNKS_PER_DATASET


@contextmanager
def _apply_settings(settings: Mapping[str, object]) -> Iterator[None]:
    """Configure Ray Data as a run needs it, in this process and until the end of the context."""
    context = DataContext.get_current()
    before = {name: getattr(context, name) for name in settings if hasattr(context, name)}
    for name in before:
        setattr(context, name, settings[name])
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(context, name, value)
