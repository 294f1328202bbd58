"""A run on a Ray cluster: the engine's own steps, with the judging done on the workers of the cluster.

    driver       `RayEngine`: queues cases and writes verdicts exactly as the local engine does;
                 finds and joins the cluster, checks that every node has this Beholder
    coordinator  one small actor beside the driver, the only one that workers talk to: cases out, verdicts in, cached
                 answers, the shares of all limits, and which cases were started how often
    dataset      the cases as a Ray Data source, streamed through the workers
    worker       an actor of Ray Data that judges chunks in one event loop, with judges and connections of its own

Ray Data moves the chunks, restarts workers that died, and gives them their chunks again. Verdicts do not go back
through it: a chunk is done when its slowest case is, and a verdict should be in the ledger as soon as there is one.
"""
