"""What measuring costs: all pair instruments beside the scikit-image way, and the audit of one pair.

    python benchmarks/pixels.py [--json]

CPU of one thread, the median of nine after a warm-up; ours and theirs in turn, on the same pictures.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from statistics import median

import cv2
import numpy as np
from skimage import color, data, feature, metrics

from beholder.instruments.instrument import Bytes
from beholder.instruments.pair import AUDIT_SIDE, ImagePair
from beholder.instruments.registry import measure_pair
from beholder.judges.audit import measure_evidence, plan_audit
from beholder.rubrics.brief import Composer
from beholder.rubrics.load import load_rubric

ROUNDS = 9
SIDE, SMALL_SIDE = 1024, 512
PHOTO = (1600, 1200)


def pictures() -> tuple[Bytes, Bytes, Bytes]:
    """A photograph, an edit of it, a restyle of it."""
    photo = np.asarray(cv2.resize(data.astronaut(), PHOTO, interpolation=cv2.INTER_CUBIC), np.uint8)
    edit = photo.copy()
    edit[200:500, 300:700] = (200, 30, 30)
    return photo, edit, np.asarray(cv2.stylization(photo, sigma_s=40, sigma_r=0.4), np.uint8)


def usual(before: Bytes, after: Bytes) -> None:
    """As most scripts do it: SSIM, CIEDE2000 and SIFT keypoints, matched."""
    grey = [color.rgb2gray(one) for one in (before, after)]
    metrics.structural_similarity(*grey, data_range=1.0, gaussian_weights=True, sigma=1.5, use_sample_covariance=False)
    color.deltaE_ciede2000(color.rgb2lab(before), color.rgb2lab(after))
    found = []
    for one in grey:
        sift = feature.SIFT()
        sift.detect_and_extract(one)
        found.append(sift.descriptors)
    feature.match_descriptors(*found, cross_check=True, max_ratio=0.8)


def cpu_ms(works: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds + 1):
        for name, work in works.items():
            before = time.process_time()
            work()
            taken[name].append((time.process_time() - before) * 1000)
    return {name: median(times[1:]) for name, times in taken.items()}


def jpeg(pixels: Bytes) -> bytes:
    return bytes(cv2.imencode(".jpg", pixels[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, 92])[1])


def square(pixels: Bytes, side: int = SIDE) -> Bytes:
    return np.asarray(cv2.resize(pixels, (side, side), interpolation=cv2.INTER_AREA), np.uint8)


def measured() -> dict[str, float]:
    cv2.setNumThreads(1)
    photo, edit, restyle = pictures()
    small = [square(one) for one in (photo, edit, restyle)]
    smaller = [square(one, SMALL_SIDE) for one in (photo, edit)]
    coded = [jpeg(one) for one in (photo, edit, restyle)]
    orders = {name: plan_audit(Composer(load_rubric(name)).rubric_for_style(style)) for name, style in RUBRICS.items()}
    found = cpu_ms(
        {
            "all pair instruments, an edit": lambda: measure_pair(ImagePair(small[0], small[1])),
            "all pair instruments, a restyle": lambda: measure_pair(ImagePair(small[0], small[2])),
            SMALL: lambda: measure_pair(ImagePair(smaller[0], smaller[1])),
            "audit of an edit": lambda: measure_evidence(orders["edit-preservation"], coded[0], coded[1]),
            "audit of a restyle": lambda: measure_evidence(orders["restyle"], coded[0], coded[2]),
        },
        ROUNDS,
    )
    return found | cpu_ms({"scikit-image: SSIM, CIEDE2000, SIFT": lambda: usual(small[0], small[1])}, 2)


SMALL = f"the same at {SMALL_SIDE}×{SMALL_SIDE}, an edit"
RUBRICS = {"edit-preservation": "", "restyle": "Anime"}
LIMITS = {
    "all pair instruments, an edit": 150,
    "all pair instruments, a restyle": 150,
    SMALL: 40,
    "audit of an edit": 25,
    "audit of a restyle": 25,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    found = measured()
    if parser.parse_args().json:
        print(json.dumps(found))
        return
    print(
        f"CPU of one thread, ms ({SIDE}×{SIDE}; the audit from two JPEGs of {PHOTO[0]}×{PHOTO[1]} at {AUDIT_SIDE} px)"
    )
    for name, taken in found.items():
        limit = LIMITS.get(name)
        aim = "" if limit is None else f"  ≤ {limit}: {'reached' if taken <= limit else 'missed'}"
        print(f"  {name:36} {taken:7.1f}{aim}")


if __name__ == "__main__":
    main()
