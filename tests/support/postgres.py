"""A real PostgreSQL server for tests, started once for each process of tests; a fresh database for whoever asks."""

from __future__ import annotations

import os
import pwd
import random
import shutil
import socket
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

USER, PASSWORD = "beholder", "open-sesame"

_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "log_min_messages": "fatal",
}


def programs() -> Path | None:
    """The folder of the server's programs: on the path, or where Debian puts them, newest first."""
    on_path = shutil.which("initdb")
    if on_path and shutil.which("postgres", path=str(Path(on_path).resolve().parent)):
        return Path(on_path).resolve().parent
    found = [path for path in Path("/usr/lib/postgresql").glob("*/bin") if (path / "initdb").exists()]
    return max(found, key=lambda path: float(path.parent.name)) if found else None


@dataclass
class Server:
    """One server in a folder of its own. `stop` and `start` are for tests of what happens then."""

    programs: Path
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="beholder-pg-", dir=_quickest())))
    port: int = 0
    _numbers: count[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.port = _free_port()
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        if owner := _owner():
            shutil.chown(self.folder, owner)
            shutil.chown(secret, owner)
        # An order of texts that is not that of their bytes, so that it shows where ours depends on it.
        usual = ["-D", str(self.data), "-U", USER, "-A", "scram-sha-256", "--pwfile", str(secret), "-E", "UTF8", "-N"]
        icu = ["--locale-provider=icu", "--icu-locale=en-US", "--locale=C.UTF-8"]
        if self._do("initdb", *usual, *icu, check=False).returncode:  # before version 15, or built without it
            self._do("initdb", *usual, "--locale=C")
        self.start()

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def start(self, **settings: str) -> None:
        given = " ".join(f"-c {name}={value}" for name, value in {**_SETTINGS, **settings}.items())
        options = f"-p {self.port} -k {self.folder} {given}"
        self._do("pg_ctl", "-D", str(self.data), "-w", "-l", str(self.folder / "log"), "-o", options, "start")

    def stop(self, how: str = "fast") -> None:
        """`fast` ends transactions and closes connections; `immediate` is as if the power went."""
        self._do("pg_ctl", "-D", str(self.data), "-w", "-m", how, "stop")

    def end(self) -> None:
        if (self.data / "postmaster.pid").exists():
            self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, database: str, user: str = USER, password: str = PASSWORD) -> str:
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}"

    def database(self) -> str:
        """The URL of a new and empty database."""
        self._start_if_stopped()
        name = f"db{next(self._numbers)}"
        self.sql(f"CREATE DATABASE {name}")
        return self.url(name)

    def schema(self) -> str:
        """The URL of a new and empty schema: as good as a database of its own, and made at once."""
        self._start_if_stopped()
        name = f"schema{next(self._numbers)}"
        self.sql(f"CREATE SCHEMA {name}")
        return f"{self.url('postgres')}?options=-csearch_path%3D{name}"

    def sql(self, *statements: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Each in a transaction of its own; the rows of the last."""
        import psycopg

        rows: list[tuple[object, ...]] = []
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            for statement in statements:
                found = connection.execute(statement)
                rows = found.fetchall() if found.description else []
        return rows

    def _start_if_stopped(self) -> None:
        """A test that stopped the server and failed breaks no other."""
        if not (self.data / "postmaster.pid").exists():
            self.start()

    def _do(self, program: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
        command = [str(self.programs / program), *arguments]
        owner = _owner()
        done = subprocess.run(
            command,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            user=owner,
            group=pwd.getpwnam(owner).pw_gid if owner else None,
            extra_groups=[] if owner else None,
        )
        assert not check or done.returncode == 0, f"{program}: {done.stdout.decode()} {done.stderr.decode()}"
        return done


def _free_port() -> int:
    """A port below those that systems hand out: none of them is taken by somebody's connection while the server is
    being made, or while a test has stopped it."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def _quickest() -> str | None:
    """Memory, where there is plenty: every database is some hundred files, which a disk takes long to delete."""
    shared = "/dev/shm"
    return shared if os.path.isdir(shared) and shutil.disk_usage(shared).free > 4e9 else None


def _owner() -> str | None:
    """PostgreSQL refuses to run as root; then somebody else runs it."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"
