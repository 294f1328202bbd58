"""The schema of an answer, where there must be one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beholder.rubrics.brief import Brief
from beholder.testing import Received


def schema_of(asked: Brief | Received) -> Mapping[str, Any]:
    assert asked.schema is not None
    return asked.schema
