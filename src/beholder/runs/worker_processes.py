"""Worker processes: functions that run in other Python processes, without a guard in the caller's script.

The pools of the standard library start the caller's script a second time in each process (`spawn`), which a script
without `if __name__ == "__main__"` does not survive, or copy this process with its threads and sockets (`fork`). A
`WorkerProcess` is a fresh interpreter that imports only what it is asked to run. Both sides write messages: a pickle,
and beside it the large `bytes` that belong into it (image files), which are not copied for that. A worker exits when it
is told to by an empty message, and when its standard input ends, which the system sees to however the parent ends. A
forked child lets go of the pipes that it inherits, so that it keeps no worker of its parent alive.
"""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from importlib import import_module
from queue import Empty, SimpleQueue
from typing import IO, TYPE_CHECKING, Any, ParamSpec, TypeVar

from beholder.rubrics.template import list_import_folders

if TYPE_CHECKING:
    from beholder.images.memory import MemoryBudget

P = ParamSpec("P")
T = TypeVar("T")

LENGTH_BYTES = 8
LARGE_BYTES = 1 << 16  # from this length on, `bytes` travel beside the pickle
# The largest that Linux allows without privileges. With the usual 64 KB both processes would be woken a dozen times for
# a pair of photographs.
PIPE_BYTES = 1 << 20
END_S = 10.0  # how long a worker that was told to exit may take
# There is a process for each core. OpenBLAS would start a thread on every core in each of them, and spend 0.1 s on
# waiting there.
_ONE_THREAD = {"OPENCV_FOR_THREADS_NUM": "1", "OPENBLAS_NUM_THREADS": "1"}
# Nothing is imported from the working folder, and `beholder` from where this process has it.
_START = """
import pickle, sys
sys.path[:] = pickle.load(sys.stdin.buffer)
from beholder.runs.worker_processes import serve
serve()
"""


def default_worker_count() -> int:
    """Return how many worker processes to use: one for each core, or 0 where this program cannot start Python."""
    frozen = bool(getattr(sys, "frozen", False))  # PyInstaller and its kin: `sys.executable` is the program itself
    return 0 if frozen or not sys.executable else os.cpu_count() or 1


class WorkerProcess:
    """A Python process that runs one function at a time, for one thread at a time."""

    def __init__(self) -> None:
        flags = ["-P", "-E"] if sys.flags.ignore_environment else ["-P"]
        self._process = subprocess.Popen(
            [sys.executable, *flags, "-c", _START],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**_ONE_THREAD, **os.environ},
            # Ctrl-C in the terminal is left to the parent, which lets its workers finish.
            process_group=0,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._replies = self._process.stdin, self._process.stdout
        _enlarge_pipe(self._requests)
        self._started = False
        self.pid = self._process.pid
        _workers.add(self)

    @property
    def closed(self) -> bool:
        """Whether the process has ended or is about to."""
        return self._requests.closed

    def call(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what `work` returns in the process, or raise what it raises. All of it must be picklable.

        Raises:
            BrokenExecutor: The process ended before it replied. It cannot be used again.
        """
        request = WorkerMessage.pack((work, args, kwargs))
        try:
            if not self._started:
                pickle.dump(list_import_folders(), self._requests)
                self._started = True
            request.write(self._requests)
            reply = WorkerMessage.read(self._replies)
        except (EOFError, OSError):
            self.close()
            raise BrokenExecutor(f"a worker process ended by itself ({self._process.returncode})") from None
        except BaseException:  # the next reply would belong to this call
            self._process.kill()
            self.close()
            raise
        value, error = reply.unpack()
        if error is not None:
            raise error
        result: T = value
        return result

    def close(self) -> None:
        """End the process and wait for it."""
        if not self._started:
            self._process.kill()
        with suppress(OSError, ValueError):  # it ended before it read everything; it was closed before
            WorkerMessage().write(self._requests)  # another process may have the pipe, too, which then does not end
        with suppress(OSError):
            self._requests.close()
        self._replies.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def release_pipes(self) -> None:
        """Close this process's ends of the pipes, in a forked child, to which the worker does not belong."""
        with open(os.devnull, "r+b", buffering=0) as nothing:
            for file in (self._requests, self._replies):
                if not file.closed:
                    # The numbers stay taken: the files close them some time, and would close what else has them then.
                    os.dup2(nothing.fileno(), file.fileno(), inheritable=False)


_workers: weakref.WeakSet[WorkerProcess] = weakref.WeakSet()


def _release_inherited_pipes() -> None:
    for worker in list(_workers):
        worker.release_pipes()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_inherited_pipes)


class DaemonThreadPool(ThreadPoolExecutor):
    """A thread pool that works until the very end of the process, whose threads keep no process alive.

    Those of the standard library take no more work once the main thread has ended. Then other threads, and a session
    that is left open, still have calls to finish.

    Args:
        count: The most threads.
        name: How the names of the threads begin.
    """

    def __init__(self, count: int, name: str) -> None:
        super().__init__(count, thread_name_prefix=name)
        self._name = name
        self._jobs: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._daemons: list[threading.Thread] = []
        self._idle = threading.Semaphore(0)
        self._guard = threading.Lock()
        self._ended = False

    def submit(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run `work` on one of the threads, or here, where the program ends and no thread can be started any more."""
        future: Future[T] = Future()
        job = future, partial(work, *args, **kwargs)
        with self._guard:
            if self._ended:
                raise RuntimeError("the thread pool is shut down")
            if not self._idle.acquire(blocking=False) and len(self._daemons) < self._max_workers:
                thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                with suppress(RuntimeError):  # from Python 3.12 on, at the end of the program
                    thread.start()
                    self._daemons.append(thread)
            if has_thread := bool(self._daemons):
                self._jobs.put(job)
        if not has_thread:
            _run_job(*job)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Finish the work that was submitted (with `cancel_futures`, only what was begun), and end the threads."""
        with self._guard:
            self._ended = True
        while cancel_futures and not self._jobs.empty():
            with suppress(Empty):
                if (job := self._jobs.get_nowait()) is not None:
                    job[0].cancel()
        for _ in self._daemons:
            self._jobs.put(None)
        for thread in self._daemons if wait else ():
            thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            _run_job(*job)
            del job  # not kept until the next one comes
            self._idle.release()


def _run_job(future: Future[Any], work: Callable[[], Any]) -> None:
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)


class WorkerPool(DaemonThreadPool):
    """An executor with worker processes, each started when all others are busy.

    Args:
        count: The number of processes.
    """

    def __init__(self, count: int) -> None:
        super().__init__(count, "beholder-worker")
        self._idle_workers: list[WorkerProcess] = []

    def submit(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run `work` in one of the processes; see `WorkerProcess.call`."""
        return super().submit(self._call, work, *args, **kwargs)

    def submit_within(self, budget: MemoryBudget, estimate: Callable[[], int], job: Callable[[], T]) -> Future[T]:
        """Run `job` in one of the processes, once `budget` has room for what it is estimated to need."""
        return super().submit(self._call_within, budget, estimate, job)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Finish the work that was begun, and end the processes."""
        super().shutdown(wait, cancel_futures=cancel_futures)
        while self._idle_workers:
            self._idle_workers.pop().close()

    def _call_within(self, budget: MemoryBudget, estimate: Callable[[], int], job: Callable[[], T]) -> T:
        with budget.reserve(min(estimate(), budget.most)):  # what is too large is refused by the process
            return self._call(job)

    def _call(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        # There are as many threads as processes, so that one is idle or may be started.
        try:
            worker = self._idle_workers.pop()
        except IndexError:
            worker = WorkerProcess()
        try:
            return worker.call(work, *args, **kwargs)
        finally:
            if not worker.closed:
                self._idle_workers.append(worker)


class WorkerMessage:
    """What one process tells the other: a pickle, and the large `bytes` that belong into it.

    Args:
        pickled: The pickle; empty to tell a worker to exit.
        blocks: The large `bytes`.
    """

    def __init__(self, pickled: bytes = b"", blocks: Sequence[bytes] = ()) -> None:
        self._pickled, self._blocks = pickled, blocks

    def __bool__(self) -> bool:
        return bool(self._pickled)

    @classmethod
    def pack(cls, value: object) -> WorkerMessage:
        """Pickle a value."""
        file = io.BytesIO()
        pickler = _BlockPickler(file, pickle.HIGHEST_PROTOCOL)
        pickler.dump(value)
        return cls(file.getvalue(), pickler.blocks)

    def unpack(self) -> Any:
        """Return the value that was packed."""
        return _BlockUnpickler(self._pickled, self._blocks).load()

    def write(self, file: IO[bytes]) -> None:
        """Write the message to a pipe: the number of its parts, then each with its length before it."""
        parts = [self._pickled, *self._blocks]
        file.write(len(parts).to_bytes(LENGTH_BYTES, "little"))
        for part in parts:
            file.write(len(part).to_bytes(LENGTH_BYTES, "little"))
            file.write(part)
        file.flush()

    @classmethod
    def read(cls, file: IO[bytes]) -> WorkerMessage:
        """Read a message from a pipe. Raises `EOFError` where the pipe has ended."""
        pickled, *blocks = [_read_exactly(file, _read_length(file)) for _ in range(_read_length(file))]
        return cls(pickled, blocks)


class _BlockPickler(pickle.Pickler):
    """Collects large `bytes` in `blocks`, and leaves only their numbers in the pickle."""

    def __init__(self, file: IO[bytes], protocol: int) -> None:
        super().__init__(file, protocol)
        self.blocks: list[bytes] = []

    def persistent_id(self, value: object) -> int | None:
        if type(value) is not bytes or len(value) < LARGE_BYTES:
            return None
        self.blocks.append(value)
        return len(self.blocks) - 1


class _BlockUnpickler(pickle.Unpickler):
    """Puts the large `bytes` back into their places."""

    def __init__(self, pickled: bytes, blocks: Sequence[bytes]) -> None:
        super().__init__(io.BytesIO(pickled))
        self._blocks = blocks

    def persistent_load(self, number: int) -> bytes:
        return self._blocks[number]


def serve() -> None:
    """Run the functions that the parent asks for. This is the main function of a worker process."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2 if sys.stderr else os.open(os.devnull, os.O_WRONLY), 1)  # what a library prints is no reply
    requests: SimpleQueue[WorkerMessage] = SimpleQueue()
    threading.Thread(target=_read_requests, args=(requests,), daemon=True).start()
    while True:
        try:
            _run_request(requests.get()).write(replies)
        except OSError:  # the parent is gone
            os._exit(1)


def _read_requests(requests: SimpleQueue[WorkerMessage]) -> None:
    """Queue what the parent asks for, and exit when the parent is gone, also in the middle of work."""
    try:
        while True:
            if not (request := WorkerMessage.read(sys.stdin.buffer)):
                os._exit(0)
            requests.put(request)
            del request  # not kept until the next one comes
    except (EOFError, OSError):
        os._exit(0)


def _run_request(request: WorkerMessage) -> WorkerMessage:
    try:
        work, args, kwargs = request.unpack()
        return WorkerMessage.pack((work(*args, **kwargs), None))
    except BaseException as error:
        error.add_note(traceback.format_exc())  # a traceback cannot be sent
        try:
            reply = WorkerMessage.pack((None, error))
            reply.unpack()  # some exceptions fail only here
            return reply
        except Exception:
            return WorkerMessage.pack((None, RuntimeError(f"{type(error).__name__}: {error}")))


def _enlarge_pipe(file: IO[bytes]) -> None:
    """Let a pipe hold more, where the system can do that."""
    with suppress(ImportError, AttributeError, OSError):  # not on Windows; only on Linux; a limit of the user
        fcntl = import_module("fcntl")
        fcntl.fcntl(file.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)


def _read_length(file: IO[bytes]) -> int:
    return int.from_bytes(_read_exactly(file, LENGTH_BYTES), "little")


def _read_exactly(file: IO[bytes], length: int) -> bytes:
    data = file.read(length)
    if len(data) < length:
        raise EOFError
    return data
