"""How long a browser waits for the page of a run: on its first visit, while its numbers are worked out, and then.

python -m scale.pages LEDGER RUN
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

VISITS = 7
_ASK_S = 0.2


@dataclass(frozen=True, slots=True)
class Page:
    """Milliseconds from the request to the last byte; `ready_s` from the first visit to the first page with all its
    numbers; `cases_ms` is the list of cases, worst first."""

    first_ms: float
    ready_s: float
    median_ms: float
    cases_ms: float


def visit(ledger: Path, run: str) -> Page:
    """Serves the ledger on a port of this machine and visits the run."""
    import httpx

    from beholder.web.server import create_app, serve_in_thread

    app = create_app(ledger)
    with serve_in_thread(app) as site, httpx.Client(base_url=site, trust_env=False, timeout=120) as client:

        def asked(path: str) -> tuple[float, str]:
            start = time.perf_counter()
            answer = client.get(path)
            answer.raise_for_status()
            return 1000 * (time.perf_counter() - start), answer.text

        asked("/")  # where everybody begins; the first page of all also loads what pages need
        begun = time.monotonic()
        first_ms, text = asked(f"/runs/{run}")
        while "being worked out" in text:
            time.sleep(_ASK_S)
            _, text = asked(f"/runs/{run}")
        ready_s = time.monotonic() - begun
        page = median(asked(f"/runs/{run}")[0] for _ in range(VISITS))
        cases = median(asked(f"/runs/{run}/cases")[0] for _ in range(VISITS))
    app.state.background.close()
    return Page(first_ms, ready_s, page, cases)


if __name__ == "__main__":
    print(json.dumps(asdict(visit(Path(sys.argv[1]), sys.argv[2]))))
