"""Whatever looks like a key, or stands under a name that says so, is not written down."""

from __future__ import annotations

import json

import pytest
from support.ledger import run_record

from beholder.ledger.ledger import Ledger

KEYS = [
    "sk-proj-abcdefghij0123456789ABCD",
    "sk-ant-api03-abcdef0123456789-xyz",
    "AIzaSyA0123456789abcdefghijklmnopqrstu",
    "gsk_abcdefghij0123456789",
    "hf_abcdefghijklmnop0123456789",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghijkl",
]


@pytest.mark.parametrize("key", KEYS)
def test_wherever_it_stands(ledger: Ledger, key: str) -> None:
    suite = {
        "judges": [{"judge": "openai:x", "params": {"user": key}}],
        "note": f"uses {key}, as before",
        "base_url": f"https://{key}@host/v1",
    }
    ledger.start(run_record("r2", suite=suite, prompt=f"say {key}", versions={"x": key}, rubrics=({"about": key},)))
    run = ledger.run("r2")
    kept = json.dumps([dict(run.suite), run.prompt, dict(run.versions), *map(dict, run.rubrics)])
    assert key not in kept
    assert kept.count("[redacted]") == 6


def test_by_the_name_it_stands_under(ledger: Ledger) -> None:
    secrets = {"api_key": "plain", "Authorization": "Basic xyz", "password": "hunter2", "auth_token": "t"}
    harmless = {"key_variable": "OPENAI_API_KEY", "max_tokens": 100, "seed": 7, "tags": ["token"]}
    ledger.start(run_record("r2", suite={"params": {**secrets, **harmless}}))
    kept = ledger.run("r2").suite["params"]
    assert kept == {**dict.fromkeys(secrets, "[redacted]"), **harmless}


def test_names_that_only_begin_like_a_key_stay(ledger: Ledger) -> None:
    suite = {
        "cases": "sk-learn-photos-and-more/cases.jsonl",
        "name": "task-force-2026-nightly-run",
        "x": "risk-0123456789abcdefgh",
    }
    ledger.start(run_record("r2", suite=suite))
    assert ledger.run("r2").suite == suite
