"""All pair and image instruments on real pairs: what they cost at several sizes, and whether their values changed.

    OMP_NUM_THREADS=1 python benchmarks/instruments.py CASES.jsonl [--pairs N] [--save FILE | --compare FILE]

CASES.jsonl has `id`, `input`, `edited` and maybe `mask`: paths from its folder. The cost is the CPU of one thread, the
median over the pairs after a warm-up. `--save` writes the value and the sentence of every pair instrument to a file, at
512 px (with the mask, where there is one) and on harder variants of each pair: shifted, cropped, odd, large and gray.
`--compare` measures the same again, and prints the largest difference of each instrument.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import TypeVar

import cv2
import numpy as np

from beholder.instruments.instrument import Bytes
from beholder.instruments.pair import ImagePair, SingleImage
from beholder.instruments.registry import measure_image, measure_pair

SIZES = {"512 × 512": (512, 512), "1024 × 1024": (1024, 1024), "1600 × 1200": (1600, 1200)}
SLOW_PAIRS = 30  # pairs that are timed at sizes above 512 px
HARD_EVERY = 10  # one pair in so many is measured in its variants too

T = TypeVar("T")
Values = dict[str, dict[str, tuple[float | None, str]]]


def read_pairs(cases: Path, count: int) -> Iterator[tuple[str, ImagePair]]:
    """Yield `count` pairs, evenly spread over the file."""
    rows = [json.loads(line) for line in cases.read_text("utf-8").splitlines()]
    for row in rows[:: max(1, len(rows) // count)][:count]:
        before, after, *mask = (
            (cases.parent / row[role]).read_bytes() for role in ("input", "edited", "mask") if role in row
        )
        yield row["id"], ImagePair.load(before, after, mask=mask[0] if mask else None, side=512)


def resize(image: Bytes, size: tuple[int, int]) -> Bytes:
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_CUBIC), np.uint8)


def make_variants(pair: ImagePair) -> dict[str, ImagePair]:
    before, after = pair.before, pair.after
    height, width = before.shape[:2]
    gray = np.repeat(after.mean(axis=2, keepdims=True), 3, axis=2).astype(np.uint8)
    return {
        "without a mask": ImagePair(before, after),
        "shifted": ImagePair(before[20:, 30:], after[:-20, :-30]),
        "cropped": ImagePair(before, after[height // 8 :, : -width // 10]),
        "odd": ImagePair(resize(before, (301, 417)), resize(after, (301, 417))),
        "smaller": ImagePair(before, resize(after, (width // 2, height // 2))),
        "large": ImagePair(resize(before, (1600, 1200)), resize(after, (1600, 1200))),
        "gray": ImagePair(before, gray),
        "same": ImagePair(before, before.copy()),
        "tiny": ImagePair(resize(before, (40, 30)), resize(after, (40, 30))),
        "flat": ImagePair(before, np.full_like(before, 90)),
    }


def measure_values(pairs: Iterator[tuple[str, ImagePair]]) -> Values:
    found: Values = {}
    for at, (name, pair) in enumerate(pairs):
        subjects = {name: pair}
        if at % HARD_EVERY == 0:
            subjects |= {f"{name}, {variant}": hard for variant, hard in make_variants(pair).items()}
        for key, subject in subjects.items():
            found[key] = {name: (one.value, one.sentence) for name, one in measure_pair(subject).items()}
    return found


def compare_values(old: Values, new: Values) -> Iterator[str]:
    """Yield a line for each instrument, and one for each value that appeared or went."""
    for name in next(iter(new.values())):
        absolute, relative, sentences = 0.0, 0.0, 0
        for case, before in old.items():
            (was, said), (now, says) = before[name], new[case][name]
            sentences += said != says
            if was is None or now is None:
                if was is not now:
                    yield f"{name} of {case}: {was} became {now}"
                continue
            absolute = max(absolute, abs(now - was))
            relative = max(relative, abs(now - was) / max(abs(was), 1e-9))
        yield f"{name:30} absolute {absolute:9.2e}  relative {relative:9.2e}  sentences {sentences}"


def time_sizes(pairs: list[ImagePair]) -> Iterator[tuple[str, float]]:
    """Yield the median CPU in milliseconds at each size."""
    for label, size in SIZES.items():
        of_pair, of_image = [], []
        for pair in pairs if size == (512, 512) else pairs[:SLOW_PAIRS]:
            before, after = (resize(image, size) for image in (pair.before, pair.after))
            of_pair.append(cpu_ms(measure_pair, ImagePair(before, after)))
            of_image.append(cpu_ms(measure_image, SingleImage(after)))
        yield f"pair instruments, {label}", median(of_pair)
        yield f"image instruments, {label}", median(of_image)


def cpu_ms(work: Callable[[T], object], item: T) -> float:
    before = time.process_time_ns()
    work(item)
    return (time.process_time_ns() - before) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=Path)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--compare", type=Path)
    given = parser.parse_args()
    cv2.setNumThreads(1)
    if given.save or given.compare:
        found = measure_values(read_pairs(given.cases, given.pairs))
        if given.save:
            given.save.write_text(json.dumps(found), "utf-8")
        else:
            print(*compare_values(json.loads(given.compare.read_text("utf-8")), found), sep="\n")
        return
    pairs = [pair for _, pair in read_pairs(given.cases, given.pairs)]
    measure_pair(pairs[0])
    print(f"CPU of one thread, ms (median of {len(pairs)} pairs, of {SLOW_PAIRS} above 512 px)")
    for name, taken in time_sizes(pairs):
        print(f"  {name:32} {taken:7.1f}", flush=True)


if __name__ == "__main__":
    main()
