"""The photographs of the demo, and filters that paint and retouch them, with the same result every time.

The photographs are those that scikit-image and scikit-learn have in their wheels; nothing is downloaded. A painting
filter takes an RGB photograph and returns an RGB picture of the same size, as an image model would be asked for. A
retouching filter recolors or removes one thing, or spoils the rest in a way in which editors do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from beholder.errors import SetupError

Pixels = NDArray[np.uint8]  # RGB, height × width × 3
Plane = NDArray[np.float32]  # one channel, 0 to 1
Mask = NDArray[np.float32]  # 0 to 1 for each pixel, soft at its edges
Polygon = Sequence[tuple[int, int]]  # (x, y)

JPEG_QUALITY = 95
NOISE_SEED = 20_261_115  # of paper grain and scattered points: the same picture every time

CREDITS = """\
astronaut   Eileen Collins, by NASA; public domain
chelsea     by Stefan van der Walt; CC0
coffee      by Rachel Michetti, courtesy of Pikolo Espresso Bar; CC0
motorcycle  Middlebury stereo benchmark 2014: N. Nesic, P. Westling, X. Wang, Y. Kitajima, G. Krathwohl, D. Scharstein
rocket      by SpaceX; public domain
china       by danielbuechele on Flickr; CC BY 2.0
flower      by vultilion on Flickr; CC BY 2.0
"""

_STEREO_NAME = "stereo_motorcycle"  # the view of two cameras; ours is the left one
_MISSING_EXTRA = "The photographs come with scikit-image and scikit-learn: pip install 'beholder[demo]'"


def load_photos() -> dict[str, Pixels]:
    """Load the photographs by name, RGB, at most 768 pixels a side.

    Raises:
        SetupError: The extra `demo` is not installed.
    """
    try:
        from skimage import data
        from sklearn.datasets import load_sample_image

        names = ("astronaut", "chelsea", "coffee", "rocket")
        photos: dict[str, Pixels] = {name: getattr(data, name)() for name in names}
        photos |= {name: load_sample_image(f"{name}.jpg") for name in ("china", "flower")}
        left, *_ = getattr(data, _STEREO_NAME)()
    except ImportError:
        raise SetupError(_MISSING_EXTRA) from None
    return {**photos, "motorcycle": left}


def encode_jpeg(picture: Pixels, quality: int = JPEG_QUALITY) -> bytes:
    """Encode as JPEG: at good quality without chroma subsampling, at poor quality with it, as careless software."""
    sampling = cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444 if quality >= JPEG_QUALITY else cv2.IMWRITE_JPEG_SAMPLING_FACTOR_420
    flags = [cv2.IMWRITE_JPEG_QUALITY, quality, cv2.IMWRITE_JPEG_SAMPLING_FACTOR, sampling]
    done, data = cv2.imencode(".jpg", picture[:, :, ::-1], flags)
    assert done
    return data.tobytes()


def draw_pencil(photo: Pixels) -> Pixels:
    """Draw in graphite: tone by dodging, strokes in one direction in the darks, paper texture over all."""
    gray = _to_gray(photo)
    drawn = np.clip(gray / np.maximum(_blur_plane(gray, 9), 0.02), 0, 1) ** 1.5
    lines = 1 - 0.9 * np.clip((_blur_plane(gray, 2.2) - _blur_plane(gray, 0.8)) * 9, 0, 1)
    tone = np.clip(0.12 + 1.05 * cv2.bilateralFilter(gray, 7, 0.12, 6), 0, 1)
    hatched = 1 - np.clip(0.95 - tone, 0, 1) * (0.35 + 0.75 * _make_strokes(gray.shape, 55))
    drawn = np.clip(drawn * lines * np.clip(hatched, 0, 1), 0, 1)
    strokes, tooth = _make_strokes(gray.shape, 55), _make_noise(gray.shape, 0.7)
    graphite = 0.10 + 0.16 * strokes + 0.06 * tooth  # it is never black, and shows the strokes it was laid in
    drawn = graphite + (0.93 + 0.07 * tooth - graphite) * drawn
    return _to_pixels(drawn[..., None] * np.array([0.98, 0.975, 0.955], np.float32))


def paint_oil(photo: Pixels) -> Pixels:
    """Paint in oil: each stroke takes the calmest of the eight neighborhoods around it (Kuwahara's filter); edges are
    uneven, the brush leaves ridges, and an amber varnish lies on top.
    """
    color = _waver_edges(photo, 2.2).astype(np.float32) / 255
    means, spreads = [], []
    for kernel in _make_sector_kernels(8):
        mean = cv2.filter2D(color, -1, kernel, borderType=cv2.BORDER_REFLECT)
        square = cv2.filter2D(color * color, -1, kernel, borderType=cv2.BORDER_REFLECT)
        means.append(mean)
        spreads.append((square - mean * mean).sum(2))
    weights = 1 / (1e-4 + np.clip(np.array(spreads), 0, None)) ** 4
    weights /= weights.sum(0)
    painted = (np.array(means) * weights[..., None]).sum(0)
    ridge = _make_strokes(painted.shape[:2], 35, length=13, width=0.9) - 0.5
    follow = np.clip(1 - 12 * np.abs(cv2.Laplacian(_blur_plane(painted.mean(2), 1.5), cv2.CV_32F)), 0, 1)
    painted = _saturate_plane(painted, 1.25) * np.array([1.06, 0.97, 0.80], np.float32)
    painted = painted + (0.20 * ridge * (0.4 + 0.6 * follow) * (0.3 + painted.mean(2)))[..., None]
    return _to_pixels(painted)


def paint_watercolor(photo: Pixels) -> Pixels:
    """Paint light washes with darker rims that settle into the grain of the paper, and bare paper along the border."""
    washed = np.asarray(cv2.edgePreservingFilter(photo, flags=cv2.RECURS_FILTER, sigma_s=40, sigma_r=0.45), np.uint8)
    styled = cv2.stylization(washed, sigma_s=60, sigma_r=0.6)
    mixed = np.asarray(0.5 * (washed.astype(np.float32) + styled) / 255, np.float32)
    shape = photo.shape[:2]
    color = _saturate_plane(mixed**0.78, 1.35)  # pigment is thin, the paper shines through
    pooled = 0.72 + 0.42 * _make_noise(shape, 22) + 0.10 * _make_noise(shape, 1.2)
    gray = _blur_plane(np.asarray(color.mean(2), np.float32), 1.2)
    rims = np.clip((_blur_plane(gray, 3) - gray) * 2.2, 0, 0.35)
    color = np.asarray(1 - (1 - color) * (pooled * (1 + rims))[..., None], np.float32)
    height, width = shape
    rows, columns = np.mgrid[:height, :width].astype(np.float32)
    border = np.minimum(np.minimum(rows, height - 1 - rows), np.minimum(columns, width - 1 - columns))
    sheet = np.clip((border - 6 - 8 * (_make_noise(shape, 6) - 0.5) - 3 * _make_noise(shape, 1.2)) / 3, 0, 1)[..., None]
    return _to_pixels(color * sheet + np.array([0.975, 0.965, 0.94], np.float32) * (1 - sheet))


def print_linocut(photo: Pixels) -> Pixels:
    """Print one ink from a block: differences of Gaussians with a hard threshold."""
    gray = np.asarray(cv2.createCLAHE(2.5, (4, 4)).apply(_to_pixels(_to_gray(photo))) / 255, np.float32)
    near, far = _blur_plane(gray, 1.1), _blur_plane(gray, 1.1 * 1.6)
    sharp = near + 22 * (near - far)
    tone = _blur_plane(gray, 1.6)
    gouged = 0.5 + 0.5 * np.sin(_project_pixels(gray.shape, 28) * 2 * np.pi / 5.5 + 5 * tone)
    level = 0.24 + 0.30 * gouged
    printed = np.clip((sharp - level) * 9 + 0.5, 0, 1)
    worn = np.clip(1.25 - 0.5 * _make_noise(gray.shape, 0.8), 0, 1)
    paper, ink = np.array([0.95, 0.92, 0.85], np.float32), np.array([0.10, 0.13, 0.24], np.float32)
    cover = ((1 - printed) * worn)[..., None]
    return _to_pixels(paper * (1 - cover) + ink * cover)


def print_pop_art(photo: Pixels, inks: Sequence[tuple[float, float, float]], pitch: float = 9) -> Pixels:
    """Print four flat inks from dark to light, dots between the second and the third, and thick black outlines."""
    gray = _to_gray(photo)
    low, high = np.quantile(gray, [0.02, 0.98])
    tone = np.clip((cv2.bilateralFilter(_blur_plane(gray, 1), 11, 0.15, 9) - low) / max(high - low, 1e-3), 0, 1)
    plates = np.array(inks, np.float32)
    edges = np.quantile(tone, [0.22, 0.5, 0.8])
    picture = plates[np.digitize(tone, edges)]
    across, down = (_project_pixels(gray.shape, angle) / pitch for angle in (45, 135))
    dots = np.hypot(across - np.round(across), down - np.round(down))
    radius = 0.5 * np.sqrt(np.clip((edges[2] - tone) / max(edges[2] - edges[1], 1e-3), 0, 1)) * 0.9
    dotted = np.clip((radius - dots) * pitch, 0, 1) * ((tone >= edges[1]) & (tone < edges[2]))
    picture = picture * (1 - dotted[..., None]) + plates[1] * dotted[..., None]
    return _to_pixels(picture * (1 - _draw_contours(gray, 2.2, 0.9)[..., None]))


def draw_comic(photo: Pixels) -> Pixels:
    """Draw a comic panel: flat areas in strong colors, dots in the shadows, black outlines."""
    flat = _waver_edges(photo, 1.2)
    for _ in range(3):
        flat = np.asarray(cv2.bilateralFilter(flat, 9, 45, 9), np.uint8)
    lab = cv2.cvtColor(flat, cv2.COLOR_RGB2LAB).astype(np.float32)
    step = 256 / 6
    steps = lab[..., 0] / step
    lab[..., 0] = (np.floor(steps) + 0.5 + 0.5 * np.tanh((steps - np.floor(steps) - 0.5) * 9) / np.tanh(4.5)) * step
    stepped = np.asarray(cv2.cvtColor(_to_pixels(lab / 255), cv2.COLOR_LAB2RGB) / 255, np.float32)
    stepped = _saturate_plane(stepped, 1.5) * np.array([1.06, 1.03, 0.86], np.float32)  # on yellowed paper
    tone = cv2.bilateralFilter(_to_gray(photo), 9, 0.12, 9)
    across, down = (_project_pixels(tone.shape, angle) / 6 for angle in (30, 120))
    dots = np.hypot(across - np.round(across), down - np.round(down))
    shadow = np.clip((0.42 * np.sqrt(np.clip(0.62 - tone, 0, 1)) - dots * 0.72) * 7, 0, 1)
    inked = np.clip(shadow + _draw_contours(_to_gray(_waver_edges(photo, 1.2)), 1.5, 1.3), 0, 1)
    return _to_pixels(stepped * (1 - inked[..., None]))


def draw_neon(photo: Pixels) -> Pixels:
    """Draw edges as neon tubes that glow in cyan and magenta over a dark violet copy."""
    gray = _to_gray(photo)
    lines = _draw_contours(gray, 1.2, 1.0)
    rows = np.linspace(0, 1, gray.shape[0], dtype=np.float32)[:, None, None]
    tube = np.array([0.15, 0.95, 1], np.float32) * (1 - rows) + np.array([1, 0.15, 0.85], np.float32) * rows
    glow = sum(_blur_plane(lines, sigma) * gain for sigma, gain in ((1, 0.9), (5, 0.9), (16, 0.8)))
    dark = (gray[..., None] * np.array([0.30, 0.16, 0.52], np.float32)) + np.array([0.02, 0.01, 0.06], np.float32)
    return _to_pixels(dark + np.asarray(glow)[..., None] * tube + (lines**2)[..., None] * 0.35)


def _waver_edges(photo: Pixels, reach: float) -> Pixels:
    """Displace the pixels smoothly by at most `reach` pixels, so that edges look drawn by hand."""
    rows, columns = np.mgrid[: photo.shape[0], : photo.shape[1]].astype(np.float32)
    aside, down = (_make_noise(photo.shape, sigma) * 2 - 1 for sigma in (5.0, 5.5))
    moved = cv2.remap(photo, columns + reach * aside, rows + reach * down, cv2.INTER_LINEAR, None, cv2.BORDER_REFLECT)
    return np.asarray(moved, np.uint8)


def _draw_contours(gray: Plane, sigma: float, strength: float) -> Plane:
    """Return lines where the image is darker than its surroundings; 1 is ink."""
    near, far = _blur_plane(gray, sigma), _blur_plane(gray, sigma * 1.6)
    return np.asarray(np.clip(((far - near) * 34 - 0.22) * strength, 0, 1), np.float32)


def _make_sector_kernels(radius: int) -> list[Plane]:
    """Return eight overlapping wedges around a point, each a kernel with the sum 1."""
    rows, columns = np.mgrid[-radius : radius + 1, -radius : radius + 1].astype(np.float32)
    inside = np.exp(-(rows**2 + columns**2) / (0.6 * radius**2)) * (np.hypot(rows, columns) <= radius + 0.5)
    kernels = []
    for wedge in range(8):
        angle = np.abs(np.angle(np.exp(1j * (np.arctan2(rows, columns) - wedge * np.pi / 4))))
        kernel = (inside * (angle <= np.pi / 8 + 0.05)).astype(np.float32)
        kernel[radius, radius] = inside[radius, radius]
        kernels.append(kernel / kernel.sum())
    return kernels


def _make_strokes(shape: tuple[int, ...], degrees: float, length: int = 23, width: float = 0.6) -> Plane:
    """Return noise smeared along one direction, 0 to 1."""
    noise = _make_noise(shape, width)
    kernel = np.zeros((length, length), np.float32)
    reach = length // 2
    way = np.array([np.cos(np.radians(degrees)), -np.sin(np.radians(degrees))]) * reach
    ends = [(round(reach + sign * way[0]), round(reach + sign * way[1])) for sign in (-1, 1)]
    cv2.line(kernel, ends[0], ends[1], 1, 1, cv2.LINE_AA)
    drawn = cv2.filter2D(noise, -1, kernel / kernel.sum(), borderType=cv2.BORDER_REFLECT)
    return _stretch_range(np.asarray(drawn, np.float32))


def _make_noise(shape: tuple[int, ...], sigma: float) -> Plane:
    """Return smooth noise, 0 to 1, the same for the same shape and grain."""
    random = np.random.default_rng([NOISE_SEED, round(sigma * 10)])
    return _stretch_range(_blur_plane(random.random(shape[:2], np.float32), sigma))


def _project_pixels(shape: tuple[int, ...], degrees: float) -> Plane:
    """Return how far each pixel lies along a direction, in pixels."""
    rows, columns = np.mgrid[: shape[0], : shape[1]].astype(np.float32)
    return np.asarray(columns * np.cos(np.radians(degrees)) + rows * np.sin(np.radians(degrees)), np.float32)


def _stretch_range(plane: Plane) -> Plane:
    low, high = np.quantile(plane, [0.01, 0.99])
    return np.asarray(np.clip((plane - low) / (high - low), 0, 1), np.float32)


def _saturate_plane(color: NDArray[np.float32], factor: float) -> NDArray[np.float32]:
    # No float32 matrix product: its last bit depends on the processor, and the pictures are the same everywhere.
    gray = (color.astype(np.float64) * np.array([0.299, 0.587, 0.114], np.float32)).sum(axis=-1).astype(np.float32)
    return np.asarray(np.clip(gray[..., None] + (color - gray[..., None]) * factor, 0, 1), np.float32)


def _to_gray(photo: Pixels) -> Plane:
    return np.asarray(cv2.cvtColor(photo, cv2.COLOR_RGB2GRAY) / 255, np.float32)


def _blur_plane(plane: Plane, sigma: float) -> Plane:
    return np.asarray(cv2.GaussianBlur(plane, (0, 0), sigma), np.float32)


def _to_pixels(color: NDArray[Any]) -> Pixels:
    return np.asarray(np.clip(color, 0, 1) * 255 + 0.5, np.uint8)


def mask_polygon(photo: Pixels, outline: Polygon) -> Mask:
    mask = np.zeros(photo.shape[:2], np.float32)
    cv2.fillPoly(mask, [np.array(outline, np.int32)], 1)
    return mask


def mask_ellipse(photo: Pixels, middle: tuple[int, int], radii: tuple[int, int], turn: float = 0) -> Mask:
    mask = np.zeros(photo.shape[:2], np.float32)
    cv2.ellipse(mask, middle, radii, turn, 0, 360, 1, -1)
    return mask


def mask_hue(photo: Pixels, hues: tuple[float, float], least: float, softness: float = 1.2) -> Mask:
    """Mask pixels of a hue in this range (degrees in CIELAB: red 30, orange 60, green 140) and at least this chroma."""
    lab = _to_lab(photo)
    hue = np.degrees(np.arctan2(lab[..., 2], lab[..., 1]))
    chroma = np.hypot(lab[..., 1], lab[..., 2])
    middle, reach = sum(hues) / 2, abs(hues[1] - hues[0]) / 2
    fits = np.clip((reach - np.abs(hue - middle)) / 5 + 0.5, 0, 1) * np.clip((chroma - least) / 8 + 0.5, 0, 1)
    return soften_mask(np.asarray(fits, np.float32), softness)


def soften_mask(mask: Mask, sigma: float) -> Mask:
    return np.asarray(cv2.GaussianBlur(mask, (0, 0), sigma), np.float32)


def close_mask(mask: Mask, size: int) -> Mask:
    """Fill holes and gaps of a mask that are narrower than `size`."""
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (size, size))
    return np.asarray(cv2.morphologyEx(mask, cv2.MORPH_CLOSE, kernel), np.float32)


def recolor(photo: Pixels, mask: Mask, hue: float, chroma: float = 1.0, lighter: float = 0.0) -> Pixels:
    """Change the hue (degrees in CIELAB) where the mask is; light and shade stay as they are."""
    lab = _to_lab(photo)
    strength = np.hypot(lab[..., 1], lab[..., 2]) * chroma
    painted = np.stack(
        [lab[..., 0] + lighter, strength * np.cos(np.radians(hue)), strength * np.sin(np.radians(hue))], axis=2
    )
    mixed = lab + (painted - lab) * mask[..., None]
    mixed[..., 0] = np.clip(mixed[..., 0], 0, 100)
    return _to_pixels(cv2.cvtColor(mixed.astype(np.float32), cv2.COLOR_LAB2RGB))


def remove_object(photo: Pixels, mask: Mask) -> Pixels:
    """Remove the masked thing and fill the gap from its surroundings, with grain."""
    gap = (mask > 0.5).astype(np.uint8)
    rough = np.asarray(cv2.inpaint(photo, gap, 5, cv2.INPAINT_TELEA), np.uint8)
    smooth = np.asarray(cv2.GaussianBlur(rough, (0, 0), 5), np.float32)
    grain = np.random.default_rng(4).normal(0, 1.5, photo.shape[:2])
    filling = smooth + np.asarray(grain, np.float32)[..., None]
    share = soften_mask(gap.astype(np.float32), 2)[..., None]
    return _to_pixels((photo * (1 - share) + filling * share) / 255)


def swap_face(photo: Pixels, other: Pixels, at: tuple[int, int], size: tuple[int, int], cut: Polygon) -> Pixels:
    """Blend the face of another photo in at `at`: `cut` is its outline in the other photo, scaled to `size`."""
    corner = np.array(cut).min(0)
    far = np.array(cut).max(0)
    piece = other[corner[1] : far[1], corner[0] : far[0]]
    outline = ((np.array(cut) - corner) * np.array(size) / (far - corner)).astype(np.int32)
    piece = np.asarray(cv2.resize(piece, size, interpolation=cv2.INTER_AREA), np.uint8)
    shape = np.zeros((size[1], size[0]), np.uint8)
    cv2.fillPoly(shape, [outline], 255)
    return np.asarray(cv2.seamlessClone(piece, photo, shape, at, cv2.NORMAL_CLONE), np.uint8)


def tint(photo: Pixels, gains: tuple[float, float, float]) -> Pixels:
    """Tint the whole picture by a gain for each channel."""
    return _to_pixels(photo / 255.0 * np.array(gains))


def saturate(photo: Pixels, factor: float) -> Pixels:
    """Move all colors away from gray."""
    gray = cv2.cvtColor(photo, cv2.COLOR_RGB2GRAY).astype(np.float32)[..., None]
    return _to_pixels((gray + (photo - gray) * factor) / 255)


def shift(photo: Pixels, right: int, down: int) -> Pixels:
    """Move by whole pixels; the gap is filled with the border pixels."""
    matrix = np.array([[1, 0, right], [0, 1, down]], np.float32)
    height, width = photo.shape[:2]
    return np.asarray(cv2.warpAffine(photo, matrix, (width, height), borderMode=cv2.BORDER_REPLICATE), np.uint8)


def zoom(photo: Pixels, factor: float) -> Pixels:
    """Enlarge about the center; what does not fit is cut off."""
    height, width = photo.shape[:2]
    matrix = np.asarray(cv2.getRotationMatrix2D((width / 2, height / 2), 0, factor))
    return np.asarray(cv2.warpAffine(photo, matrix, (width, height), flags=cv2.INTER_CUBIC), np.uint8)


def mirror(photo: Pixels) -> Pixels:
    return np.ascontiguousarray(photo[:, ::-1])


def blur(photo: Pixels, sigma: float) -> Pixels:
    return np.asarray(cv2.GaussianBlur(photo, (0, 0), sigma), np.uint8)


def shrink_to_width(photo: Pixels, width: int) -> Pixels:
    height = round(photo.shape[0] * width / photo.shape[1])
    return np.asarray(cv2.resize(photo, (width, height), interpolation=cv2.INTER_AREA), np.uint8)


def join_halves(left: Pixels, right: Pixels) -> Pixels:
    """Join the left half of one picture and the right half of another."""
    mixed = left.copy()
    start = round(left.shape[1] * 0.5)
    mixed[:, start:] = right[:, start:]
    return mixed


def _to_lab(photo: Pixels) -> NDArray[np.float32]:
    return np.asarray(cv2.cvtColor(photo.astype(np.float32) / 255, cv2.COLOR_RGB2LAB), np.float32)
