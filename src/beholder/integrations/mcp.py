"""The MCP server: `beholder mcp` gives agents tools to judge, measure, compare and look at images, over stdio.

`serve` is here with what it is told; the tools are in `mcp_server`, which alone imports the SDK.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from beholder.api.options import Judges, Options, OptionsLike
from beholder.api.rubrics import list_rubrics
from beholder.api.session import Session
from beholder.errors import SetupError, UsageError
from beholder.images.image import printable_name
from beholder.reports.text import print_text
from beholder.rubrics.load import load_rubrics
from beholder.rubrics.rubric import Rubric

PathLike = str | os.PathLike[str]


def serve(
    judge: Judges = None,
    *,
    root: PathLike | Sequence[PathLike] = (),
    rubric: PathLike | Sequence[PathLike] = (),
    ledger: PathLike | None = None,
    name: str = "mcp",
    budget: float | Decimal | None = None,
    samples: int = 1,
    options: OptionsLike = None,
) -> None:
    """Serve MCP over stdin and stdout until the client ends it. See docs/mcp.md.

    Args:
        judge: Who judges; a client cannot choose another one. By default the instruments, which measure offline.
        root: The folders whose images a client may name. Without any, those that the client calls its roots.
        rubric: Files or folders of rubrics of your own, beside the built-in ones. A client can name no file of one.
        ledger: Where verdicts are stored, and runs are read; by default BEHOLDER_LEDGER, else `beholder.db`.
        name: What the run is called. A server with the same name, judge and options goes on with it.
        budget: US dollars that the run never passes, in all servers that go on with it.
        samples: How often each judge is asked.
        options: See `Options`.

    Raises:
        SetupError: The SDK is not installed.
        UsageError: A folder is none, or a value is wrong.
    """
    from beholder.ledger.database import is_postgresql, resolve_address

    place = resolve_address(ledger)
    if not is_postgresql(place) and not Path(place).parent.is_dir():
        raise UsageError(f"The ledger is to be {printable_name(place)}, and there is no such folder; make it first.")
    settings = ServerSettings(
        judge,
        tuple(_real_folder(folder) for folder in _listed(root)),
        _load_known_rubrics(rubric),
        place,
        name,
        None if budget is None else Decimal(str(budget)),
        samples,
        Options.of(options),
    )
    if importlib.util.find_spec("mcp") is None:
        raise SetupError("The MCP server needs the MCP SDK, which is not installed; run: pip install 'beholder[mcp]'.")
    _check_judges(settings)
    from beholder.integrations.mcp_server import make_server

    make_server(settings).run("stdio")


def _check_judges(settings: ServerSettings) -> None:
    """Say on stderr, which clients keep as the server's log, if the judges cannot be asked: the other tools can be used
    all the same. Raises `UsageError` for a wrong value."""
    try:
        Session(settings.judge, budget=settings.budget, samples=settings.samples, options=settings.options).close()
    except SetupError as error:
        print_text(f"beholder: `judge` and `compare` will fail: {error}", error=True)


@dataclass(frozen=True)
class ServerSettings:
    """What `serve` is told, checked.

    Attributes:
        roots: The folders, as real paths; without any, the client says which.
        rubrics: The rubrics that a client may name, with what to load for each.
        ledger: A path or URL.
    """

    judge: Judges
    roots: tuple[Path, ...]
    rubrics: dict[str, Rubric | str]
    ledger: str
    name: str
    budget: Decimal | None
    samples: int
    options: Options


def _load_known_rubrics(own: PathLike | Sequence[PathLike]) -> dict[str, Rubric | str]:
    rubrics: dict[str, Rubric | str] = {one: one for one in list_rubrics() if len(load_rubrics(one)) == 1}
    return rubrics | {loaded.rubric: loaded for path in _listed(own) for loaded in load_rubrics(path)}


def _listed(given: PathLike | Sequence[PathLike]) -> list[PathLike]:
    return [given] if isinstance(given, str | os.PathLike) else list(given)


def _real_folder(folder: PathLike) -> Path:
    real = Path(os.path.realpath(Path(folder).expanduser()))
    if not real.is_dir():
        raise UsageError(f"--root is a folder, and {printable_name(str(folder))} is none.")
    return real
