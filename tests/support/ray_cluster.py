"""A Ray cluster of several nodes on this machine, on the loopback address only, for as long as its input is open.

    ray_cluster.py CPUS        starts the head, prints its address and where it keeps its logs, then obeys its input:
    add NAME CPUS [KEY=VALUE]  adds a node, with more variables in the environment of its workers
    kill NAME                  kills a node, as a power failure would

A program of its own, so that neither Ray's threads nor its warnings are those of the tests.
"""

from __future__ import annotations

import sys
from typing import Any

from ray.cluster_utils import Cluster

NODE: dict[str, Any] = {
    "include_dashboard": False,
    "node_ip_address": "127.0.0.1",
    "object_store_memory": 80 * 1024 * 1024,
}
# A dead node is noticed within a second, not within ten.
SYSTEM = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 200, "health_check_failure_threshold": 4}


def main() -> None:
    head = {**NODE, "num_cpus": int(sys.argv[1]), "_system_config": SYSTEM}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    nodes: dict[str, Any] = {}
    assert cluster.head_node
    print(cluster.address, cluster.head_node.get_session_dir_path(), flush=True)
    for line in sys.stdin:
        order, name, *more = line.split()
        if order == "add":
            variables = dict(pair.split("=", 1) for pair in more[1:])
            nodes[name] = cluster.add_node(**NODE, num_cpus=int(more[0]), env_vars=variables or None)
        else:
            cluster.remove_node(nodes.pop(name), allow_graceful=False)
        print("done", flush=True)
    cluster.shutdown()


main()
