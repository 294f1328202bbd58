"""Joining a Ray cluster: its address, its nodes and their versions, and what its failures mean."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from beholder.errors import BeholderError, UsageError
from beholder.judges.factory import load_plugin, split_spec
from beholder.plugins import OVERRIDE_VARIABLE
from beholder.providers.base import Provider
from beholder.runs.ray.coordinator import (
    Environment,
)
from beholder.runs.suite import Suite

_VARIABLE_PREFIXES = {"bedrock": "AWS", "google-vertex": "GOOGLE", "azure": "AZURE"}


def read_judge_variables(suite: Suite) -> Environment:
    """Return the environment variables that the judges of a suite read: keys, and addresses of servers.

    A judge that gets no key of its provider needs none of them. For a provider of pydantic-ai they are those that start
    with its name.
    """
    names = {OVERRIDE_VARIABLE}
    for position, entry in enumerate(suite.judges):
        provider, _ = split_spec(entry.judge)
        made = load_plugin(provider)
        if position in suite.without_key:
            pass
        elif isinstance(made, Provider):
            names |= {*made.key_variables, made.base_url_variable}
        else:
            start = _VARIABLE_PREFIXES.get(provider, provider.split("-")[0].upper()) + "_"
            names |= {name for name in os.environ if name.startswith(start)}
        if entry.key_variable:
            names.add(entry.key_variable)
    return {name: os.environ[name] for name in sorted(names) if name in os.environ}


def translate_ray_error(failure: BaseException) -> BaseException:
    """Return what Ray itself raises as a sentence, everything else as it is."""
    try:
        from ray.exceptions import RayError
    except ImportError:
        return failure
    if not isinstance(failure, RayError):
        return failure
    cause = getattr(failure, "cause", None)
    if isinstance(cause, BeholderError):
        return cause
    said = " ".join(str(failure).split())[:300]
    return UsageError(f"The Ray cluster was lost ({said}); the same command goes on where the run was.")


T = TypeVar("T")


def run_in_daemon_thread(work: Callable[[], T]) -> asyncio.Future[T]:
    """Run `work` in a thread of its own.

    Unlike those of `asyncio.to_thread` the thread is a daemon: one that hangs in Ray keeps neither the loop nor the
    process from ending.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            result = work()
        except BaseException as error:
            settle(partial(future.set_exception, error))
        else:
            settle(lambda: future.set_result(result))

    def settle(how: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits for the result
            loop.call_soon_threadsafe(lambda: None if future.done() else how())

    threading.Thread(target=run, name="ray", daemon=True).start()
    return future


LOCAL = "local"


ADDRESS_VARIABLE = "RAY_ADDRESS"  # Ray's own, which `ray job submit` sets


CONNECT_TIMEOUT_S = 3.0  # for the machine to answer


JOIN_TIMEOUT_S = 15.0  # for Ray to accept us


NODE_CHECK_TIMEOUT_S = 60.0  # for every node to report its versions; a cold one starts a process for that


OBJECT_STORE_BYTES = 256 * 1024 * 1024  # of a Ray that is started here: what is sent is small


_RAY_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",  # no telemetry
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
    # What Ray would write between our lines, the `--json` ones among them: its native part, and its messages about
    # workers that died, which the run makes good.
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",
}


@dataclass(frozen=True, slots=True)
class Cluster:
    """A joined cluster: the id of the node of this process (`here`), and how many nodes and processors there are."""

    here: str
    nodes: int
    cpus: int


@asynccontextmanager
async def join_cluster(address: str) -> AsyncIterator[Cluster]:
    """Join the cluster at an address until the end of the context.

    Without an address it is that of `RAY_ADDRESS`, else a Ray that is started on this machine, which only this machine
    can reach, and which ends with the context. A program that has joined a cluster itself stays in it.

    Raises:
        UsageError: Nobody answers, the cluster does not accept us within `JOIN_TIMEOUT_S`, or a node lacks this
            version of Beholder.
    """
    where = address.strip() or os.environ.get(ADDRESS_VARIABLE, "").strip() or LOCAL
    if where not in (LOCAL, "auto"):
        await asyncio.to_thread(_check_reachable, where)
    ray = _import_ray(where)
    ours = not ray.is_initialized()
    if ours:
        await _init_ray(ray, where)
    try:
        await _check_nodes(ray)
        yield _describe_cluster(ray)
    finally:
        if ours:
            await asyncio.to_thread(ray.shutdown)


def _import_ray(where: str) -> Any:
    for name, value in _RAY_ENVIRONMENT.items():
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


def _check_reachable(address: str) -> None:
    """Raise `UsageError` if nobody answers: Ray itself would go on trying for minutes."""
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
        with closing(socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT_S)):
            return
    except (OSError, OverflowError) as error:
        reason = "no answer" if isinstance(error, TimeoutError) else getattr(error, "strerror", None) or str(error)
        raise _unreachable_error(address, reason) from None


def _unreachable_error(address: str, reason: str) -> UsageError:
    return UsageError(
        f"There is no Ray cluster at {address} ({reason}); `ray status` on its head node says where it is, and "
        "without an address Ray is started on this machine."
    )


async def _init_ray(ray: Any, where: str) -> None:
    """Start or join Ray in a thread: it leaves our signal handlers alone, and a call that hangs can be abandoned."""
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": False}
    if where == LOCAL:
        # Of the loop's own threads, which stay: the processes of a Ray that is started die with the thread that did it.
        options |= {"include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES}
        with _mute_stderr():
            await asyncio.to_thread(ray.init, address=where, **options)
        return
    try:
        with _mute_stderr():
            async with asyncio.timeout(JOIN_TIMEOUT_S):
                await run_in_daemon_thread(lambda: ray.init(address=where, **options))
    except TimeoutError:
        raise _unreachable_error(where, f"it let nobody in within {JOIN_TIMEOUT_S:g} s") from None
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise _unreachable_error(where, " ".join(str(error).split())[:300]) from None


@contextmanager
def _mute_stderr() -> Iterator[None]:
    """Mute the terminal: Ray's native part writes a line past Python when it is configured to be quiet."""
    terminal = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)
        os.close(nowhere)


async def _check_nodes(ray: Any) -> None:
    """Check the versions on every node. Raises one `UsageError` that names all nodes that differ from this process."""
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
    answered, _ = await asyncio.wait(
        [asyncio.ensure_future(_await_versions(ref)) for ref in asked], timeout=NODE_CHECK_TIMEOUT_S
    )
    said = dict([task.result() for task in answered])
    wrong: list[str] = []
    for ref, node in asked.items():
        wrong += _find_version_problems(said.get(ref, "does not answer"), __version__, _describe_node(node))
    if wrong:
        raise UsageError(
            "The cluster cannot judge as this machine would; install the same Beholder on all of its nodes:\n"
            + "\n".join(wrong)
        )


async def _await_versions(ref: Any) -> tuple[Any, tuple[str, str] | str]:
    try:
        return ref, await ref
    except Exception as error:  # whatever it is, it is a problem of the node
        return ref, f"could not be asked ({type(error).__name__})"


def _find_version_problems(said: tuple[str, str] | str, version: str, name: str) -> Iterable[str]:
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


def _describe_node(node: dict[str, Any]) -> str:
    return f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']}, node {node['NodeID'][:8]})"


def _describe_cluster(ray: Any) -> Cluster:
    nodes = [node for node in ray.nodes() if node["Alive"]]
    cpus = sum(int(node["Resources"].get("CPU", 0)) for node in nodes)
    return Cluster(ray.get_runtime_context().get_node_id(), len(nodes), max(1, cpus))
