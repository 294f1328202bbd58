"""What was to be reached, and whether it was: estimates with intervals, printed and as JSON."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from beholder.reports.text import format_interval, numbers_table, print_table
from beholder.statistics.bootstrap import Interval
from beholder.statistics.data import Bools

DEFAULT = Path(__file__).parents[2] / ".." / "shared" / "data"


@dataclass(frozen=True, slots=True)
class Claim:
    """`what` should have a value of `aim` or more; with `surely` its whole interval should lie above the aim."""

    what: str
    found: Interval
    aim: float
    surely: bool = False

    @property
    def reached(self) -> bool:
        least = self.found.low if self.surely else self.found.value
        return least is not None and (least > self.aim if self.surely else least >= self.aim)

    def __str__(self) -> str:
        aim = f"surely more than {self.aim:g}" if self.surely else f"{self.aim:g} or more"
        return f"{'reached' if self.reached else 'NOT reached'}: {self.what} {format_interval(self.found)}; aim: {aim}"

    def to_dict(self) -> dict[str, object]:
        found = {"what": self.what, "found": self.found.to_dict(), "aim": self.aim, "surely": self.surely}
        return found | {"reached": self.reached}


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of estimates under the same headings; a cell that means nothing is left out. `notes` stand above it, `told`
    (how intervals were drawn) below."""

    title: str
    notes: Sequence[str]
    headings: Sequence[str]
    rows: Mapping[str, Mapping[str, Interval]]
    claims: Sequence[Claim] = ()
    told: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)

    def show(self) -> None:
        print(f"\n{self.title}")
        for note in self.notes:
            print(f"  {note}")
        cells = [
            [f"  {name}", *(format_interval(row[one]) if one in row else "" for one in self.headings)]
            for name, row in self.rows.items()
        ]
        print_table(numbers_table(["", *self.headings], cells))
        for claim in self.claims:
            print(f"  {claim}")
        if self.told:
            print(f"  {self.told}")

    def to_dict(self) -> dict[str, object]:
        return {
            "title": self.title,
            **self.counts,
            "notes": list(self.notes),
            "rows": {name: {heading: one.to_dict() for heading, one in row.items()} for name, row in self.rows.items()},
            "claims": [claim.to_dict() for claim in self.claims],
        }


def fresh(known: Sequence[str] | None, tested: Sequence[str] | None) -> Bools:
    """Which of the known names are not among the tested ones; ends with a sentence where none is."""
    found = ~np.isin(np.array(known), np.array(tested))
    if not found.any():
        raise SystemExit("All that --fit holds is in --data too: nothing is left to fit on.")
    return found


def main(
    about: str,
    tables: Callable[[Path, Path], list[Table] | None],
    missing: str,
    arguments: Sequence[str] | None = None,
) -> int:
    """The command line of a benchmark that makes tables of what is fitted on one folder and tested on another; None of
    them where the data is not there, which is said and no fault."""
    parser = argparse.ArgumentParser(description=about.split("\n")[0])
    parser.add_argument("--fit", type=Path, default=DEFAULT, metavar="DIR")
    parser.add_argument("--data", type=Path, default=DEFAULT, metavar="DIR")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    made = tables(asked.fit, asked.data)
    if made is None:
        print(missing)
    elif asked.json:
        print(json.dumps([table.to_dict() for table in made], indent=2, ensure_ascii=False))
    else:
        for table in made:
            table.show()
    return 0
