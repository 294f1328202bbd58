"""Promise: a judge, an answer and a run are known again.

A judge's identity (name, base URL, parameters, picture detail) is the other half of an answer's key, and part of a
run's fingerprint. Where one of them changes, a run that was begun before is not resumed and answers that were paid for
are not found. Identities are asked of `judge_from`; keys and fingerprints are read from the ledger's tables.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from support.golden import (
    EDITED,
    FILES,
    MODELS,
    PHOTO,
    PLACES,
    STYLED,
    TARGET,
    Json,
    answer_to,
    beholder,
    brief,
    check,
    data_uri,
    digest,
    wiretap,
)

from beholder import ScriptedJudge, judge_from

FREE = ("--price-input", "0.25", "--price-output", "2")
NOBODY = ("--budget", "0", *FREE)  # the run is begun and nobody is asked


def rows(query: str, ledger: str = "runs.db") -> list[Json]:
    """Rows of the ledger as JSON values, bytes in hex."""
    connection = sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)
    connection.row_factory = sqlite3.Row
    try:
        found = [dict(row) for row in connection.execute(query)]
    finally:
        connection.close()
    return [{key: one.hex() if isinstance(one, bytes) else one for key, one in row.items()} for row in found]


def write_cases() -> None:
    """Two edits and a restyle, whose images lie in the case files: a file would be known by its path and its time."""
    edit = {"input": data_uri(PHOTO), "edited": data_uri(EDITED), "target": data_uri(TARGET)}
    edits = [
        {"id": "c1", **edit, "instruction": "make the door blue", "source": "house"},
        {"id": "c2", **edit, "instruction": "Mach die Tür blau.", "source": "house", "groups": {"model": "m"}},
    ]
    restyle = {"original": data_uri(PHOTO), "restyled": data_uri(STYLED)}
    restyles = [{"id": "r1", **restyle, "style": "Felt"}]
    said = {"image": data_uri(PHOTO), "input": "What is it?", "output": "A house and a sun."}
    told = [{"id": "d1", **said, "expected_output": ["A red house.", "Ein Haus."]}, {"id": "d2", **said}]
    for name, cases in (("edits", edits), ("restyles", restyles), ("descriptions", told)):
        Path(f"{name}.jsonl").write_text("".join(json.dumps(case) + "\n" for case in cases), "utf-8")


def test_identities() -> None:
    settings: dict[str, tuple[str, Json]] = {
        "openai": ("openai:gpt-5-mini", {}),
        "anthropic": ("anthropic:claude-haiku-4-5", {}),
        "google": ("google:gemini-2.5-flash", {}),
        "parameters": ("openai:gpt-5", {"params": {"temperature": 0, "reasoning_effort": "low", "seed": 3}}),
        "parameters in another order": ("openai:gpt-5", {"params": {"seed": 3, "reasoning_effort": "low"}}),
        "nested parameters": ("anthropic:claude-opus-5", {"params": {"thinking": {"type": "disabled"}}}),
        "dotted parameters": ("google:gemini-2.5-pro", {"params": {"thinkingConfig.thinkingBudget": 128}}),
        "picture detail": ("openai:gpt-5-mini", {"params": {"detail": "low"}}),
        "picture size": ("openai:gpt-5-mini", {"params": {"max_side": 512}}),
        "words in parameters": ("openai:gpt-5-mini", {"params": {"user": "Jörg"}}),
        "a server of one's own": ("openai:qwen", {"base_url": "http://judge.invalid:8000/v1/"}),
        "several servers": ("openai:qwen", {"base_urls": ["http://a.invalid/v1", "http://b.invalid/v1"]}),
        "one of several": ("openai:qwen", {"base_urls": ["http://c.invalid/v1"]}),
        "patience is no part": ("openai:gpt-5-mini", {"timeout_s": 5, "retries": 0}),
        "through pydantic-ai": ("deepseek:deepseek-chat", {}),
        "through pydantic-ai with a colon": ("openrouter:meta/llama:free", {"key_variable": "DEEPSEEK_API_KEY"}),
        "through pydantic-ai, server": (
            "ollama:llava",
            {"base_url": "http://judge.invalid/v1", "params": {"top_k": 4}},
        ),
        "through pydantic-ai, parameters": ("deepseek:x", {"params": {"temperature": 0.5, "detail": "high"}}),
        "instruments": ("instruments", {}),
        "instruments at a size": ("instruments", {"params": {"max_side": 512}}),
    }
    found = {what: judge_from(spec, **given).identity for what, (spec, given) in settings.items()}
    names = {what: judge_from(spec, **given).name for what, (spec, given) in settings.items()}
    found["scripted"] = ScriptedJudge("{}").identity
    found["scripted under a name"] = ScriptedJudge("{}", name="mine").identity
    check("identities", {"identities": found, "names": names})


def test_answer_keys() -> None:
    """Brief, judge and sample make the key; brief and text the id."""
    write_cases()
    openai = ("--judge", MODELS["openai"], "--base-url", PLACES["openai"])
    asked: dict[str, Sequence[str]] = {
        "openai": openai,
        "parameters": (*openai, "--param", "temperature=0", "--param", "seed=5"),
        "price": (*openai, *FREE),
        "samples": (*openai, "--samples", "2"),
        "small": (*openai, "--max-side", "4000"),
        "detail": (*openai, "--detail", "high"),
        "offline": (*openai, "--setting", "offline"),
        "anthropic": ("--judge", MODELS["anthropic"], "--base-url", PLACES["anthropic"]),
        "google": ("--judge", MODELS["google"], "--base-url", PLACES["google"]),
        "several servers": (*openai, "--base-url", "http://other.invalid/openai/v1"),
        "pydantic-ai": ("--judge", "ollama:llava", "--base-url", PLACES["openai"]),
        "jury": (*openai, "--judge", "openai:gpt-5"),
    }
    schema = brief("edit-preservation", PHOTO, EDITED, "--set", "instruction=x")["schema"]
    found: dict[str, Json] = {}
    columns = (
        "hex(key) AS key, hex(id) AS id, hex(brief_digest) AS brief, judge, sample, model, usage, cost_usd, attempts"
    )
    with wiretap() as tap:
        tap.always(answer_to(schema))
        for what, words in asked.items():
            run = ("run", "--rubric", "edit-preservation", "--cases", "edits.jsonl", "--ledger", f"{what}.db")
            beholder(*run, *words, "--no-audit", "--no-thumbnails", "--quiet", "--limit", "1")
            found[what] = rows(f"SELECT {columns} FROM answers ORDER BY judge, sample", f"{what}.db")
    for rubric, cases in (("description", "descriptions"), ("restyle", "restyles")):
        beholder(
            *("run", "--rubric", rubric, "--cases", f"{cases}.jsonl", "--ledger", f"{rubric}.db", "--no-thumbnails"),
            *(("--styles", FILES / "styles") if rubric == "restyle" else ()),
            code=None,
        )
        found[f"instruments on {rubric}"] = rows(
            "SELECT hex(key) AS key, hex(brief_digest) AS brief, judge, sample, model FROM answers ORDER BY brief",
            f"{rubric}.db",
        )
    check("answer_keys", found)


def test_run_fingerprints() -> None:
    write_cases()
    edits = ("--rubric", "edit-preservation", "--cases", "edits.jsonl")
    openai = ("--judge", MODELS["openai"])
    restyles = ("--rubric", "restyle", "--cases", "restyles.jsonl", "--styles", str(FILES / "styles"))
    suites: dict[str, Sequence[str | Path]] = {
        "plain": (*edits, *openai),
        "anthropic": (*edits, "--judge", MODELS["anthropic"]),
        "google": (*edits, "--judge", MODELS["google"]),
        "pydantic-ai": (*edits, "--judge", "deepseek:deepseek-chat"),
        "server": (*edits, "--judge", "openai:qwen", "--base-url", "http://judge.invalid/v1"),
        "servers": (*edits, *openai, "--base-url", "http://a.invalid/v1", "--base-url", "http://b.invalid/v1"),
        "parameters": (*edits, *openai, "--param", "temperature=0.2", "--param", "reasoning_effort=low"),
        "samples": (*edits, *openai, "--samples", "3"),
        "jury": (*edits, *openai, "--judge", "anthropic:claude-haiku-4-5"),
        "family": ("--rubric", "edit", "--cases", "edits.jsonl", *openai),
        "setting": (*edits, *openai, "--setting", "offline"),
        "size and detail": (*edits, *openai, "--max-side", "800", "--detail", "high"),
        "threshold and gates": (
            *("--rubric", "description", "--cases", "descriptions.jsonl", *openai),
            *("--threshold", "0.8", "--gate", "hallucinations", "--not-applicable", "refuse"),
        ),
        "fields for all": (
            *("--rubric", "description", "--cases", "descriptions.jsonl", *openai),
            *("--set", "expected_output=a", "--set", "expected_output=b"),
        ),
        "prompt": (*restyles, *openai, "--prompt", FILES / "prompt.md"),
        "styles": (*restyles, *openai),
        "calibration": (*edits, *openai, "--calibration", FILES / "people.json"),
        "rubric of one's own": (
            *("--rubric", FILES / "rubric", "--cases", "photos.csv", *openai, "--set", "product=lamp"),
        ),
        "only some": (*edits, *openai, "--only", "c2"),
        "the first": (*edits, *openai, "--limit", "1"),
        "how fast and how far is no part": (
            *(*edits, *openai, "--concurrency", "2", "--timeout", "9", "--fail-under", "50", "--tag", "x"),
            *("--name", "another", "--no-thumbnails", "--requests-per-minute", "7", "--max-unscored", "9"),
        ),
    }
    Path("photos.csv").write_text(f'id,photo,caption,shop\np1,"{data_uri(PHOTO)}",Lampe,north\n', "utf-8")
    found: dict[str, Json] = {}
    for number, (what, words) in enumerate(suites.items()):
        ledger = f"runs{number}.db"
        beholder("run", *words, *NOBODY, "--ledger", ledger, "--no-audit", "--no-thumbnails", "--quiet", code=None)
        [row] = rows("SELECT fingerprint, name, state, total, skipped, spent_usd, unpriced, tags FROM runs", ledger)
        found[what] = row
    assert found["plain"]["fingerprint"] == found["how fast and how far is no part"]["fingerprint"]
    check("fingerprints", found)


def test_a_file_is_known_by_its_path_its_size_and_its_time() -> None:
    """The same fingerprint is reckoned here from what it is said to be made of, since no two machines share a path."""
    import os

    write_cases()
    case = json.loads(Path("edits.jsonl").read_text("utf-8").splitlines()[0])
    written = {"id": "c1", "input": "photo.png", "edited": "edited.png", "instruction": case["instruction"]}
    Path("files.jsonl").write_text(json.dumps(written) + "\n", "utf-8")
    known = []
    for role, source in (("input", PHOTO), ("edited", EDITED)):
        copy = Path(Path(source).name)
        copy.write_bytes(Path(source).read_bytes())
        os.utime(copy, ns=(10**18, 10**18 + 7))
        known.append([role, str(Path.cwd() / copy), copy.stat().st_size, 10**18 + 7])
    seen = json.dumps(["c1", {"instruction": case["instruction"]}, {}, known], separators=(",", ":"))
    words = ("--rubric", "edit-preservation", "--cases", "files.jsonl", "--judge", MODELS["openai"])
    beholder("run", *words, *NOBODY, "--ledger", "runs.db", "--no-audit", "--no-thumbnails", "--quiet", code=3)
    rubrics = beholder("rubrics", "show", "edit-preservation", "--json").lines
    for rubric in rubrics:
        rubric["setting"] = ""  # the run decides it case by case
    identity = '["openai:gpt-5-mini", "https://api.openai.com/v1", {}, null]'
    settings = {"judges": [[identity, None]], "samples": 1, "setting": "", "styles": []}
    parts = [digest(seen), settings, rubrics, None]
    assert rows("SELECT fingerprint FROM runs") == [{"fingerprint": digest(json.dumps(parts, sort_keys=True))}]
