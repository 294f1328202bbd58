"""All decoders of a process share one budget of memory: an image waits until there is room, or is one sentence."""

from __future__ import annotations

import asyncio
import io
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest
from PIL import Image
from support.images import photo, saved
from support.scripts import PATIENCE_S

from beholder.errors import ImageError, UsageError
from beholder.images import memory
from beholder.images.avif import check_avif_size, check_heic_size
from beholder.images.image import DEFAULT_IMAGE_LIMITS, Sizing
from beholder.images.memory import MemoryBudget, decoding_budget, estimate_decoding_bytes, read_memory_limit
from beholder.images.prepare import prepare_image
from beholder.images.source import read_header
from beholder.runs.image_pool import ImagePool

GB = 2**30


def cgroup(root: Path, own: str, **limits: object) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(own, "ascii")
    for place, limit in limits.items():
        file = root / "sys/fs/cgroup" / place.replace("__", "/").replace("_DOT_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{limit}\n", "ascii")
    return root


def test_the_limit_of_a_container_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_physical_memory", lambda: 64 * GB)
    assert read_memory_limit(tmp_path) == 64 * GB
    second = cgroup(tmp_path / "v2", "0::/a/b\n", a__memory_DOT_max=2 * GB, a__b__memory_DOT_max="max")
    assert read_memory_limit(second) == 2 * GB  # of the group around it
    inside = cgroup(tmp_path / "inside", "0::/../elsewhere\n", memory_DOT_max=3 * GB)
    assert read_memory_limit(inside) == 3 * GB  # a container sees its own group as the root
    own = "11:cpu:/x\n5:memory,other:/docker/1\n0::/\n"
    first = cgroup(tmp_path / "v1", own, memory__docker__1__memory_DOT_limit_in_bytes=GB)
    assert read_memory_limit(first) == GB
    unlimited = cgroup(tmp_path / "none", own, memory__memory_DOT_limit_in_bytes=9223372036854771712)
    assert read_memory_limit(unlimited) == 64 * GB


@pytest.fixture
def fresh_budget() -> Iterator[None]:
    decoding_budget.cache_clear()
    yield
    decoding_budget.cache_clear()


@pytest.mark.usefixtures("fresh_budget")
def test_the_budget_is_a_quarter_or_what_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(memory.BUDGET_VARIABLE, raising=False)
    monkeypatch.setattr(memory, "read_memory_limit", lambda: 8 * GB)
    assert (decoding_budget().total, decoding_budget().most) == (2 * GB, 8 * GB)
    decoding_budget.cache_clear()
    monkeypatch.setenv(memory.BUDGET_VARIABLE, "300")
    assert decoding_budget().total == decoding_budget().most == 300 * 2**20
    for wrong in ("0", "-5", "much", "1.5", "²"):
        decoding_budget.cache_clear()
        monkeypatch.setenv(memory.BUDGET_VARIABLE, wrong)
        with pytest.raises(UsageError, match="whole number of megabytes"):
            decoding_budget()


def test_whoever_needs_more_waits_in_order() -> None:
    budget = MemoryBudget(10, 30)
    begun: list[str] = []
    threads: dict[str, threading.Thread] = {}

    def work(name: str, size: int, end: threading.Event) -> None:
        with budget.reserve(size):
            begun.append(name)
            end.wait(PATIENCE_S)

    def start(name: str, size: int, end: threading.Event) -> None:
        threads[name] = threading.Thread(target=work, args=(name, size, end), daemon=True)
        waiting = len(budget._waiting)
        threads[name].start()
        while name not in begun and len(budget._waiting) == waiting:  # until it has begun, or waits
            threads[name].join(0.001)

    first, second = threading.Event(), threading.Event()
    start("small", 6, first)
    start("large", 20, second)  # more than the budget: alone
    start("late", 1, second)  # there is room for it, but it comes after
    assert (begun, budget.reserved) == (["small"], 6)
    first.set()
    threads["small"].join(PATIENCE_S)
    while len(begun) < 2:
        threads["large"].join(0.001)
    assert begun == ["small", "large"]
    second.set()
    for thread in threads.values():
        thread.join(PATIENCE_S)
    assert (begun, budget.reserved) == (["small", "large", "late"], 0)
    with pytest.raises(ImageError, match="needs about"), budget.reserve(31):
        pass


def plain_png(side: int) -> bytes:
    return saved(Image.new("RGBA", (side, side), (10, 20, 30, 200)), "PNG")


@pytest.mark.usefixtures("fresh_budget")
def test_what_never_fits_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(memory.BUDGET_VARIABLE, "20")
    said = r"^image needs about \d+ MB to decode, and 20 MB are allowed; scale it down first, or allow more \(BEHOLDER_"
    with pytest.raises(ImageError, match=said):
        prepare_image(plain_png(1500))
    assert prepare_image(plain_png(300)).width == 300


@pytest.mark.usefixtures("fresh_budget")
def test_worker_processes_share_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(memory.BUDGET_VARIABLE, "60")
    budget = decoding_budget()
    images = [saved(Image.new("RGBA", (1000, 1100 + number), (10, 20, 30, 200)), "PNG") for number in range(6)]
    each = estimate_decoding_bytes(read_header(images[0], DEFAULT_IMAGE_LIMITS), (1000, 1100))
    assert each * 2 < budget.total < each * 3
    seen: list[int] = []
    has_room = budget._has_room

    def watch(size: int) -> bool:
        seen.append(budget.reserved)
        return has_room(size)

    monkeypatch.setattr(budget, "_has_room", watch)

    async def prepare() -> list[int]:
        pool = ImagePool(workers=4)
        try:
            return [one.height for one in await asyncio.gather(*(pool.prepare(image, Sizing()) for image in images))]
        finally:
            pool.close()

    assert asyncio.run(prepare()) == [1100 + number for number in range(6)]
    assert 0 < max(seen) <= budget.total
    assert budget.reserved == 0


@pytest.mark.usefixtures("fresh_budget")
def test_what_is_reserved_for_a_worker_follows_the_sizing_of_the_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    image = saved(Image.new("RGB", (4400, 200), (10, 20, 30)).rotate(1), "JPEG")
    header = read_header(image, DEFAULT_IMAGE_LIMITS)
    whole, half = (estimate_decoding_bytes(header, size) for size in ((4400, 200), (2048, 93)))
    assert half < whole
    budget = decoding_budget()
    reserved: list[int] = []
    has_room = budget._has_room

    def watch(size: int) -> bool:
        reserved.append(size)
        return has_room(size)

    monkeypatch.setattr(budget, "_has_room", watch)

    async def prepare() -> None:
        pool = ImagePool(workers=1)
        try:
            for side in (None, 2048):
                await pool.prepare(image, Sizing(max_side=side, formats=frozenset({"png"})))
        finally:
            pool.close()

    asyncio.run(prepare())
    assert reserved == [whole, half]


DECODE = """
import resource, sys
from beholder.images import codec
from beholder.images.image import DEFAULT_IMAGE_LIMITS
from beholder.images.source import read_header

data = open(sys.argv[1], "rb").read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
codec.decode(data, read_header(data, DEFAULT_IMAGE_LIMITS), (2048, 2048), (255, 255, 255))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_a_small_file_of_many_pixels_takes_no_gigabyte(tmp_path: Path) -> None:
    """49 million pixels: they took 1 GB before they were reduced while they are converted."""
    path = tmp_path / "large.png"
    path.write_bytes(plain_png(7000))
    assert path.stat().st_size < 400_000
    done = subprocess.run(
        [sys.executable, "-c", DECODE, path], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(done.stdout) * unit < 700 * 2**20


@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA", "P", "1"])
def test_a_reduced_image_looks_the_same(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = saved(photo().resize((1200, 900)).convert(mode), "PNG")
    sizing = Sizing(max_side=100)
    whole = prepare_image(data, sizing)
    monkeypatch.setattr("beholder.images.codec.REDUCED_FROM_PIXELS", 1)
    reduced = prepare_image(data, sizing)
    assert (reduced.width, reduced.height, reduced.notes) == (whole.width, whole.height, whole.notes)
    pairs = [Image.open(io.BytesIO(one.data)).convert("L").tobytes() for one in (whole, reduced)]
    assert sum(abs(a - b) for a, b in zip(*pairs, strict=True)) / len(pairs[0]) < 4


def test_an_avif_that_is_larger_than_it_says_is_refused() -> None:
    data = saved(Image.new("RGB", (3000, 2500), (9, 80, 200)), "AVIF")
    stated = b"ispe" + bytes(4) + struct.pack(">II", 3000, 2500)
    assert data.count(stated) == 1
    lying = data.replace(stated, b"ispe" + bytes(4) + struct.pack(">II", 64, 64))
    with pytest.raises(ImageError, match="its header says 64×64 pixels, and its picture has 3000×2500"):
        prepare_image(lying)
    with pytest.raises(ImageError, match="its header says 64×64"):
        read_header(lying, DEFAULT_IMAGE_LIMITS)


def test_an_animated_avif_is_looked_at_in_its_track() -> None:
    """Its still picture is small; a decoder that plays the track allocates what the first of its pictures says."""
    frames = [Image.new("RGB", (3000, 2500), (9, shade, 200)) for shade in (80, 90)]
    made = io.BytesIO()
    frames[0].save(made, "AVIF", save_all=True, append_images=frames[1:])
    data = made.getvalue()
    read_header(data, DEFAULT_IMAGE_LIMITS)
    lying = data.replace(struct.pack(">HH", 3000, 2500), struct.pack(">HH", 64, 64))
    lying = lying.replace(struct.pack(">II", 3000, 2500), struct.pack(">II", 64, 64))
    lying = lying.replace(struct.pack(">II", 3000 << 16, 2500 << 16), struct.pack(">II", 64 << 16, 64 << 16))
    track_alone = lying.replace(b"meta", b"free", 1)
    with pytest.raises(ImageError, match="its header says 64×64 pixels, and its picture has 3000×2500"):
        check_avif_size(track_alone, (64, 64))
    with pytest.raises(ImageError, match="its header says 64×64"):
        read_header(lying, DEFAULT_IMAGE_LIMITS)


def test_a_heic_that_is_larger_than_it_says_is_refused() -> None:
    data = saved(photo().resize((1200, 900)), "HEIF")
    stated = b"ispe" + bytes(4) + struct.pack(">II", 1200, 900)
    assert data.count(stated) == 1
    lying = data.replace(stated, b"ispe" + bytes(4) + struct.pack(">II", 64, 64))
    with pytest.raises(ImageError, match="its header says 64×64 pixels, and its picture has 1200×904"):
        read_header(lying, DEFAULT_IMAGE_LIMITS)
    with pytest.raises(ImageError, match="its header says 64×64"):
        prepare_image(lying)


def test_a_size_is_found_in_every_place_where_a_heic_may_have_it() -> None:
    data = saved(photo().resize((1200, 900)), "HEIF")
    begin = data.index(b"hvcC") + 4
    described = data[begin : begin - 8 + int.from_bytes(data[begin - 8 : begin - 4], "big")]
    in_track = nest(bytes(78) + nest(described, b"hvcC"), b"hvc1")
    in_track = nest(bytes(8) + in_track, b"stsd", b"stbl", b"minf", b"mdia", b"trak", b"moov")
    no_parameters = bytes((33, 0, 1, 0, 1, 66))  # an array of one unit, whose one byte says that it is a parameter set
    after_damage = described[:22] + bytes((described[22] + 1,)) + no_parameters + described[23:]
    in_item = nest(bytes(4) + nest(nest(after_damage, b"hvcC"), b"ipco", b"iprp"), b"meta")
    for file in (in_track, in_item):
        with pytest.raises(ImageError, match="and its picture has 1200×904"):
            check_heic_size(file, (64, 64))


def nest(content: bytes, *kinds: bytes) -> bytes:
    """The content in boxes of these kinds, the innermost first."""
    for kind in kinds:
        content = struct.pack(">I4s", 8 + len(content), kind) + content
    return content


@pytest.mark.parametrize("size", [(1, 1), (31, 17), (640, 480), (1001, 999)])
def test_an_honest_heic_is_read(size: tuple[int, int]) -> None:
    for mode in ("RGB", "RGBA", "L"):
        data = saved(photo().resize(size).convert(mode), "HEIF")
        assert read_header(data, DEFAULT_IMAGE_LIMITS).width == size[0]


def test_an_avif_whose_extents_take_no_bytes_is_looked_through_at_once() -> None:
    """Counted are the calls of Python functions: each item of six bytes states 65,535 extents."""
    items = struct.pack(">HHH", 1, 0, 0xFFFF) * 100
    iloc = bytes(4) + bytes(2) + struct.pack(">H", 100) + items
    meta = bytes(4) + struct.pack(">I4s", 8 + len(iloc), b"iloc") + iloc
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += 1
        assert calls < 100_000

    sys.setprofile(count)
    try:
        check_avif_size(struct.pack(">I4s", 8 + len(meta), b"meta") + meta, (64, 64))
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("size", [(1, 1), (31, 17), (640, 480), (1001, 999)])
def test_an_honest_avif_is_read(size: tuple[int, int]) -> None:
    for mode in ("RGB", "RGBA", "L"):
        data = saved(photo().resize(size).convert(mode), "AVIF")
        assert prepare_image(data).source_width == size[0]
