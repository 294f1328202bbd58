"""Which files an MCP client may name, whatever it calls them; and what is written about the server elsewhere."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.images import photo, saved

import beholder
from beholder import UsageError
from beholder.cli.app import app
from beholder.integrations.file_access import FileAccess
from beholder.reports.strip import MAX_BYTES, LabelledPicture, draw_strip

ROOT = Path(__file__).parents[2]
PARTS = st.sampled_from(["..", ".", "inner", "out", "a.png", "secret.png", "%2e%2e", "", "~", "…", "\\", "file:", "\0"])


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("top")
    inner = top / "root" / "inner"
    inner.mkdir(parents=True)
    for place in (top / "secret.png", top / "root" / "a.png", inner / "a.png"):
        place.write_bytes(saved(photo(), "PNG"))
    (top / "root" / "out").symlink_to(top)
    (top / "root-beside").mkdir()
    (top / "root-beside" / "a.png").write_bytes(saved(photo(), "PNG"))
    return top


@given(parts=st.lists(PARTS, max_size=6), start=st.sampled_from(["", "/", "root", "file:", "file://"]))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_found_is_really_below_a_root(folders: Path, parts: list[str], start: str) -> None:
    root = Path(os.path.realpath(folders / "root"))
    prefix = f"{root}/" if start == "root" else f"{start}{root}/" if start.startswith("file:") else start
    try:
        found = FileAccess((root,)).find_image(prefix + "/".join(parts))
    except UsageError:
        return
    assert Path(found).resolve().is_relative_to(root)


def test_a_folder_beside_with_a_similar_name_is_outside(folders: Path) -> None:
    access = FileAccess((Path(os.path.realpath(folders / "root")),))
    with pytest.raises(UsageError, match="not below"):
        access.find_image(str(folders / "root-beside" / "a.png"))


def test_roots_of_a_client_are_folders_of_this_machine(folders: Path) -> None:
    uris = [(folders / "root").as_uri(), "https://example.com/root", "file://elsewhere/root"]
    access = FileAccess.of_uris(uris)
    assert access.roots == (Path(os.path.realpath(folders / "root")),)
    assert access.find_image("inner/a.png").endswith("a.png")
    assert access.find_image((folders / "root" / "a.png").as_uri()) == access.find_image("a.png")


@pytest.mark.parametrize("count", [1, 2, 6, 9])
def test_a_strip_is_small_and_says_what_is_missing(count: int) -> None:
    pictures = [LabelledPicture(f"role «{number}» 写", saved(photo(512, 384), "JPEG")) for number in range(count)]
    strip = draw_strip([LabelledPicture("gone", None, "no copy in the ledger"), *pictures])
    assert strip.startswith(b"\xff\xd8")
    assert len(strip) <= MAX_BYTES


class TestWhatTheRegistryReads:
    server = json.loads((ROOT / "server.json").read_text("utf-8"))

    def test_the_fields_have_the_forms_that_the_registry_documents(self) -> None:
        assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", self.server["name"])
        assert 3 <= len(self.server["name"]) <= 200
        assert 1 <= len(self.server["description"]) <= 100
        (package,) = self.server["packages"]
        assert self.server["version"] == package["version"] == beholder.__version__
        assert (package["registryType"], package["identifier"]) == ("pypi", "beholder")
        assert package["transport"] == {"type": "stdio"}
        for one in [*package["runtimeArguments"], *package["packageArguments"]]:
            assert one["type"] in ("named", "positional")
            assert "name" in one if one["type"] == "named" else "value" in one or "valueHint" in one
        assert all(one["isSecret"] for one in package["environmentVariables"])

    def test_the_readme_claims_the_name(self) -> None:
        assert f"mcp-name: {self.server['name']}" in (ROOT / "README.md").read_text("utf-8")

    def test_its_arguments_and_those_of_the_docs_are_flags(self) -> None:
        command = getattr(typer.main.get_command(app), "commands")["mcp"]  # noqa: B009
        known = {flag for option in command.params for flag in option.opts}
        (package,) = self.server["packages"]
        named = {one["name"] for one in package["packageArguments"] if one["type"] == "named"}
        assert package["packageArguments"][0] == {"type": "positional", "value": "mcp"}
        page = (ROOT / "docs" / "mcp.md").read_text("utf-8")
        (config,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
        arguments = json.loads(config)["mcpServers"]["beholder"]["args"]
        written = {one for one in arguments[arguments.index("mcp") :] if one.startswith("--")}
        prose = set(re.findall(r"`(--[a-z-]+)", page))
        assert named | written | prose <= known
