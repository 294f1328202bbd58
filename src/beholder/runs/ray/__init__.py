"""A run on a Ray cluster: the engine's own steps, with the judging done elsewhere.

    driver    enlists cases, writes verdicts: exactly as `runs.engine` does, with its queues and its leases
    cluster   finding the cluster, and that every node of it has this Beholder
    office    one small actor beside the driver, the only one that workers speak to: cases out, verdicts in, the
              answers that were paid for, the shares of all limits, and which cases were begun
    shares    how the office shares out the limits; attempts: which cases may be begun, and which were begun too often
    source    the cases as a Ray Data source: read tasks fetch them from the office, a chunk at a time
    streaming the dataset: from the source through the workers
    worker    an actor of Ray Data that judges chunks in one event loop, with judges and connections of its own
    rooms     how a worker keeps its share, and how a case that may kill it is judged alone; purse: and its money

Ray Data moves the chunks, starts workers again that died, and gives them their chunks once more. Verdicts do not go
back through it: a chunk is done when its slowest case is, and a verdict should be in the ledger as soon as there is
one.
"""

from __future__ import annotations

from beholder.runs.ray.driver import execute_on_ray

__all__ = ["execute_on_ray"]
