"""Threads may judge for the first time at the same moment.

msgspec crashes the process where two threads prepare the same type. So importing a module prepares the types that it
converts, which only one thread does, and no first use does.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

ASPECT = "{'a': {'scale': [0, 1], 'raw': 'a', 'interval': {}, 'inputs': [], 'map': {}}}"
CALIBRATION = f"{{'kind': 'beholder calibration', 'format': 1, 'aspects': {ASPECT}, 'made': {{}}}}"
FIRST_USES = {
    "beholder.rubrics.load": ["load_rubrics('edit')", "list_rubrics()", "load_styles()"],
    "beholder.api.options": ["make_settings(['instruments'], Options())"],
    "beholder.runs.suite": ["load_suite(None, {'rubric': 'edit', 'cases': 'none.csv'})"],
    "beholder.verdicts.verdict": ["Verdict.from_dict({})"],
    "beholder.verdicts.calibration": [f"parse_calibration({CALIBRATION})"],
    "beholder.verdicts.calibration_maps": ["parse_map({'kind': 'linear'}, 1)"],
    "beholder.ledger.encoding": ["unpack_transcripts(pack([]), '', 'it')", "unpack_flags(pack([]), 'it')"],
}
WATCH = """
import sys, traceback
from contextlib import suppress
from {module} import *
from beholder.errors import BeholderError
prepared = set()
def watch(frame, event, _):
    if event == "call" and frame.f_code.co_filename.replace("\\\\", "/").endswith("msgspec/_utils.py"):
        files = [caller.f_code.co_filename for caller, _ in traceback.walk_stack(frame)]
        if "<frozen importlib._bootstrap>" not in files:
            prepared.add(frame.f_code.co_name)
sys.setprofile(watch)
with suppress(BeholderError):
    {use}
sys.setprofile(None)
print(*sorted(prepared))
"""


def prepared(module: str, use: str) -> str:
    script = WATCH.format(module=module, use=use)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout.strip()


@pytest.mark.parametrize(("module", "use"), [(module, use) for module, uses in FIRST_USES.items() for use in uses])
def test_no_first_use_prepares_a_type(module: str, use: str) -> None:
    assert prepared(module, use) == ""


def test_the_watch_sees_a_type_that_is_prepared() -> None:
    assert "get_class_annotations" in prepared("msgspec", "convert({}, defstruct('New', [('a', int, 1)]))")
