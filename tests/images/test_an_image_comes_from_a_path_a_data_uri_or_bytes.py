"""Promise: a picture is named by path, data URI or bytes, and each gives the same bytes."""

from __future__ import annotations

import base64
from pathlib import Path
from urllib.parse import quote

import pytest
from support.images import photo, saved

from beholder.errors import ImageError
from beholder.images.source import load_image, read_image

FILE = saved(photo(), "PNG")


def test_paths_are_relative_to_where_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "cät photo.png").write_bytes(FILE)
    assert read_image(tmp_path / "sub" / "cät photo.png") == FILE
    monkeypatch.chdir(tmp_path)
    assert read_image("sub/cät photo.png") == FILE
    assert read_image(Path("sub", "cät photo.png")) == FILE
    (tmp_path / "link.png").symlink_to(tmp_path / "sub" / "cät photo.png")
    assert read_image("link.png") == FILE


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
        assert read_image(uri) == FILE


def test_bytes_are_themselves() -> None:
    assert read_image(FILE) == FILE


async def test_obtain_reads_what_is_local(tmp_path: Path) -> None:
    (tmp_path / "cat.png").write_bytes(FILE)
    for allow_remote in (False, True):
        assert await load_image(tmp_path / "cat.png", allow_remote=allow_remote) == FILE
        assert await load_image(FILE, allow_remote=allow_remote) == FILE


async def test_obtain_fetches_nothing_unless_allowed() -> None:
    with pytest.raises(ImageError, match="--allow-remote"):
        await load_image("http://127.0.0.1:9/cat.png", allow_remote=False)
    with pytest.raises(ImageError, match="private, local or reserved"):
        await load_image("http://127.0.0.1:9/cat.png", allow_remote=True)
