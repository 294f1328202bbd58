"""Render templates of prompts: Beholder's own in this process, those of rubric files in a worker process with limits.

A rubric may come from a stranger, so its template is code that nobody has read. It is run in Jinja's sandbox and gets
plain data (mappings, tuples, texts and numbers) and no objects, whose methods could do more than show text. In its
worker it has little time and memory, and an environment without keys. Rendering depends on nothing but the template
and its data, so results are cached.

The worker imports this module: anything heavy is imported inside the functions.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache, lru_cache
from importlib import import_module
from traceback import extract_tb
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Template
    from jinja2.sandbox import SandboxedEnvironment


MAX_TEMPLATE_BYTES = 64 * 1024
MAX_OUTPUT_BYTES = 1024 * 1024
CPU_LIMIT_S = 2.0
WALL_LIMIT_S = 20.0  # of the whole worker, for machines that are busy or cannot limit its CPU time (Windows)
MEMORY_LIMIT_BYTES = 1024**3
MAX_REASON_CHARACTERS = 500  # of an error, which may quote whatever the template made
_START = """
import pickle, sys
sys.path[:] = pickle.load(sys.stdin.buffer)
from beholder.rubrics.template import serve
serve()
"""
_KEPT_VARIABLES = re.compile(r"PYTHON\w*|D?Y?LD_\w+|LC_\w+|LANG|PATH|HOME|USERPROFILE|SYSTEMROOT|TE?MP|TMPDIR", re.I)


class TemplateFailure(Exception):
    """A template cannot be rendered. `line` is that of the template, where it is known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        self.line = line
        super().__init__(message)


def render_shared_template(name: str, values: Mapping[str, Any]) -> str:
    """Render one of Beholder's own templates, by its file name."""
    return _render(lambda: _environment().get_template(name), values)


def render_own_template(source: str, values: Mapping[str, Any]) -> str:
    """Render the text of one of Beholder's own templates."""
    return _render(lambda: _environment().from_string(source), values)


def render_foreign_template(source: str, values: Mapping[str, Any]) -> str:
    """Render a template of a rubric file in a worker process.

    Args:
        source: The template.
        values: Its variables, as plain data.

    Raises:
        TemplateFailure: It is too large, is wrong, or goes beyond a limit.
    """
    if problem := find_size_problem(source):
        raise TemplateFailure(problem)
    if getattr(sys, "frozen", False) or not sys.executable:  # this program cannot start Python
        return render_own_template(source, values)
    return _render_in_worker(source, pickle.dumps(dict(values)))


def find_size_problem(source: str) -> str:
    """Return what is wrong with the size of a template; empty if nothing is."""
    size = len(source.encode("utf-8", "replace"))
    if size <= MAX_TEMPLATE_BYTES:
        return ""
    return f"the template has {size:,} bytes, and may have {MAX_TEMPLATE_BYTES:,}"


def find_syntax_problem(source: str) -> tuple[str, int | None] | None:
    """Return the syntax error of a template and its line; `None` if there is none."""
    from jinja2 import TemplateSyntaxError

    try:
        _environment().parse(source)
    except TemplateSyntaxError as error:
        return (error.message or "wrong syntax")[:MAX_REASON_CHARACTERS], error.lineno
    except RecursionError:
        return "it is nested too deeply", None
    except ValueError as error:  # a number of thousands of digits
        return str(error), None
    return None


def offers_answer(rule: str, condition: str) -> bool:
    """Return whether N/A is offered, by the rubric's rule and by the condition of an assertion (`applies: people`)."""
    return rule == "offer" or (rule == "accept" and bool(condition))


@lru_cache(64)
def _render_in_worker(source: str, values: bytes) -> str:
    flags = ["-P", "-E"] if sys.flags.ignore_environment else ["-P"]
    request = pickle.dumps(list_import_folders()) + pickle.dumps((source, values))
    try:
        done = subprocess.run(
            [sys.executable, *flags, "-c", _START],
            input=request,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: value for name, value in os.environ.items() if _KEPT_VARIABLES.fullmatch(name)},
            timeout=WALL_LIMIT_S,
            check=False,
            process_group=0,  # Ctrl-C in the terminal is left to this process
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    except subprocess.TimeoutExpired:
        raise TemplateFailure(_too_long()) from None
    except OSError as error:
        raise TemplateFailure(f"no process could be started for it ({error.strerror})") from None
    if not done.stdout:
        raise TemplateFailure(_too_long() if done.returncode < 0 else "its process ended by itself")
    reply = json.loads(done.stdout)
    if "text" not in reply:
        raise TemplateFailure(reply["error"], reply["line"])
    text: str = reply["text"]
    return text


def list_import_folders() -> list[str]:
    """Return from where a worker process imports: from where this one does.

    While `cv2` is imported, on another thread, its own folder stands in `sys.path`. In a worker its `typing` would take
    the place of the standard library's.
    """
    return [str(folder) for folder in sys.path if not _is_inside_opencv(str(folder))]


def _is_inside_opencv(folder: str) -> bool:
    candidates = folder, os.path.dirname(folder)
    return any(os.path.basename(path) == "cv2" and os.path.isfile(f"{path}/__init__.py") for path in candidates)


def _too_long() -> str:
    return f"it takes more than {CPU_LIMIT_S:g} s"


def serve() -> None:
    """Render one template that comes by standard input, within the limits. Called in the worker process."""
    source, values = pickle.load(sys.stdin.buffer)
    _set_limits()
    reply: dict[str, object]
    try:
        reply = {"text": render_own_template(source, pickle.loads(values))}
    except TemplateFailure as error:
        reply = {"error": str(error), "line": error.line}
    except MemoryError:
        reply = {"error": "it takes too much memory", "line": None}
    sys.stdout.buffer.write(json.dumps(reply).encode())


def _set_limits() -> None:
    """Limit what this process may use from now on, where the system can (Windows cannot, macOS not the memory)."""
    import signal

    import jinja2.sandbox  # noqa: F401  # before the clock starts

    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGPROF, signal.SIG_DFL)  # which ends the process
        signal.setitimer(signal.ITIMER_PROF, CPU_LIMIT_S)
    with suppress(ImportError, OSError, ValueError):
        resource = import_module("resource")
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES))


def _render(load: Callable[[], Template], values: Mapping[str, Any]) -> str:
    from jinja2 import TemplateError

    try:
        return _join(load().generate(_add_functions(values)))
    except TemplateFailure:
        raise
    # What expressions in a template may raise, such as {{ 1 / 0 }}, beside Jinja's own errors.
    except (
        TemplateError,
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        reason = getattr(error, "message", None) or str(error) or type(error).__name__
        raise TemplateFailure(reason[:MAX_REASON_CHARACTERS], _find_line(error)) from None


def _join(parts: Iterable[str]) -> str:
    """Return the text, and stop as soon as there is too much of it."""
    kept, size = [], 0
    for part in parts:
        kept.append(part)
        size += len(part.encode("utf-8", "replace"))
        if size > MAX_OUTPUT_BYTES:
            raise TemplateFailure(f"it makes more than {MAX_OUTPUT_BYTES:,} bytes of text")
    return "".join(kept)


def _add_functions(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with the functions that templates may call on a rubric: `image(role)` and `assertions()`."""
    if "rubric" not in values:
        return dict(values)
    rubric = values["rubric"]

    def image(role: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] | None = next((one for one in rubric["images"] if one["role"] == role), None)
        if found is None:
            raise LookupError(f"there is no image {role!r}")
        return found

    def assertions() -> list[Mapping[str, Any]]:
        return [assertion for criterion in rubric["criteria"] for assertion in criterion["assertions"]]

    return {**values, "rubric": {**rubric, "image": image, "assertions": assertions}}


def _find_line(error: Exception) -> int | None:
    """Return the line of the template that an error comes from; jinja2 puts it into the traceback."""
    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == "<template>"]
    return lines[-1] if lines else None


@cache
def _environment() -> SandboxedEnvironment:
    from jinja2 import PackageLoader, StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment

    environment = SandboxedEnvironment(
        loader=PackageLoader("beholder.rubrics", "builtin/_shared"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
    )
    # Users' prompts may use these two names.
    environment.globals["offers_not_applicable"] = lambda rubric, assertion: offers_answer(
        rubric["scoring"]["not_applicable"], assertion["applies"]
    )
    environment.filters["number"] = lambda value: f"{value:g}"
    return environment
