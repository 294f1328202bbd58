"""Which cases may be begun, and which were begun too often: a case may kill the process that judges it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from beholder.runs.ray.parcels import Leave

MOST = 3  # times that a case is begun: after that it has killed its worker often enough


@dataclass(slots=True)
class _Attempt:
    worker: str = ""
    times: int = 0
    suspect: bool = False


@dataclass(slots=True)
class Attempts:
    """Cases by their number, from when they are begun to when they end. `alive` names the nodes that live.

    When a worker dies, all its cases are suspects: each is begun again only where nothing else is under way, so that
    the next death tells which it was, and costs no other case anything. If its whole node died, they are hardly to
    blame, the first time.
    """

    alive: Callable[[], Collection[str]]
    _attempts: dict[int, _Attempt] = field(default_factory=dict)
    _nodes: dict[str, str] = field(default_factory=dict)

    def enter(self, worker: str, node: str) -> None:
        self._nodes[worker] = node

    def dead(self, worker: str, number: int) -> str:
        """The worker that had the case before this one, and is therefore dead (Ray gives a case to another one only
        then); empty where there is none."""
        attempt = self._attempts.get(number)
        return attempt.worker if attempt is not None and attempt.worker not in ("", worker) else ""

    def begin(self, worker: str, number: int, alone: bool) -> Leave:
        """Whether the worker may begin a case; `alone` where it does nothing else meanwhile."""
        attempt = self._attempts.setdefault(number, _Attempt())
        if dead := self.dead(worker, number):
            node_died = self._nodes.get(dead) not in self.alive()
            attempt.suspect = attempt.suspect or attempt.times > 1 or not node_died
        attempt.worker = ""
        if attempt.times >= MOST:
            return Leave.LOST
        if attempt.suspect and not alone:
            return Leave.ALONE
        attempt.worker = worker
        attempt.times += 1
        return Leave.GO

    def end(self, number: int) -> None:
        self._attempts.pop(number, None)
