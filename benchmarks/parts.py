"""Where the time of a case goes: the CPU of each step by itself, on the material of the other benchmarks.

    python benchmarks/parts.py [--cases N] [--json]

Each step takes a fresh case every time, as a run does, so that nothing is in the processor's cache that would not be
there. The number is the median over the cases; `sending` talks to the loopback server one case after the other.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterable
from statistics import median
from typing import TypeVar

import pybase64
from material import ROLES, Material, material
from measuring import server
from server import answer

from beholder.cases.case import Case
from beholder.images.image import Sizing
from beholder.images.prepare import prepare_image
from beholder.images.source import read_image
from beholder.judges.base import Judge
from beholder.judges.factory import judge_from
from beholder.providers.base import ChatRequest
from beholder.providers.openai import PROVIDER
from beholder.rubrics.brief import Brief, Composer
from beholder.rubrics.load import load_rubrics
from beholder.verdicts.score import VerdictHeader, score_answer

T = TypeVar("T")
Parts = dict[str, float]


def cpu_ms(work: Callable[[T], object], items: Iterable[T]) -> float:
    """The median CPU of `work` over the items, in milliseconds."""
    taken = []
    for item in items:
        before = time.process_time_ns()
        work(item)
        taken.append(time.process_time_ns() - before)
    return median(taken) / 1e6


def case_of(made: Material, number: int) -> Case:
    record = made.records(number + 1)[number]
    return Case(
        record["id"],
        images={role: str(made.folder / record[role]) for role in ROLES},
        fields={"instruction": record["instruction"]},
    )


def with_exif(data: bytes) -> bytes:
    """The JPEG as a camera writes it, with a segment that must be cut out."""
    exif = b"Exif\0\0II*\0\x08\0\0\0\0\0\0\0\0\0" + b"\0" * 4000
    return data[:2] + b"\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif + data[2:]


def parts(made: Material, count: int) -> Parts:
    """Milliseconds of CPU for each step of one case, two pictures together where a step is about pictures."""
    rubric = load_rubrics("edit-preservation")[0]
    composer = Composer(rubric)
    cases = [case_of(made, number) for number in range(count)]
    found: Parts = {}

    def files(case: Case) -> list[bytes]:
        return [read_image(str(source)) for source in case.images.values()]

    def request(brief: Brief) -> object:
        return PROVIDER.build_request(ChatRequest(brief, "bench", "http://127.0.0.1/v1", None))

    found["reading two files"] = cpu_ms(files, cases)
    loaded = [files(case) for case in cases]
    found["preparing them, passed through"] = cpu_ms(
        lambda two: [prepare_image(one, PROVIDER.sizing) for one in two], loaded
    )
    found["  of which one SHA-256 of each"] = cpu_ms(
        lambda two: [hashlib.sha256(one, usedforsecurity=False).digest() for one in two], loaded
    )
    marked = [[with_exif(one) for one in two] for two in loaded]
    found["preparing them, metadata cut out"] = cpu_ms(
        lambda two: [prepare_image(one, PROVIDER.sizing) for one in two], marked
    )
    small = Sizing(max_side=1024)
    found["preparing them, scaled to 1024 px"] = cpu_ms(
        lambda two: [prepare_image(one, small) for one in two], loaded[:30]
    )
    pictures = [dict(zip(ROLES, [prepare_image(one, PROVIDER.sizing) for one in two], strict=True)) for two in loaded]
    pairs = list(zip(cases, pictures, strict=True))
    found["composing the brief"] = cpu_ms(lambda pair: composer.compose(*pair), pairs)
    briefs = [composer.compose(*pair) for pair in pairs]
    found["building the request"] = cpu_ms(request, briefs)
    found["  of which base64"] = cpu_ms(lambda two: [pybase64.b64encode(one) for one in two], loaded)
    settled = composer.rubric_for(cases[0])
    head = VerdictHeader("a case", settled, "openai:bench")
    text = answer("case-00000000")
    found["reading and scoring the answer"] = cpu_ms(lambda _: score_answer(head, text), range(count))
    verdict = score_answer(head, text)
    found["the verdict as JSON"] = cpu_ms(lambda _: json.dumps(verdict.to_dict(), default=str), range(count))
    with server() as url:
        found["asking: request, sending, reply"] = asyncio.run(_asking(url, briefs))
    return found


async def _asking(url: str, briefs: list[Brief]) -> float:
    judge: Judge = judge_from("openai:bench", base_url=url)
    try:
        await judge.answer(briefs[0])
        taken = []
        for brief in briefs:
            before = time.process_time_ns()
            await judge.answer(brief)
            taken.append(time.process_time_ns() - before)
        return median(taken) / 1e6
    finally:
        await judge.aclose()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = parts(material(), given.cases)
    if given.json:
        json.dump(found, sys.stdout)
        return
    print(f"CPU of each step, ms a case (median of {given.cases} cases)")
    for name, value in found.items():
        print(f"  {name:36} {value:7.3f}")


if __name__ == "__main__":
    main()
