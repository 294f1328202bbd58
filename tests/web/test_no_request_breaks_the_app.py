"""Requests made up from the app's own description of itself: whatever they say, the app has an answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.core.result import Ok
from support.ledger import run_record
from support.reviews import RUN, answers, edits
from support.web import Started

from beholder.reviews import review, sheet
from beholder.reviews.review import case_label

EXAMPLES = 12
EMPTY = "r2"
UNTAMED = settings(
    max_examples=EXAMPLES,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture
def there(tmp_path: Path) -> tuple[Path, dict[str, list[str]]]:
    """A ledger with a run that somebody reviews, and one without a case; and the names of all that, which nobody
    guesses."""
    path = tmp_path / "ledger.db"
    with edits(path) as ledger:
        ledger.start(run_record(EMPTY, total=0, rubrics=ledger.run(RUN).rubrics))
        reviews = [review.find_or_start_review(ledger, run, "Ada") for run in (RUN, EMPTY)]
        case = "photo-00002/model-a"
        sheet.record_rating(ledger, reviews[0], case, answers())
        labels = [case_label(ledger, reviews[0], one) for one in (case, "photo-00004/model-a")]
    return path, {"run": [RUN, EMPTY, reviews[0].id], "review": [one.id for one in reviews], "label": labels}


def test_no_request_that_the_schema_allows_is_a_mistake_of_ours(
    there: tuple[Path, dict[str, list[str]]], started: Started
) -> None:
    place, known = there
    site = started(place)
    schema = schemathesis.openapi.from_url(f"{site}/openapi.json")
    tried, found = 0, set()
    for one in schema.get_all_operations():
        assert isinstance(one, Ok)
        operation = one.ok()

        @UNTAMED
        @given(case=operation.as_strategy(), form=st.dictionaries(st.text(max_size=20), st.text(max_size=20)))
        def answered(case: schemathesis.Case[Any], form: dict[str, str]) -> None:
            nonlocal tried
            tried += 1
            for name, names in known.items():
                if tried % 4 and name in (case.path_parameters or {}):
                    case.path_parameters[name] = names[tried % len(names)]
            more: dict[str, Any] = {"data": form} if case.method == "POST" else {}
            answer = case.call(headers={"Origin": site}, allow_redirects=False, **more)
            if answer.status_code >= 500:
                pytest.fail(f"{case.as_curl_command()} is answered with {answer.status_code}")
            if answer.status_code < 400:
                found.add(f"{case.method} {case.path}")

        answered()
    assert tried > 50
    reached = {one for one in found if "{review}" in one}
    assert len(reached) >= 4, f"of all pages of a review only {sorted(reached)} were there"


@pytest.mark.parametrize("order", ["", "uncertainty", "flags", "quota"])
def test_a_run_without_a_case_can_be_asked_for_in_any_order(
    there: tuple[Path, dict[str, list[str]]], started: Started, order: str
) -> None:
    with httpx.Client(base_url=started(there[0]), trust_env=False, follow_redirects=True) as client:
        form = {"rater": "Bo", "order": order, "group": "model", "each": "2"}
        own = str(client.base_url).rstrip("/")
        assert client.post(f"/review/run/{EMPTY}", data=form, headers={"Origin": own}).status_code < 500
