"""Pictures as files."""

from __future__ import annotations

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
