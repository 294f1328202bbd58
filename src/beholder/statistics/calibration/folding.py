"""Dividing cases so that what belongs together is never on both sides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from beholder.statistics.data import Ints


def numbered(names: Sequence[str] | None, size: int) -> Ints:
    """A number for the group of each of `size` cases; without names, and for an empty one, a case stands alone."""
    if not size:
        return np.zeros(0, np.int64)
    each = [name or f"\0{row}" for row, name in enumerate(names)] if names is not None else list(map(str, range(size)))
    return np.asarray(np.unique(np.array(each), return_inverse=True)[1], np.int64)


def folds_of(groups: Ints, count: int, seed: int = 0) -> Ints:
    """The fold of each case, 0 to `count` − 1 (fewer where there are fewer groups): no group is divided, and folds have
    about as many cases each. The same seed gives the same folds."""
    names, place, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    count = max(1, min(count, len(names)))
    order = np.random.default_rng(seed).permutation(len(names))
    order = order[np.argsort(-sizes[order], kind="stable")]  # the large ones first, those of one size in random order
    filled = np.zeros(count, np.int64)
    fold = np.zeros(len(names), np.int64)
    for group in order:
        least = int(filled.argmin())
        fold[group] = least
        filled[least] += sizes[group]
    return np.asarray(fold[place], np.int64)
