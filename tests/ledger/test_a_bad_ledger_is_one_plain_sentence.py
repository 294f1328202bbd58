"""Whatever is wrong with a ledger is told in one sentence that names it, before anything is paid for where possible."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support import ledger as ledger_support
from support.ledger import entry, run_record

from beholder.errors import LedgerError
from beholder.ledger.ledger import Ledger


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """All this is about files."""
    return tmp_path / "beholder.db"


@contextmanager
def told(said: str) -> Iterator[None]:
    with pytest.raises(LedgerError, match=said) as caught:
        yield
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert "sqlalchemy" not in sentence.lower()


@contextmanager
def unprivileged() -> Iterator[None]:
    """Without root's right to write everything, where the tests run as root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def shelf() -> Iterator[Path]:
    """A folder that everybody may look into, with a ledger of one run; pytest's own folders are private."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        with Ledger.open(folder / "beholder.db", create=True) as ledger:
            ledger.start(run_record())
            ledger.write("r1", [entry(1)])
        yield folder
        folder.chmod(0o755)


def file_of(ledger: Ledger) -> Path:
    assert ledger.path is not None
    return ledger.path


def test_locked(ledger: Ledger) -> None:
    holder = sqlite3.connect(file_of(ledger), isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with told("locked by another program"), Ledger.open(ledger.path, timeout_s=0, create=True):
        pass
    with Ledger.open(ledger.path, read_only=True, timeout_s=0) as reader:
        assert reader.run("r1").name == "nightly"
    holder.close()


def test_locked_while_it_is_written(place: Path) -> None:
    with Ledger.open(place, timeout_s=0, create=True) as ledger:
        ledger.start(run_record())
        holder = sqlite3.connect(place, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with told("locked by another program"):
            ledger.write("r1", [entry(1)])
        holder.close()
        ledger.write("r1", [entry(1)])  # and then it goes on
        assert ledger.progress()["r1"].done == 1


def test_a_file_that_may_not_be_written_can_be_read(shelf: Path) -> None:
    (shelf / "beholder.db").chmod(0o444)
    shelf.chmod(0o777)
    with unprivileged():
        with told("may not be written"):
            Ledger.open(shelf / "beholder.db", create=True)
        with Ledger.open(shelf / "beholder.db", read_only=True) as ledger:
            assert len(list(ledger.verdicts("r1"))) == 1


def test_a_folder_that_may_not_be_written_can_be_read(shelf: Path) -> None:
    (shelf / "beholder.db").chmod(0o444)
    shelf.chmod(0o555)
    with unprivileged():
        with told("may not be written"):
            Ledger.open(shelf / "beholder.db", create=True)
        with Ledger.open(shelf / "beholder.db", read_only=True) as ledger:
            assert len(list(ledger.verdicts("r1"))) == 1
            assert ledger.check() == []
        with told("cannot be opened|may not be written"):
            Ledger.open(shelf / "new.db", create=True)


def test_changes_that_cannot_be_read_are_not_passed_over(shelf: Path) -> None:
    with Ledger.open(shelf / "beholder.db", create=True) as ledger:
        ledger.write("r1", [entry(2)])
        copies = {name: (shelf / name).read_bytes() for name in ("beholder.db", "beholder.db-wal")}
    for name, data in copies.items():
        (shelf / name).write_bytes(data)
        (shelf / name).chmod(0o444)
    shelf.chmod(0o555)
    with unprivileged(), told("unsaved changes in 'beholder.db-wal'"):
        Ledger.open(shelf / "beholder.db", read_only=True)


def test_a_read_only_ledger_refuses_to_write(ledger: Ledger) -> None:
    with Ledger.open(ledger.path, read_only=True) as reader, told("may not be written"):
        reader.write("r1", [entry(1)])


def test_from_a_newer_version(ledger: Ledger) -> None:
    with sqlite3.connect(file_of(ledger)) as other:
        other.execute("UPDATE meta SET value = '99' WHERE key = 'version'")
    for read_only in (False, True):
        with told("written by a newer Beholder .*version 99.* upgrade Beholder"):
            Ledger.open(ledger.path, read_only=read_only)


FILES: dict[str, tuple[bytes, str]] = {
    "text": (b"case,score\n" * 100, "not a database at all"),
    "short text": (b"hello", "not a database at all"),
    "picture": (b"\x89PNG\r\n\x1a\n" + bytes(5000), "not a database at all"),
    "header only": (b"SQLite format 3\0" + b"\xff" * 84, "not a database|damaged|cannot be"),
}


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("read_only", [False, True])
def test_not_a_database(place: Path, kind: str, read_only: bool) -> None:
    data, said = FILES[kind]
    place.write_bytes(data)
    with told(said):
        Ledger.open(place, read_only=read_only)
    assert place.read_bytes() == data


def test_a_database_of_others(place: Path) -> None:
    for statement in (
        "CREATE TABLE songs (title)",
        "CREATE TABLE meta (key, value)",
        "DROP TABLE meta",
        "CREATE TABLE meta (x)",
    ):
        with sqlite3.connect(place) as other:
            other.execute(statement)
        for read_only in (False, True):
            with told("a database of another program"):
                Ledger.open(place, read_only=read_only)


def test_a_wrong_name_creates_nothing_and_is_corrected(tmp_path: Path) -> None:
    Ledger.open(tmp_path / "beholder.db", create=True).close()
    with told("There is no ledger at .*; did you mean '.*beholder.db'"):
        Ledger.open(tmp_path / "behodler.db")
    with told("'beholder.db' beside it"):
        Ledger.open(tmp_path / "x.db", read_only=True)
    assert [file.name for file in tmp_path.glob("*.db")] == ["beholder.db"]


def test_a_folder_a_device_a_missing_file(tmp_path: Path) -> None:
    with told("is a folder; name a file in it"):
        Ledger.open(tmp_path, create=True)
    with told("is not a file"):
        Ledger.open("/dev/null", create=True)
    with told("There is no ledger at"):
        Ledger.open(tmp_path / "none.db")
    with told("There is no ledger at"):
        Ledger.open(tmp_path / "none.db", read_only=True)
    with told("its folder does not exist"):
        Ledger.open(tmp_path / "nowhere" / "x.db", create=True)
    with told("cannot be opened: File name too long"):
        Ledger.open(tmp_path / ("x" * 300), create=True)
    with told("no file can have this name"):
        Ledger.open("a\0b", create=True)
    with told("has no name"):
        Ledger.open("", create=True)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file(place: Path) -> None:
    place.touch()
    with told("an empty file and no ledger"):
        Ledger.open(place, read_only=True)
    with Ledger.open(place, create=True) as ledger:  # as `mktemp` makes them
        assert ledger.runs() == []


def test_an_address_of_another_kind_is_refused_without_its_password() -> None:
    with told("A ledger is a file, or a PostgreSQL database"):
        Ledger.open("mysql://me:secret@host/db", create=True)
    with pytest.raises(LedgerError) as caught:
        Ledger.open("mysql://me:secret@host/db", create=True)
    assert "secret" not in str(caught.value)


def test_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BEHOLDER_LEDGER", raising=False)
    Ledger.open(create=True).close()
    assert Path("beholder.db").is_file()
    monkeypatch.setenv("BEHOLDER_LEDGER", "other #1?.db")
    Ledger.open(create=True).close()
    assert Path("other #1?.db").is_file()
    Ledger.open("sqlite:///by-url.db", create=True).close()
    assert Path("by-url.db").is_file()
    Ledger.open(f"sqlite:///{tmp_path}/whole.db", create=True).close()
    assert Path("whole.db").is_file()


def test_a_full_disk(ledger: Ledger) -> None:
    with ledger._engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages + 8}")
    written = 0
    with told("the disk is full. Make room"):
        for start in range(0, 640, 2):
            ledger.write("r1", [entry(start), entry(start + 1)])
            written = start + 2
    assert ledger.progress()["r1"].done == written > 0
    assert ledger.check() == []
    ledger.close()
    with Ledger.open(ledger.path, create=True) as again:  # room was made
        again.write("r1", [entry(number) for number in range(64)])
        assert again.check() == []


FULL = """
import resource, sys
sys.path.insert(0, {folder!r})
from support.ledger import entry, run_record
from beholder.errors import LedgerError
from beholder.ledger.ledger import Ledger
ledger = Ledger.open(sys.argv[1], create=True)
ledger.start(run_record())
resource.setrlimit(resource.RLIMIT_FSIZE, (700_000, 700_000))
try:
    for start in range(0, 6400, 64):
        ledger.write("r1", [entry(number) for number in range(start, start + 64)])
        print(start + 64)
except LedgerError as error:
    print(error)
"""


def test_a_disk_that_is_full_for_the_whole_process(place: Path) -> None:
    script = FULL.format(folder=str(Path(ledger_support.__file__).parents[1]))
    done = subprocess.run([sys.executable, "-c", script, str(place)], capture_output=True, text=True, check=True)
    *written, sentence = done.stdout.splitlines()
    assert "cannot be written: the disk is full" in sentence
    with Ledger.open(place, create=True) as ledger:
        assert ledger.check() == []
        assert len(list(ledger.verdicts("r1"))) == int(written[-1])


DAMAGE: dict[str, Callable[[bytearray], None]] = {
    "zeros in the middle": lambda data: data.__setitem__(slice(len(data) // 2, len(data) // 2 + 8192), bytes(8192)),
    "cut in half": lambda data: data.__delitem__(slice(len(data) // 2, None)),
    "a page of noise": lambda data: data.__setitem__(slice(4096 * 5, 4096 * 6), os.urandom(4096)),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_found_and_told(place: Path, kind: str) -> None:
    with Ledger.open(place, create=True) as ledger:
        ledger.start(run_record())
        ledger.write("r1", [entry(number) for number in range(200)])
    data = bytearray(place.read_bytes())
    DAMAGE[kind](data)
    place.write_bytes(data)
    assert any("damaged" in said or "page" in said.lower() for said in complaints(place))


def complaints(place: Path) -> list[str]:
    try:
        with Ledger.open(place, read_only=True) as ledger:
            found = ledger.check()
            list(ledger.verdicts("r1"))
    except LedgerError as error:
        return [str(error)]
    return found


def test_a_body_that_was_changed_is_found(ledger: Ledger) -> None:
    ledger.write("r1", [entry(1, thumbnails=(("00" * 32, b"RIFF....WEBPVP8 "),)), entry(2)])
    assert ledger.check() == []
    with sqlite3.connect(file_of(ledger)) as other:
        other.execute("UPDATE verdicts SET body = x'00' WHERE position = 1")
        other.execute("UPDATE answers SET body = (SELECT body FROM answers WHERE number = 1) WHERE number = 2")
        other.execute("UPDATE thumbnails SET webp = x'00'")
        other.execute("UPDATE cases SET body = x'78'")
    said = " ".join(ledger.check())
    assert "the verdict on 'photo-00001/model-a' (row 1 of verdicts) cannot be read" in said
    assert "answer 2 (row 2 of answers) is not the text that was stored" in said
    assert "is neither JPEG nor WebP" in said
    assert ledger.case("r1", "photo-00001/model-a").images == {}
    first, second = ledger.verdicts("r1")
    assert (first.outcome, second.outcome) == ("unreadable", "scored")
    assert first.detail.startswith("The ledger is damaged: the verdict on 'photo-00001/model-a'")
