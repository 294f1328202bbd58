"""Without a key and without a network, most of what is bad in the demo is caught, and little of what is good."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

Run = Any


@pytest.fixture
def done(run: Run, tmp_path: Path) -> Any:
    return run("demo", tmp_path / "demo")


def test_most_are_caught_and_few_alarms_are_false(done: Any) -> None:
    assert done.code == 0, done.err
    in_all = done.out.partition("In all: ")[2].replace("\n", " ")
    caught, bad = map(int, re.findall(r"(\d+) of (\d+) bad ones caught", in_all)[0])
    fine, good = map(int, re.findall(r"(\d+) of (\d+) good ones found fine", in_all)[0])
    assert caught / bad >= 0.85, done.out
    assert fine / good >= 0.95, done.out
    assert done.out.count("judged by instruments") == 3
