"""Requests made up from the app's own description of itself: whatever they say, the app has an answer."""

from __future__ import annotations

from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from web_helpers import RUN, Started

EXAMPLES = 12


def test_no_request_that_the_schema_allows_is_a_mistake_of_ours(place: Path, started: Started) -> None:
    site = started(place)
    schema = schemathesis.openapi.from_url(f"{site}/openapi.json")
    tried = 0
    for found in schema.get_all_operations():
        operation = found.ok()

        @settings(
            max_examples=EXAMPLES,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def answered(case: schemathesis.Case) -> None:
            nonlocal tried
            if tried % 2 and "run" in (case.path_parameters or {}):
                case.path_parameters["run"] = RUN  # one that there is, which nobody guesses
            answer = case.call(headers={"Origin": site}, allow_redirects=False)
            tried += 1
            if answer.status_code >= 500:
                pytest.fail(f"{case.as_curl_command()} is answered with {answer.status_code}")

        answered()
    assert tried > 50
