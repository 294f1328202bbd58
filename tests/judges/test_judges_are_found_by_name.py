from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest
from support.judges import KEY

from beholder.errors import SetupError
from beholder.judges.base import Judge
from beholder.judges.factory import judge_from
from beholder.judges.model import ModelJudge
from beholder.providers.base import JudgeSettings, JudgeSettingsKwargs


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("gpt-5-mini", "'gpt-5-mini' names no judge; write PROVIDER:MODEL, for example openai:gpt-5-mini."),
        (":gpt-5", "':gpt-5' names no judge; write PROVIDER:MODEL, for example openai:gpt-5-mini."),
        ("openai:", "'openai:' names no model; write one after the colon, for example openai:NAME."),
        ("openai: ", "'openai: ' names no model; write one after the colon, for example openai:NAME."),
    ],
)
def test_a_name_of_the_wrong_form_shows_the_right_one(spec: str, sentence: str) -> None:
    with pytest.raises(SetupError) as error:
        judge_from(spec)
    assert str(error.value) == sentence


def test_an_unknown_prefix_lists_the_known_ones() -> None:
    with pytest.raises(SetupError) as error:
        judge_from("qqq:gpt-5-mini")
    assert str(error.value).startswith("No judge is named 'qqq:'; known are ")
    for known in ("openai:", "anthropic:", "google:", "mistral:", "groq:", "bedrock:"):
        assert known in str(error.value)


@pytest.mark.parametrize(
    "url",
    [
        "localhost:8000/v1",
        "ftp://host/v1",
        "http://",
        "http://host:99999/v1",
        "nonsense",
        "http://exa_mple..com/v1",
        f"http://{'a' * 64}.example/v1",
        "http://my host/v1",
        "http://my.host/v1 ",
        "http://host/v1#\N{ZERO WIDTH SPACE}",
    ],
)
def test_a_base_url_that_is_none_is_told(url: str) -> None:
    with pytest.raises(SetupError) as error:
        judge_from("openai:m", base_url=url)
    assert str(error.value) == f"{url!r} is no base URL; write one such as http://localhost:8000/v1."


def test_a_base_url_with_a_backslash_is_told() -> None:
    with pytest.raises(SetupError, match="is no base URL"):
        judge_from("openai:m", base_url="http:\\\\localhost\\v1")
    with pytest.raises(SetupError, match="is no base URL"):
        judge_from("openai:m", base_url="http://local\\host/v1")


def test_our_own_three_are_entries_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(variable, KEY)
    for provider in ("openai", "anthropic", "google"):
        judge = judge_from(f"{provider}:some/model:free", params={"temperature": 0})
        assert isinstance(judge, ModelJudge)
        assert isinstance(judge, Judge)
        assert (judge.name, judge.model) == (f"{provider}:some/model:free", "some/model:free")
        assert judge.params == {"temperature": 0}
        assert judge.base_url.startswith("https://")


def test_settings_are_given_by_keyword_as_a_value_or_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    kept = JudgeSettings(params={"seed": 1}, base_url="http://127.0.0.1:1/v1")
    alone, both = judge_from("openai:m", kept), judge_from("openai:m", kept, params={"seed": 2})
    keywords = judge_from("openai:m", params={"seed": 1}, base_url="http://127.0.0.1:1/v1")
    assert isinstance(alone, ModelJudge)
    assert isinstance(both, ModelJudge)
    assert alone.identity == keywords.identity
    assert (both.params, both.base_url, kept.params) == ({"seed": 2}, "http://127.0.0.1:1/v1", {"seed": 1})


def test_every_setting_may_be_given_by_keyword() -> None:
    assert get_type_hints(JudgeSettingsKwargs) == get_type_hints(JudgeSettings)


PLUGIN = """
class Oracle:
    def __init__(self, model, settings):
        self.model, self.settings = model, settings

def oracle(model, settings):
    return Oracle(model, settings)
"""


def test_a_plugin_may_bring_a_judge_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "beholder_oracle.py").write_text(PLUGIN)
    info = tmp_path / "beholder_oracle-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: beholder-oracle\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[beholder.judges]\noracle = beholder_oracle:oracle\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    judge = judge_from("oracle:delphi", params={"riddle": True}, base_url="http://temple.invalid")
    assert judge.model == "delphi"  # type: ignore[attr-defined]
    assert judge.settings.params == {"riddle": True}  # type: ignore[attr-defined]
    assert judge.settings.base_url == "http://temple.invalid"  # type: ignore[attr-defined]


def test_nothing_heavy_is_imported_to_make_a_judge() -> None:
    code = (
        "import sys, os; os.environ['OPENAI_API_KEY'] = 'k'\n"
        "from beholder.judges.factory import judge_from; judge_from('openai:gpt-5-mini')\n"
        "heavy = {'aiohttp', 'pydantic_ai', 'pydantic', 'openai', 'genai_prices', 'cv2', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
