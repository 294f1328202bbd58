"""Trust in suite files: what a `suite.yaml` may not do unless its user allows it.

A suite may come from a stranger. What it says of cases, rubric and judges is followed. But keys, images and verdicts go
only where the user has them go: an address (`base_url`, a database as `ledger`, a Ray cluster) or a `key_variable` that
stands in a file needs the user's trust, once for each content of the file. Flags, keywords, mappings in Python and the
environment are the user's own word and need none. Nor do addresses of this machine; but no key that is meant for a
provider is sent to them.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from beholder.errors import Problem, UntrustedSuite
from beholder.providers.base import Provider
from beholder.providers.endpoint import is_loopback_url
from beholder.runs.suite_file import JudgeEntry, SuiteFile, provider_of, provider_with_base_url, root_key

if TYPE_CHECKING:
    from beholder.judges.factory import JudgePlugin


_log = logging.getLogger(__name__)

TRUST_FILE_VARIABLE = "BEHOLDER_TRUST_FILE"
_RAY_ON_THIS_MACHINE = ("", "auto", "local")


@dataclass(frozen=True, slots=True)
class _FileJudge:
    """A judge that a file names.

    Attributes:
        entry: As it is asked.
        plugin: What asks it; `None` where pydantic-ai does.
        urls: The base URLs that stand in the file and are not at the provider's own host.
        variable: The key variable that stands in the file.
    """

    entry: JudgeEntry
    plugin: JudgePlugin | None
    urls: tuple[str, ...]
    variable: str


def settle_trust(path: Path, suite: SuiteFile, user_keys: Collection[str], *, trust_suite: bool) -> frozenset[int]:
    """Decide whether a suite file is trusted with what it asks for.

    Args:
        path: The file.
        suite: What it says, with the user's flags over it.
        user_keys: Keys that the user set.
        trust_suite: The user trusts the file. That is remembered.

    Returns:
        The positions of judges that get no key of their provider.

    Raises:
        UntrustedSuite: It asks for more than an untrusted file may have.
    """
    models = _list_models(suite, user_keys)
    local = frozenset(position for position, model in models.items() if model.urls)
    reasons = [*_find_judge_reasons(models.values()), *_find_place_reasons(suite, user_keys)]
    if not reasons and not local:
        return frozenset()
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if trust_suite:
        _remember(digest, path)
        return frozenset()
    if _is_remembered(digest):
        return frozenset()
    if reasons:
        raise UntrustedSuite(str(path), reasons)
    return local


def find_outside_files(file: SuiteFile, folder: Path, flag_keys: Collection[str]) -> Iterator[Problem]:
    """Return files of a suite that lie outside its folder, symbolic links resolved, unless the user named them."""
    from beholder.rubrics.load import RUBRIC_FILE, is_known_rubric

    named: list[tuple[str, str, list[Path]]] = []
    for position, name in enumerate(file.styles):
        inside = [*(folder / name).glob("*.yaml")] if os.path.isdir(folder / name) else []
        named.append((f"styles[{position}]", name, inside))
    if file.prompt:
        named.append(("prompt", file.prompt, []))
    if file.rubric and not is_known_rubric(file.rubric):
        named.append(("rubric", file.rubric, [folder / file.rubric / RUBRIC_FILE]))
    for key, name, inside in named:
        flag = root_key(key)
        if flag not in flag_keys and not all(_lies_below(one, folder) for one in (folder / name, *inside)):
            advice = f"move it there, or name it yourself (--{flag} or {flag}=)"
            yield Problem(f"{name!r} lies outside the suite's folder; {advice}", key)


def _lies_below(path: Path, folder: Path) -> bool:
    try:
        return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))
    except (OSError, ValueError):  # no file can have such a name
        return False


def _find_judge_reasons(models: Iterable[_FileJudge]) -> Iterator[str]:
    """Return for each judge which key, or what else, would go where because the file says so."""
    for model in models:
        entry, plugin, urls, variable = model.entry, model.plugin, model.urls, model.variable
        if urls and not _is_local(plugin, urls):
            yield f"{_describe_key(entry, plugin)} would go to {', '.join(urls)}, to ask {entry.judge}"
        elif variable and (urls or variable not in _own_variables(plugin)):
            where = ", ".join(entry.base_urls) or entry.base_url or "its provider"
            yield f"the value of {variable} would go to {where}, to ask {entry.judge}"


def _find_place_reasons(suite: SuiteFile, user_keys: Collection[str]) -> Iterator[str]:
    ledger = "" if "ledger" in user_keys else suite.ledger or ""
    if hosts := [host for host in _database_hosts(ledger) if not is_loopback_url(f"//{host}")]:
        where = ", ".join(hosts)
        yield f"verdicts and small copies of images would go to the database at {where}, with the password for it"
    address = "" if "address" in user_keys else suite.address
    url = address if "://" in address else f"//{address}"
    if suite.engine == "ray" and address not in _RAY_ON_THIS_MACHINE and not is_loopback_url(url):
        yield f"the keys of all judges and all images would go to the Ray cluster at {address}"


def _database_hosts(ledger: str) -> list[str]:
    """Return where a database would be looked for, as libpq reads its URL; sockets of this machine are left out."""
    try:
        parts = urlsplit(ledger)
    except ValueError:  # a file with brackets in its name, since a URL was checked with the suite
        return []
    if not parts.scheme.startswith("postgres"):
        return []
    query = parse_qs(parts.query)
    hosts = parts.netloc.rpartition("@")[2].split(",")
    for name in ("host", "hostaddr", "service"):
        hosts += [one for value in query.get(name, ()) for one in value.split(",")]
    return [host for host in hosts if host and not host.startswith("/")]


def _list_models(suite: SuiteFile, user_keys: Collection[str]) -> dict[int, _FileJudge]:
    """Return the judges that the file names, by position."""
    from beholder.judges.base import INSTRUMENTS
    from beholder.judges.factory import load_plugin, split_spec

    if "judges" in user_keys:
        return {}
    entries = {
        at: one for at, one in enumerate(suite.judges) if isinstance(one, JudgeEntry) and one.judge != INSTRUMENTS
    }
    placed = ""  # whose base URL the user has set
    if "base_url" in user_keys or "base_urls" in user_keys:
        placed = provider_with_base_url(sorted({provider_of(entry.judge) for entry in entries.values()}))
    models = {}
    for position, entry in entries.items():
        plugin = load_plugin(split_spec(entry.judge)[0])
        urls = () if provider_of(entry.judge) == placed else _foreign_urls(entry, plugin)
        variable = "" if "key_variable" in user_keys else entry.key_variable or ""
        models[position] = _FileJudge(entry, plugin, urls, variable)
    return models


def _foreign_urls(entry: JudgeEntry, plugin: JudgePlugin | None) -> tuple[str, ...]:
    """Return the base URLs that are not at the provider's own host."""
    own = urlsplit(plugin.base_url)[:2] if isinstance(plugin, Provider) else None  # scheme and host
    return tuple(url for url in entry.base_urls or (entry.base_url,) if url and urlsplit(url)[:2] != own)


def _own_variables(plugin: JudgePlugin | None) -> tuple[str, ...]:
    return plugin.key_variables if isinstance(plugin, Provider) else ()


def _is_local(plugin: JudgePlugin | None, urls: Iterable[str]) -> bool:
    """Return whether all is on this machine, and asked by code that keeps the provider's key back."""
    return (plugin is None or isinstance(plugin, Provider)) and all(map(is_loopback_url, urls))


def _describe_key(entry: JudgeEntry, plugin: JudgePlugin | None) -> str:
    if not isinstance(plugin, Provider) and not entry.key_variable:
        return "images and texts of your cases, with the key for them,"
    names = (entry.key_variable,) if entry.key_variable else _own_variables(plugin)
    held = next((name for name in names if os.environ.get(name, "").strip()), "")
    return f"the key in {held}, with images and texts of your cases," if held else "images and texts of your cases"


def trust_file() -> Path:
    """Return the file with the digests of trusted suites: in the user's folder of settings, or BEHOLDER_TRUST_FILE."""
    if named := os.environ.get(TRUST_FILE_VARIABLE, "").strip():
        return Path(named)
    from typer import get_app_dir

    return Path(get_app_dir("beholder")) / "trusted-suites.txt"


def _is_remembered(digest: str) -> bool:
    try:
        lines = trust_file().read_text("utf-8", "replace").splitlines()
    except OSError:
        return False
    return any(line.split(" ", 1)[0] == digest for line in lines)


def _remember(digest: str, path: Path) -> None:
    """Add a line to the file of trusted suites: the digest, and for people the path."""
    if _is_remembered(digest):
        return
    file = trust_file()
    named = os.path.abspath(path).encode("utf-8", "backslashreplace").decode().replace("\n", " ")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(file, "a", encoding="utf-8") as lines:
            lines.write(f"{digest} {named}\n")
        with suppress(OSError):
            file.chmod(0o600)
    except OSError as error:  # a read-only home, as in many containers: trusted for now, and asked again
        _log.warning("beholder: %s cannot be written (%s); the suite is trusted this time only.", file, error.strerror)
