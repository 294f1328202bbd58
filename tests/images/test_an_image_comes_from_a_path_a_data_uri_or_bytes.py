"""Promise: a picture is named by path, data URI or bytes, and each gives the same bytes."""

from __future__ import annotations

import base64
from pathlib import Path
from urllib.parse import quote

import pytest
from picture_files import photo, saved

from beholder.errors import ImageError
from beholder.images import obtain, read

FILE = saved(photo(), "PNG")


def test_paths_are_relative_to_where_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "cät photo.png").write_bytes(FILE)
    assert read(tmp_path / "sub" / "cät photo.png") == FILE
    monkeypatch.chdir(tmp_path)
    assert read("sub/cät photo.png") == FILE
    assert read(Path("sub", "cät photo.png")) == FILE
    (tmp_path / "link.png").symlink_to(tmp_path / "sub" / "cät photo.png")
    assert read("link.png") == FILE


def test_data_uris() -> None:
    text = base64.b64encode(FILE).decode()
    for uri in (
        f"data:image/png;base64,{text}",
        f"DATA:Image/PNG;charset=utf-8;Base64,{text}",
        f"data:image/png;base64,{text.rstrip('=')}",
        f"data:image/png;base64,{quote(text, safe='')}",
        "data:image/png;base64,\n" + "\n".join(text[i : i + 76] for i in range(0, len(text), 76)),
        f"data:image/png,{quote(FILE)}",
    ):
        assert read(uri) == FILE


def test_bytes_are_themselves() -> None:
    assert read(FILE) == FILE


async def test_obtain_reads_what_is_local(tmp_path: Path) -> None:
    (tmp_path / "cat.png").write_bytes(FILE)
    for allow_remote in (False, True):
        assert await obtain(tmp_path / "cat.png", allow_remote=allow_remote) == FILE
        assert await obtain(FILE, allow_remote=allow_remote) == FILE


async def test_obtain_fetches_nothing_unless_allowed() -> None:
    with pytest.raises(ImageError, match="--allow-remote"):
        await obtain("http://127.0.0.1:9/cat.png", allow_remote=False)
    with pytest.raises(ImageError, match="private, local or reserved"):
        await obtain("http://127.0.0.1:9/cat.png", allow_remote=True)
