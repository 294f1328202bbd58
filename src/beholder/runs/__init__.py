"""Runs: from the cases of a suite to verdicts in the ledger, resumable and within limits.

- `suite_file`: the format of `suite.yaml`; `suite`: a suite loaded from the file, from flags, or from both
- `plan`: what a run would do and cost, without a call
- `execution`: a run from the check of its cases to its exit code
- `engine`: many cases in one event loop, with one writer; `case`: one case before its judges
- `image_pool`: the images of a run; `worker_processes`: other processes that decode and measure them
- `cache`: stored answers that are used again
- `limits`: concurrency, rates and budget; `suite_judges`: judges made with these limits, estimates of tokens and money
- `ledger_access`: the ledger from the event loop, the lock of a run, leases and heartbeats
- `batch`: runs that are asked by batch; `batch_queue`: their requests
- `ray/`: runs on a Ray cluster
"""

import beholder.providers  # noqa: F401  # silences the logger

FIRST_POLL_S = 15.0
"""Seconds from the first look at a batch to the second."""
