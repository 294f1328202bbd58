"""Dividing cases so that what belongs together is never on both sides."""

from __future__ import annotations

import numpy as np

from beholder.statistics.data import Ints


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


def crossed(*folds: Ints) -> Ints:
    """The number of each case's cell where cases are divided in several ways at once."""
    return np.asarray(np.unique(np.column_stack(folds), axis=0, return_inverse=True)[1], np.int64).reshape(-1)
