"""Golden tests run in an empty folder, with keys of their own and nothing else of the user's environment."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from support.golden import FILES

OF_THE_USER = (
    *("BEHOLDER_LEDGER", "HTTP_PROXY", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"),
    *("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_API_KEY", "FORCE_COLOR"),
)


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in OF_THE_USER:
        monkeypatch.delenv(name, raising=False)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "DEEPSEEK_API_KEY"):
        monkeypatch.setenv(name, "sk-test-0123456789")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    # The suites name a server, as they did before that needed trust.
    digests = [hashlib.sha256(file.read_bytes()).hexdigest() for file in (FILES / "ledger").glob("*.yaml")]
    trusted = tmp_path.with_name(f"{tmp_path.name}-trusted")
    trusted.write_text("".join(f"{digest} \n" for digest in digests), "utf-8")
    monkeypatch.setenv("BEHOLDER_TRUST_FILE", str(trusted))
