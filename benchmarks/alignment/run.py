"""How well Beholder's measurements agree with people: `make alignment`.

    python benchmarks/alignment/run.py [--fit DIR] [--data DIR] [--write]

Prints the tables of `edits.py` (maps to people's ratings of edits), `audit.py` (flags), `calibration.py` (a judge's
numbers and the instruments together), `factors.py` (a judge's numbers for twelve factors) and `descriptions.py` (the
map to experts' ratings of descriptions), each fitted on --fit and tested on --data, or cross-validated where both are
the same folder. `--write` commits what was fitted on --fit. A set that is not there is named and passed over. Where
none is, which is the case in a fresh clone, it says so and stops with exit code 0; a folder that was named and has no
data is a mistake, exit code 2.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import audit
import calibration
import descriptions
import edits
import factors
import imagenhub

SETS = {
    imagenhub.SET: (edits.main, audit.main, calibration.main),
    factors.SET: (factors.main,),
    descriptions.SET: (descriptions.main,),
}
WRITING = (edits.main, descriptions.main)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fit", type=Path, metavar="DIR")
    parser.add_argument("--data", type=Path, metavar="DIR")
    parser.add_argument("--write", action="store_true", help="commit the numbers fitted on all of --fit")
    asked = parser.parse_args(arguments)
    folders = [asked.fit or edits.DEFAULT, asked.data or edits.DEFAULT]
    there = [name for name in SETS if all((folder / name / "ratings.csv").is_file() for folder in folders)]
    if not there:
        empty = {str(one) for one in folders if not any((one / name / "ratings.csv").is_file() for name in SETS)}
        print(
            f"No human ratings to measure against: {', '.join(SETS)} are not in "
            f"{' and '.join(sorted(empty or map(str, folders)))}. The fitted numbers are in "
            "src/beholder/instruments/weights, with the scores they had.",
            file=sys.stderr,
        )
        return 2 if asked.fit or asked.data else 0
    for name in SETS:
        if name not in there:
            print(f"\nNot measured: {name} (its ratings.csv is not in {' and in '.join(map(str, folders))}).")
            continue
        for step in SETS[name]:
            options = ["--fit", str(folders[0]), "--data", str(folders[1])]
            if asked.write and step in WRITING:
                options.append("--write")
            if code := step(options):
                return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
