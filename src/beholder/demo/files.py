"""Pictures as files, and files that are whole."""

from __future__ import annotations

import os
from pathlib import Path

import cv2

from beholder.demo.model import Pixels

FINE = 95


def jpeg(picture: Pixels, quality: int = FINE) -> bytes:
    """The picture as JPEG: at a good quality without chroma subsampling, at a poor one as careless software does it."""
    sampling = cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444 if quality >= FINE else cv2.IMWRITE_JPEG_SAMPLING_FACTOR_420
    flags = [cv2.IMWRITE_JPEG_QUALITY, quality, cv2.IMWRITE_JPEG_SAMPLING_FACTOR, sampling]
    done, data = cv2.imencode(".jpg", picture[:, :, ::-1], flags)
    assert done
    return data.tobytes()


def write(path: Path, data: bytes) -> None:
    """All of it or nothing. A file that holds it already is not touched, so that a run on it goes on."""
    if path.is_file() and path.read_bytes() == data:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_bytes(data)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
