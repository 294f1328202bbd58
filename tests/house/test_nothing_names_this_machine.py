"""No file names a path of a developer's machine or the host of a package registry."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
FORBIDDEN = re.compile("|".join(["/work" + "/main", "/ro" + "ot/", r"py" + r"pi\.org", r"files\.python" + r"hosted"]))


def test_no_tracked_file_does() -> None:
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    names = [name for name in tracked.split("\0") if name and (ROOT / name).is_file()]
    assert len(names) > 50
    found = [name for name in names if FORBIDDEN.search((ROOT / name).read_bytes().decode("utf-8", "replace"))]
    assert found == []
