"""Heavy parts are imported where they are used."""

from __future__ import annotations

import subprocess
import sys

HEAVY = {
    "aiohttp",
    "cv2",
    "numpy",
    "PIL",
    "simplejpeg",
    "jinja2",
    "pydantic_ai",
    "genai_prices",
    "polars",
    "sqlalchemy",
}


def modules_after(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_beholder_loads_nothing_heavy() -> None:
    assert modules_after("import beholder; beholder.Case; beholder.judge_from") & HEAVY == set()


def test_the_values_of_a_ledger_load_no_database() -> None:
    code = "import beholder.ledger.types, beholder.ledger.encoding, beholder.ledger.export"
    assert modules_after(code) & HEAVY == set()


def test_help_loads_nothing_heavy() -> None:
    code = (
        "from beholder.cli.app import app\n"
        "try: app(['--help'], standalone_mode=False)\n"
        "except SystemExit: pass\n"
        "sys.stdout.flush(); print()"
    )
    script = f"import sys, io\nout, sys.stdout = sys.stdout, io.StringIO()\n{code}\nsys.stdout = out"
    assert modules_after(script) & HEAVY == set()


def test_the_commands_are_known_without_the_packages_that_do_their_work() -> None:
    script = "import sys, beholder.cli.app\nprint(*(name for name in sys.modules if name.startswith('beholder.')))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    working = {"beholder.cases.case", "beholder.ledger.types", "beholder.rubrics.rubric", "beholder.verdicts.verdict"}
    assert working.isdisjoint(done.stdout.split())


def test_a_run_into_a_file_loads_nothing_of_databases_and_clusters() -> None:
    script = (
        "import sys\nimport beholder.cli.run, beholder.ledger.ledger, beholder.runs.execution\n"
        "print(*(name for name in sys.modules if 'postgresql' in name or name in ('psycopg', 'ray', 'pyarrow')))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
