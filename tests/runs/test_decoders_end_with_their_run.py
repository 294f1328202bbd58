"""Kill -9 leaves no process behind."""

from __future__ import annotations

import os
import select
import subprocess
import sys

import pytest

SCRIPT = """
import asyncio, sys
from beholder.judges.audit import plan_audit
from beholder.rubrics.load import load_rubric
from beholder.runs.image_pool import ImagePool

async def main():
    pictures = ImagePool(workers=1)
    await pictures.audit(plan_audit(load_rubric("edit-preservation")), b"", b"")
    print(*pictures._pool._processes, flush=True)
    sys.stdin.read()

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="only Linux tells when a stranger's child has ended")
def test_a_run_that_is_killed_takes_its_decoders_along() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        [worker] = map(int, process.stdout.readline().split())
        ended = os.pidfd_open(worker)
        process.kill()
        try:
            assert select.select([ended], [], [], 30)[0], "the decoder outlived its run"
        finally:
            os.close(ended)
