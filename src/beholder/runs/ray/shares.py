"""How the limits of a run are shared out among its workers: an equal part each, and never more than the whole."""

from __future__ import annotations

from dataclasses import dataclass, field

SILENT_S = 15.0  # after which a worker's share goes to the others


@dataclass(slots=True)
class _Seat:
    """A worker: when it was heard of, and what it was told that it may use."""

    heard: float
    slots: int = 0
    part: float = 0.0


@dataclass(slots=True)
class Shares:
    """`slots` is how many cases may be asked at once, `part` how much of the limits per minute may be used (0 to 1), by
    all workers together. Times are those of any clock that does not jump."""

    slots: int
    part: float = 1.0
    _seats: dict[str, _Seat] = field(default_factory=dict)

    def enter(self, worker: str, now: float) -> None:
        self._seats.setdefault(worker, _Seat(now)).heard = now

    def leave(self, worker: str) -> bool:
        """Whether it was there."""
        return self._seats.pop(worker, None) is not None

    def silent(self, now: float) -> list[str]:
        """Workers that were not heard of for so long that they must be dead."""
        return [name for name, seat in self._seats.items() if now - seat.heard > SILENT_S]

    def share(self, worker: str, inside: int) -> tuple[int, float, bool]:
        """The slots and the part that a worker has from now on, as far as the others have made room for it already; and
        whether that is all that it should have. It holds on to the cases that it has `inside`."""
        names = sorted(self._seats)
        others = [seat for name, seat in self._seats.items() if name != worker]
        fair = self.slots // len(names) + (names.index(worker) < self.slots % len(names))
        slots = max(0, min(fair, self.slots - sum(one.slots for one in others)))
        part = max(0.0, min(self.part / len(names), self.part - sum(one.part for one in others)))
        seat = self._seats[worker]
        seat.slots, seat.part = max(slots, inside), part
        return slots, part, slots == fair >= inside and part >= self.part / len(names) - 1e-9
