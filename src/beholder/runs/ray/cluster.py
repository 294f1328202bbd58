"""The cluster: found, joined, and every node of it looked at before the first call."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import socket
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from typing import Any

from beholder.errors import UsageError
from beholder.runs.ray.threads import in_thread

LOCAL = "local"
VARIABLE = "RAY_ADDRESS"  # Ray's own, which `ray job submit` sets
ANSWER_S = 3.0  # in which the machine must answer
PATIENCE_S = 15.0  # and in which Ray must have let us in
LOOK_S = 60.0  # and in which every node must have said what it has; a cold one starts a process for that
STORE_BYTES = 256 * 1024 * 1024  # of a Ray that is started here: what travels is small

_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",  # no telemetry
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
    # What Ray would write between our lines, the `--json` ones among them: its native part, and its messages about
    # workers that died, which the run makes good.
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",
}


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster that was joined: the node that this process is on, and how many nodes and processors there are."""

    here: str
    nodes: int
    cpus: int


@asynccontextmanager
async def joined_cluster(address: str) -> AsyncIterator[Cluster]:
    """The cluster at an address; without one that of `RAY_ADDRESS`, else a Ray that is started on this machine, which
    only this machine can reach, and ends with the context. Raises `UsageError`, for a cluster that does not let us in
    after `PATIENCE_S`.

    A program that has joined a cluster itself stays in it.
    """
    where = address.strip() or os.environ.get(VARIABLE, "").strip() or LOCAL
    if where not in (LOCAL, "auto"):
        await asyncio.to_thread(_reach, where)
    ray = _ray(where)
    ours = not ray.is_initialized()
    if ours:
        await _join(ray, where)
    try:
        await _look(ray)
        yield _seen(ray)
    finally:
        if ours:
            await asyncio.to_thread(ray.shutdown)


def _ray(where: str) -> Any:
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    if where == LOCAL:
        # This is how Ray keeps to the loopback address, as it does unasked on macOS and Windows.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise UsageError(
            f"The engine ray needs Ray, which is not installed ({error.name} is missing); "
            "run: pip install 'beholder[ray]'"
        ) from None
    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.ERROR)
    return ray


def _reach(address: str) -> None:
    """Raises `UsageError` where nobody answers: Ray itself would go on trying for minutes."""
    if address.startswith("ray://"):
        raise UsageError(
            f"{address} is the address of a Ray client server; run beholder on a machine of the cluster (with "
            "`ray job submit`, say) and give the cluster's own address, such as 10.0.0.1:6379, or auto."
        )
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or not host:
        raise UsageError(
            f"{address!r} is no address of a Ray cluster; write HOST:PORT, such as 10.0.0.1:6379, or auto."
        )
    try:
        with closing(socket.create_connection((host.strip("[]"), int(port)), ANSWER_S)):
            return
    except (OSError, OverflowError) as error:
        reason = "no answer" if isinstance(error, TimeoutError) else getattr(error, "strerror", None) or str(error)
        raise _unreachable(address, reason) from None


def _unreachable(address: str, reason: str) -> UsageError:
    return UsageError(
        f"There is no Ray cluster at {address} ({reason}); `ray status` on its head node says where it is, and "
        "without --address Ray is started on this machine."
    )


async def _join(ray: Any, where: str) -> None:
    """In a thread: there Ray leaves our signal handlers alone, and one that gets nowhere can be left to itself."""
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": False}
    if where == LOCAL:
        # Of the loop's own threads, which stay: the processes of a Ray that is started die with the thread that did it.
        options |= {"include_dashboard": False, "object_store_memory": STORE_BYTES}
        with _quiet():
            await asyncio.to_thread(ray.init, address=where, **options)
        return
    try:
        with _quiet():
            async with asyncio.timeout(PATIENCE_S):
                await in_thread(lambda: ray.init(address=where, **options))
    except TimeoutError:
        raise _unreachable(where, f"it let nobody in within {PATIENCE_S:g} s") from None
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise _unreachable(where, " ".join(str(error).split())[:300]) from None


@contextmanager
def _quiet() -> Iterator[None]:
    """Ray's native part writes a line of its own to the terminal, past Python, when it is told to be quiet."""
    terminal = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)
        os.close(nowhere)


async def _look(ray: Any) -> None:
    """Asks every node what it has. Raises one `UsageError` that names all that cannot judge as this process would."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    from beholder import __version__

    # Pickled as it stands, since it is made here: a node that lacks Beholder could not import it.
    def versions() -> tuple[str, str]:
        import platform

        try:
            import beholder

            return str(beholder.__version__), platform.python_version()
        except ImportError:
            return "", platform.python_version()

    look = ray.remote(versions)
    nodes = [node for node in ray.nodes() if node["Alive"]]
    asked = {
        look.options(
            num_cpus=0, max_retries=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        ).remote(): node
        for node in nodes
    }
    answered, _ = await asyncio.wait([asyncio.ensure_future(_answer(ref)) for ref in asked], timeout=LOOK_S)
    said = dict([task.result() for task in answered])
    wrong: list[str] = []
    for ref, node in asked.items():
        wrong += _objections(said.get(ref, "does not answer"), __version__, _named(node))
    if wrong:
        raise UsageError(
            "The cluster cannot judge as this machine would; install the same Beholder on all of its nodes:\n"
            + "\n".join(wrong)
        )


async def _answer(ref: Any) -> tuple[Any, tuple[str, str] | str]:
    try:
        return ref, await ref
    except Exception as error:  # whatever it is, it is the node's
        return ref, f"could not be asked ({type(error).__name__})"


def _objections(said: tuple[str, str] | str, version: str, name: str) -> Iterable[str]:
    if isinstance(said, str):
        yield f"{name} {said}"
        return
    beholder, python = said
    ours = platform.python_version()
    if not beholder:
        yield f"{name} has no Beholder; here it is {version}"
    elif beholder != version:
        yield f"{name} has Beholder {beholder}; here it is {version}"
    if python.split(".")[:2] != ours.split(".")[:2]:
        yield f"{name} has Python {python}; here it is {ours}"


def _named(node: dict[str, Any]) -> str:
    return f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']}, node {node['NodeID'][:8]})"


def _seen(ray: Any) -> Cluster:
    nodes = [node for node in ray.nodes() if node["Alive"]]
    cpus = sum(int(node["Resources"].get("CPU", 0)) for node in nodes)
    return Cluster(ray.get_runtime_context().get_node_id(), len(nodes), max(1, cpus))
