"""The cases of a run as a source for Ray Data. Imported late: loads Ray Data and pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow  # type: ignore[import-untyped]  # it has no types
import ray
from ray.data import Datasource, ReadTask
from ray.data.block import BlockMetadata

from beholder.runs.ray.parcels import BODY

if TYPE_CHECKING:
    from ray.actor import ActorHandle


class Chunks(Datasource):
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
                yield pyarrow.table({BODY: pyarrow.array([body], pyarrow.binary())})

        return [ReadTask(read, BlockMetadata(num_rows=None, size_bytes=None, exec_stats=None, input_files=None))]
