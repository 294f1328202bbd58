"""Images in object stores: read where remote images are allowed, within the limits, and never through a back door."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from beholder.cases.case import Case, CaseRow
from beholder.cases.validation import check_cases
from beholder.errors import ImageError
from beholder.images.image import ImageLimits, Sizing
from beholder.images.prepare import prepare_image
from beholder.images.source import load_image, object_store_problem, read_image
from beholder.runs.image_pool import ImagePool

PNG = prepare_image(
    (Path(__file__).parents[2] / "examples" / "demo" / "before.png").read_bytes(), Sizing(max_side=32)
).data


@pytest.fixture
def stored() -> Callable[[bytes], str]:
    """Puts bytes into a store, and says where."""

    def put(data: bytes) -> str:
        name = f"/bucket-{uuid.uuid4().hex}/photo.png"
        store = fsspec.filesystem("memory")
        assert isinstance(store, MemoryFileSystem)
        store.pipe_file(name, data)
        return f"memory:/{name}"

    return put


async def test_a_stored_image_is_read_where_remote_ones_are_allowed(stored: Callable[[bytes], str]) -> None:
    address = stored(PNG)
    assert await load_image(address, allow_remote=True) == PNG
    with pytest.raises(ImageError, match="only where they are allowed"):
        await load_image(address, allow_remote=False)
    with pytest.raises(ImageError, match="only where they are allowed"):
        read_image(address)


async def test_the_pictures_of_a_run_may_be_in_a_store(stored: Callable[[bytes], str]) -> None:
    pictures = ImagePool(allow_remote=True, workers=0)
    prepared = await pictures.prepare(stored(PNG), Sizing())
    assert prepared.data == PNG


async def test_no_more_is_read_than_the_caps_allow(stored: Callable[[bytes], str]) -> None:
    with pytest.raises(ImageError, match="bytes"):
        await load_image(stored(PNG + bytes(1000)), allow_remote=True, limits=ImageLimits(max_bytes=len(PNG)))
    assert await load_image(stored(PNG), allow_remote=True, limits=ImageLimits(max_bytes=len(PNG))) == PNG


@pytest.mark.parametrize(("data", "sentence"), [(b"", "is empty"), (b"<html>" * 99, "")])
async def test_what_is_no_image_is_one_plain_sentence(
    data: bytes, sentence: str, stored: Callable[[bytes], str]
) -> None:
    address = stored(data)
    with pytest.raises(ImageError, match=f"^memory://bucket.*{sentence}") as caught:
        await load_image(address, allow_remote=True)
    assert "\n" not in str(caught.value)


async def test_an_object_that_is_not_there_is_one_plain_sentence() -> None:
    with pytest.raises(ImageError, match=r"^memory://nobody/has/this\.png does not exist$"):
        await load_image("memory://nobody/has/this.png?signature=secret", allow_remote=True)


@pytest.mark.parametrize(("address", "package"), [("s3://bucket/a.png", "s3fs"), ("gs://bucket/a.png", "gcsfs")])
async def test_a_store_whose_package_is_missing_is_named(address: str, package: str) -> None:
    try:
        __import__(package)
    except ImportError:
        pass
    else:
        pytest.skip(f"{package} is installed here")
    with pytest.raises(ImageError, match=f"through {package}, which is not installed; run: pip install {package}"):
        await load_image(address, allow_remote=True)
    assert package in object_store_problem(address)


@pytest.mark.parametrize(
    "address",
    [
        "memory://a/b.png::file:///etc/hostname",  # a chain, in which the second is read
        "simplecache::http://127.0.0.1/a.png",
        "file:///etc/hostname",
        "local:///etc/hostname",
        "ssh://127.0.0.1/etc/hostname",
        "ftp://127.0.0.1/a.png",
        "zip://a.png::/tmp/a.zip",
        "reference://a",
    ],
)
async def test_an_address_never_leads_to_a_host_or_a_file_of_its_own_choice(address: str) -> None:
    with pytest.raises(ImageError):
        await load_image(address, allow_remote=True)


def test_a_look_before_the_run_fetches_nothing() -> None:
    case = Case("c1", {"image": "memory://nobody/has/this.png"})
    rows = [CaseRow("line 1", case, (), "c1")]
    assert check_cases(rows, allow_remote=True).count == 1
    assert check_cases(rows).count == 0
