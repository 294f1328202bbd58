"""The cases of a run as a source for Ray Data. Imported late: loads Ray Data and pyarrow.

The part that is Ray Data's: chunks from the office, through a pool of workers. Imported late: loads Ray Data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow
import ray
from ray.data import ActorPoolStrategy, DataContext, Datasource, ReadTask
from ray.data.block import BlockMetadata
from ray.data.context import AutoscalingConfig

from beholder.runs.ray.messages import CHUNK_COLUMN
from beholder.runs.ray.worker import RayWorker

if TYPE_CHECKING:
    from ray.actor import ActorHandle


class ChunkSource(Datasource):
    """The chunks of the office from `first` on, at most `most` of them, each a block of one row.

    They are read by one task that streams, so that neither the number of tasks nor the memory of the driver depends on
    the number of cases; how far it reads ahead is up to Ray Data, and in the end to the office, which waits until
    verdicts have been written. Chunks have numbers: a task that is started again reads the same ones.
    """

    def __init__(self, office: ActorHandle[Any], first: int, most: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Ray has some types only
        self._office = office
        self._first = first
        self._most = most

    def estimate_inmemory_data_size(self) -> int | None:
        return None

    def get_read_tasks(self, parallelism: int, *_: object, **__: object) -> list[ReadTask]:
        office: Any = self._office
        numbers = range(self._first, self._first + self._most)

        def read() -> Iterator[pyarrow.Table]:
            for number in numbers:
                body: bytes | None = ray.get(office.chunk.remote(number))
                if body is None:
                    return
                yield pyarrow.table({CHUNK_COLUMN: pyarrow.array([body], pyarrow.binary())})

        return [ReadTask(read, BlockMetadata(num_rows=None, size_bytes=None, exec_stats=None, input_files=None))]


CHUNKS_PER_DATASET = 4096  # chunks that one dataset streams: Ray Data keeps a note of each as long as it lasts
# Ray Data looks ten times a second for chunks that were read. By itself it lets two wait until then, which would leave
# workers with nothing to do. The name is Ray Data's own business: where there is no such setting, it is only slower.
READ_AHEAD_SETTING = "_max_num_blocks_in_streaming_gen_buffer"
WORKER_CPUS = 0.01  # so that a worker that died finds room on the nodes that are left, however few they are

_RAY_DATA_SETTINGS: Mapping[str, object] = {
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


def stream_chunks(office: ActorHandle[Any], recipe: bytes, here: str, workers: int, calls: int, deaths: int) -> None:
    """Moves all chunks of the office through `workers` actors, `calls` at a time in each; returns after the last.

    An actor whose process or node dies is started again, wherever there is room, and gets what it had once more, as
    often as it takes (so Ray Data does it unless told otherwise): which cases are better left is for the office to say.
    After so many `deaths` of actors in a row that had not even begun, it raises.
    """
    first = 0
    with _apply_settings(
        {**_RAY_DATA_SETTINGS, "max_consecutive_actor_init_deaths": deaths, READ_AHEAD_SETTING: workers * calls}
    ):
        while ray.get(office.is_more.remote(first)):
            source = ray.data.read_datasource(
                ChunkSource(office, first, CHUNKS_PER_DATASET),
                override_num_blocks=1,
                num_cpus=0,
                label_selector={"ray.io/node-id": here},
            )
            done = source.map_batches(
                RayWorker,
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
            first += CHUNKS_PER_DATASET


@contextmanager
def _apply_settings(settings: Mapping[str, object]) -> Iterator[None]:
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
