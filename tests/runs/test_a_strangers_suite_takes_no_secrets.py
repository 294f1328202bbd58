"""A suite from a stranger sends no key, image or verdict where its user did not have it sent, and opens no prompt,
style or rubric beyond its folder."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest

import beholder
from beholder.cli.options import _load_suite
from beholder.errors import RubricError, SetupError, UntrustedSuite, UsageError
from beholder.providers.base import JudgeSettings
from beholder.providers.pydantic_ai import _provider_arguments
from beholder.runs.limits import RunLimits
from beholder.runs.ray.cluster import read_judge_variables
from beholder.runs.suite import Suite, load_suite
from beholder.runs.suite_judges import make_judges
from beholder.testing.server import JudgeServer

KEY, OTHER = "sk-proj-Zq7PxT4mW9vRb2NcLk8sYd3H", "hunter2-hunter2-hunter2"
ELSEWHERE = "https://models.example/v1"
START = "rubric: edit-preservation\ncases: cases.jsonl\nthumbnails: false\naudit: false\n"
CarriedOut = Callable[[Sequence[str]], tuple[int, str, str]]


@pytest.fixture
def write(tmp_path: Path, cases: Callable[[int], Path], monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Writes suite.yaml with one case; the environment has keys."""
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, KEY)
    monkeypatch.setenv("DATABASE_PASSWORD", OTHER)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    cases(1)

    def make(text: str) -> Path:
        path = tmp_path / "suite.yaml"
        path.write_text(START + text, "utf-8")
        return path

    return make


def judges(*entries: str) -> str:
    return "judges:\n" + "".join(f"  - {{{entry}}}\n" for entry in entries)


STRANGE = [
    (judges(f"judge: openai:x, base_url: '{ELSEWHERE}'"), f"the key in OPENAI_API_KEY, .* would go to {ELSEWHERE}"),
    (judges(f"judge: openai:x, base_urls: ['http://127.0.0.1:1/v1', '{ELSEWHERE}']"), "OPENAI_API_KEY"),
    (judges(f"judge: anthropic:x, base_url: '{ELSEWHERE}'"), f"the key in ANTHROPIC_API_KEY, .* to {ELSEWHERE}"),
    (judges("judge: openai:x, base_url: 'http://10.0.0.7/v1'"), "OPENAI_API_KEY, .* would go to http://10.0.0.7/v1"),
    (judges("judge: openai:x, base_url: 'http://api.openai.com/v1'"), "would go to http://api.openai.com/v1"),
    (judges("judge: openai:x, key_variable: DATABASE_PASSWORD"), "the value of DATABASE_PASSWORD would go to its prov"),
    (
        judges("judge: openai:x, base_url: 'http://localhost:1/v1', key_variable: OPENAI_API_KEY"),
        "the value of OPENAI_API_KEY would go to http://localhost:1/v1",
    ),
    (judges("judge: ollama:x, base_url: 'https://models.example'"), "would go to https://models.example, to ask"),
    ("ledger: 'postgresql://db.example/runs'\n", "would go to the database at db.example"),
    ("ledger: 'postgresql://localhost:5432,db.example/runs'\n", "would go to the database at db.example"),
    ("ledger: 'postgresql:///runs?host=db.example'\n", "would go to the database at db.example"),
    ("ledger: 'postgresql://[::1],[x/runs'\n", r"would go to the database at \[x"),
    ("engine: ray\naddress: '[x'\n", r"to the Ray cluster at \[x"),
    ("engine: ray\naddress: 'head.example:6379'\n", "keys of all judges .* to the Ray cluster at head.example:6379"),
]


@pytest.mark.parametrize(("text", "said"), STRANGE)
def test_a_file_that_says_where_things_go_needs_trust(write: Callable[[str], Path], text: str, said: str) -> None:
    path = write(text)
    with pytest.raises(UntrustedSuite, match=said) as error:
        load_suite(path)
    assert "--trust-suite or trust_suite=True" in str(error.value)
    assert KEY not in str(error.value)
    assert OTHER not in str(error.value)
    assert load_suite(path, {"trust_suite": True}).without_key == frozenset()


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("ledger: 'postgresql://[/x'\n", "ledger"),
        ("ledger: 'postgresql://me:hunter2@[/x'\n", "ledger"),
        ("engine: ray\naddress: 'ray://['\n", "address"),
        (judges("judge: openai:x, base_url: 'http://['"), "base_url"),
    ],
)
def test_an_address_that_is_none_is_named_with_its_line(write: Callable[[str], Path], text: str, key: str) -> None:
    with pytest.raises(RubricError, match=rf"suite.yaml: line \d, .*{key}: .*write one such as") as error:
        load_suite(write(text))
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize("answer", ["y", "n"])
def test_on_a_terminal_the_user_is_asked(
    write: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: str
) -> None:
    path = write("ledger: 'postgresql://db.example/runs'\n")
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{answer}\n"))
    for stream in (sys.stdin, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    with nullcontext() if answer == "y" else pytest.raises(UntrustedSuite):
        _load_suite(path, {})
    shown = capsys.readouterr().err
    assert shown.startswith(
        f"{path} asks for this: verdicts and small copies of images would go to the database at db."
    )
    assert "Do you trust this file" in shown


def test_trust_holds_until_the_file_changes(write: Callable[[str], Path]) -> None:
    path = write(STRANGE[0][0])
    load_suite(path, {"trust_suite": True})
    load_suite(path)
    trusted = Path(os.environ["BEHOLDER_TRUST_FILE"])
    assert str(path) in trusted.read_text("utf-8")
    if os.name == "posix":
        assert trusted.stat().st_mode & 0o077 == 0
    write(STRANGE[0][0] + "# another\n")
    with pytest.raises(UntrustedSuite):
        load_suite(path)


def test_trust_that_cannot_be_remembered_holds_this_once(
    write: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "a file").write_text("")
    monkeypatch.setenv("BEHOLDER_TRUST_FILE", str(tmp_path / "a file" / "trusted.txt"))
    path = write(STRANGE[0][0])
    load_suite(path, {"trust_suite": True})
    with pytest.raises(UntrustedSuite):
        load_suite(path)


def test_without_a_variable_it_is_remembered_in_the_folder_of_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    from beholder.runs.trust import trust_file

    monkeypatch.delenv("BEHOLDER_TRUST_FILE")
    assert trust_file().parts[-2:] in (("beholder", "trusted-suites.txt"), (".beholder", "trusted-suites.txt"))


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        (STRANGE[0][0], {"base_url": ELSEWHERE}),
        (STRANGE[0][0], {"base_urls": [ELSEWHERE]}),
        (STRANGE[0][0], {"judges": ["openai:y"]}),
        (STRANGE[5][0], {"key_variable": "DATABASE_PASSWORD"}),
        ("ledger: 'postgresql://db.example/runs'\n", {"ledger": "here.db"}),
        ("engine: ray\naddress: 'head.example:6379'\n", {"address": "other.example:6379"}),
        (judges("judge: openai:x, base_url: 'https://api.openai.com/v1/'"), {}),
        (judges("judge: openai:x, key_variable: OPENAI_API_KEY"), {}),
        ("ledger: 'postgresql://127.0.0.1/runs'\n", {}),
        ("ledger: 'postgresql:///runs?host=/var/run/postgresql'\n", {}),
        ("engine: ray\naddress: '127.0.0.1:6379'\n", {}),
    ],
)
def test_the_users_own_word_and_the_providers_own_host_need_none(
    write: Callable[[str], Path], text: str, flags: dict[str, object]
) -> None:
    assert load_suite(write(text), flags).without_key == frozenset()


def test_a_base_url_that_the_user_gives_is_for_one_provider(write: Callable[[str], Path]) -> None:
    path = write("judges: [openai:x, anthropic:y]\n")
    assert [one.base_url for one in load_suite(path, {"base_url": ELSEWHERE}).judges] == [ELSEWHERE, None]
    with pytest.raises(UsageError, match="--key-variable: is for one provider, and the judges are of several"):
        load_suite(path, {"key_variable": "DATABASE_PASSWORD"})
    path = write("judges: [google:x, anthropic:y]\n")
    with pytest.raises(UsageError, match="--base-url: is for one provider, and the judges are of anthropic, google"):
        load_suite(path, {"base_url": ELSEWHERE})
    path = write(judges("judge: openai:x", "judge: anthropic:y, base_url: 'https://other.example'"))
    with pytest.raises(UntrustedSuite, match=r"ANTHROPIC_API_KEY, .* would go to https://other\.example"):
        load_suite(path, {"base_url": ELSEWHERE})


def test_nor_does_the_environment_or_a_mapping_in_python(
    write: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", ELSEWHERE)
    load_suite(write("judges: [openai:x]\n"))
    mapping = {"rubric": "edit-preservation", "cases": "cases.jsonl"}
    beholder.plan({**mapping, "judges": [{"judge": "openai:x", "base_url": "https://other.example/v1"}]})


def test_no_file_trusts_itself(write: Callable[[str], Path]) -> None:
    for key in ("trust_suite", "allow_http_key"):
        with pytest.raises(RubricError, match=f"{key}: is not a key that is known here"):
            load_suite(write(STRANGE[0][0] + f"{key}: true\n"))


LOCAL = {
    "openai": ("openai_url", "authorization"),
    "anthropic": ("anthropic_url", "x-api-key"),
    "google": ("google_url", "x-goog-api-key"),
}


@pytest.mark.parametrize("provider", LOCAL)
def test_a_server_on_this_machine_gets_no_key_of_the_provider(
    write: Callable[[str], Path], server: JudgeServer, provider: str
) -> None:
    url, header = LOCAL[provider]
    path = write(judges(f"judge: '{provider}:x', base_url: '{getattr(server, url)}'"))
    beholder.run(path, ledger="first.db", progress=False)
    assert KEY not in str(server.received[0].headers)
    assert server.received[0].headers[header].removeprefix("Bearer ") == "no-key"
    beholder.run(path, ledger="second.db", progress=False, key_variable="DATABASE_PASSWORD")
    assert server.received[1].headers[header].removeprefix("Bearer ") == OTHER
    beholder.run(path, ledger="third.db", progress=False, trust_suite=True)
    assert server.received[2].headers[header].removeprefix("Bearer ") == KEY


async def test_a_provider_of_pydantic_ai_gets_none_either(write: Callable[[str], Path], server: JudgeServer) -> None:
    pytest.importorskip("pydantic_ai")
    path = write(judges(f"judge: 'ollama:x', base_url: '{server.openai_url}'"))
    os.environ["OLLAMA_API_KEY"] = KEY
    try:
        (judge,) = make_judges(load_suite(path), RunLimits())
    finally:
        del os.environ["OLLAMA_API_KEY"]
    assert judge.settings.send_provider_key is False  # type: ignore[attr-defined]
    assert (await judge._connect()).client.api_key == "no-key"  # type: ignore[attr-defined]
    await judge.aclose()


def test_credentials_that_cannot_be_kept_back_need_trust() -> None:
    """As those of Amazon, which its own library finds."""
    settings = JudgeSettings(base_url="http://127.0.0.1:1", send_provider_key=False)
    with pytest.raises(SetupError, match=r"bedrock finds its credentials in the environment, .*--trust-suite"):
        _provider_arguments("bedrock", {"base_url": None, "region_name": None}, settings)


def test_a_server_on_this_machine_that_wants_a_key_says_what_to_do(write: Callable[[str], Path]) -> None:
    from beholder.testing.base import Fault

    with JudgeServer() as server:
        server.say(Fault.bad_key())
        path = write(judges(f"judge: openai:x, base_url: '{server.openai_url}'"))
        with pytest.raises(SetupError, match=r"No key was sent, since .* stands in a suite file; .*--trust-suite"):
            beholder.run(path, ledger="runs.db", progress=False)


def test_a_worker_on_ray_gets_no_key_for_it_and_keeps_to_it(write: Callable[[str], Path]) -> None:
    path = write(judges("judge: openai:x, base_url: 'http://127.0.0.1:1/v1'", "judge: anthropic:y"))
    suite = load_suite(path)
    assert read_judge_variables(suite) == {"ANTHROPIC_API_KEY": KEY}
    sent: Suite = pickle.loads(pickle.dumps(suite))
    assert sent.without_key == {0}


def test_a_run_goes_on_whether_trusted_or_not(write: Callable[[str], Path], server: JudgeServer) -> None:
    path = write(judges(f"judge: openai:x, base_url: '{server.openai_url}'"))
    first = beholder.run(path, ledger="runs.db", progress=False)
    again = beholder.run(path, ledger="runs.db", progress=False, trust_suite=True)
    assert (again.id, len(server.received)) == (first.id, 1)


def test_the_command_says_it_in_one_sentence(write: Callable[[str], Path], carried_out: CarriedOut) -> None:
    path = str(write(STRANGE[0][0]))
    for command in ("run", "plan", "collect"):
        code, _, said = carried_out([command, path, "--ledger", "runs.db"])
        assert (code, said.count("\n")) == (2, 1)
        assert f"the key in OPENAI_API_KEY, with images and texts of your cases, would go to {ELSEWHERE}" in said
    assert carried_out(["plan", path, "--trust-suite"])[0] == 0
    assert carried_out(["plan", path])[0] == 0


def test_on_a_terminal_it_asks_once(write: Callable[[str], Path]) -> None:
    pty = pytest.importorskip("pty")
    command = [sys.executable, "-m", "beholder", "plan", str(write(STRANGE[0][0]))]

    def answer(word: bytes) -> tuple[int, str]:
        ours, theirs = pty.openpty()
        with subprocess.Popen(command, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE) as process:
            os.close(theirs)
            said = b""
            while b"[y/N]" not in said and (more := os.read(ours, 4096)):
                said += more
            os.write(ours, word + b"\n")
            process.communicate()
        os.close(ours)
        return process.returncode, said.decode()

    code, said = answer(b"n")
    assert code == 2
    assert f"would go to {ELSEWHERE}" in " ".join(said.split())
    assert answer(b"y")[0] == 0
    assert subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0


RUBRIC = "rubric: mine\nimages: [{role: input, label: A}, {role: edited, label: B}]\nfields: [{name: instruction}]\n"
OUTSIDE = {
    "prompt": "../secret.txt",
    "rubric": "../mine",
    "styles": "[../styles]",
}


@pytest.fixture
def inner(tmp_path: Path, cases: Callable[[int], Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A suite's folder with files outside of it, and links to them."""
    monkeypatch.chdir(tmp_path)
    cases(1)
    inner = tmp_path / "inner"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "rubric.yaml").write_text(RUBRIC + "criteria: [{key: nice}]\n", "utf-8")
    (tmp_path / "styles").mkdir()
    style = "style: Woodcut\ndescription: Black ink.\nassertions: {accuracy: ['Is it still the same subject?']}\n"
    (tmp_path / "styles" / "woodcut.yaml").write_text(style, "utf-8")
    (tmp_path / "secret.txt").write_text("the secret", "utf-8")
    inner.mkdir()
    return inner


def suite_with(inner: Path, key: str, value: str) -> Path:
    path = inner / "suite.yaml"
    rubric = "" if key == "rubric" else "rubric: edit-preservation\n"
    path.write_text(f"{rubric}cases: ../cases.jsonl\n{key}: {value}\n", "utf-8")
    return path


@pytest.mark.parametrize(("key", "value"), OUTSIDE.items())
def test_files_outside_the_suites_folder_are_not_opened(inner: Path, key: str, value: str) -> None:
    path = suite_with(inner, key, value)
    with pytest.raises(RubricError, match=rf"{key}.*: '\.\./\w+(\.txt)?' lies outside the suite's folder; .*--{key}"):
        load_suite(path, {"trust_suite": True})
    name = value.strip("[]").removeprefix("../")
    load_suite(path, {key: [name] if key == "styles" else name})


def test_a_rubric_of_the_working_folder_is_not_the_suites(inner: Path) -> None:
    with pytest.raises(RubricError, match="There is no rubric"):
        load_suite(suite_with(inner, "rubric", "mine"))


def test_a_family_names_no_files(inner: Path) -> None:
    (inner / "family.yaml").write_text("family: all\nsummary: All.\nparts: [description, ../mine]\n", "utf-8")
    with pytest.raises(RubricError, match=r"parts\[1\]: '../mine' is not the name of a rubric"):
        load_suite(suite_with(inner, "rubric", "family.yaml"))


@pytest.mark.parametrize("name", ['"a\\0b"', "x" * 5000])
@pytest.mark.parametrize("key", OUTSIDE)
def test_a_name_that_no_file_can_have_is_a_problem(inner: Path, key: str, name: str) -> None:
    with pytest.raises(RubricError, match=f"line [123], {key}"):
        load_suite(suite_with(inner, key, f"[{name}]" if key == "styles" else name))


def test_trust_is_given_as_true_or_false(write: Callable[[str], Path]) -> None:
    with pytest.raises(UsageError, match="--trust-suite: should be true or false, not 'no'"):
        load_suite(write(STRANGE[0][0]), {"trust_suite": "no"})


@pytest.mark.parametrize(
    ("key", "value", "link", "target"),
    [
        ("prompt", "prompt.md", "prompt.md", "../secret.txt"),
        ("rubric", "mine", "mine", "../mine"),
        ("rubric", "own", "own/rubric.yaml", "../../mine/rubric.yaml"),
        ("styles", "[styles]", "styles", "../styles"),
        ("styles", "[own]", "own/woodcut.yaml", "../../styles/woodcut.yaml"),
    ],
)
def test_a_link_leads_nowhere_else(inner: Path, key: str, value: str, link: str, target: str) -> None:
    (inner / link).parent.mkdir(exist_ok=True)
    try:
        (inner / link).symlink_to(target)
    except OSError:
        pytest.skip("this system lets nobody make links")
    with pytest.raises(RubricError, match="lies outside the suite's folder"):
        load_suite(suite_with(inner, key, value))


def test_a_link_within_the_folder_is_followed(inner: Path) -> None:
    (inner / "real.md").write_text("Judge it.", "utf-8")
    try:
        (inner / "prompt.md").symlink_to("real.md")
    except OSError:
        pytest.skip("this system lets nobody make links")
    assert load_suite(suite_with(inner, "prompt", "prompt.md")).prompt_text() == "Judge it."


def test_a_prompt_has_an_end(inner: Path) -> None:
    (inner / "prompt.md").write_text("x" * 1_048_577, "utf-8")
    with pytest.raises(RubricError, match=r"prompt\.md' has more than 1,048,576 characters"):
        load_suite(suite_with(inner, "prompt", "prompt.md"))
