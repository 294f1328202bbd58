from __future__ import annotations

import os
from contextlib import aclosing
from pathlib import Path

import pytest
from support.judges import KEY, WIRES, Waits, brief
from support.loopback import CERTIFICATES, proxy, tls_front

from beholder.errors import SetupError, Unreachable
from beholder.judges.model import ModelJudge
from beholder.providers.base import JudgeSettings
from beholder.testing.server import JudgeServer
from beholder.verdicts.answer import Answer


async def ask(base_url: str) -> Answer:
    one = ModelJudge(WIRES["openai"], "gpt-5-mini", JudgeSettings(base_url=base_url, sleep=Waits().sleep), key=KEY)
    async with aclosing(one):
        return await one.answer(brief())


def port(server: JudgeServer) -> int:
    return int(server.url.rsplit(":", 1)[1])


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy"])
async def test_requests_go_through_the_proxy(
    server: JudgeServer, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    async with proxy() as seen:
        monkeypatch.setenv(variable, f"http://127.0.0.1:{seen.port}")
        await ask(server.openai_url)
    assert seen.lines == [f"POST {server.openai_url}/chat/completions HTTP/1.1"]
    assert len(server.received) == 1


async def test_a_password_for_the_proxy_goes_to_the_proxy(server: JudgeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxy() as seen:
        monkeypatch.setenv("HTTP_PROXY", f"http://me:hunter2@127.0.0.1:{seen.port}")
        await ask(server.openai_url)
    assert "Proxy-Authorization: Basic bWU6aHVudGVyMg==" in seen.heads[0]


async def test_no_proxy_goes_around_it(server: JudgeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxy() as seen:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{seen.port}")
        monkeypatch.setenv("NO_PROXY", "localhost,127.0.0.1")
        await ask(server.openai_url)
    assert seen.lines == []
    assert len(server.received) == 1


async def test_https_is_tunnelled_and_the_proxy_sees_only_the_host(
    server: JudgeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATES / "ca.pem"))
    async with tls_front(port(server)) as front, proxy() as seen:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{seen.port}")
        await ask(f"https://127.0.0.1:{front.port}/openai/v1")
    assert seen.lines == [f"CONNECT 127.0.0.1:{front.port} HTTP/1.1"]
    assert KEY not in seen.heads[0]
    assert len(server.received) == 1


def test_a_proxy_of_another_kind_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "socks5://127.0.0.1:1080")
    with pytest.raises(SetupError) as error:
        ModelJudge(WIRES["openai"], "m", JudgeSettings(base_url="http://127.0.0.1:9/v1"), key=KEY)
    assert str(error.value) == "HTTP_PROXY names a socks5 proxy; Beholder speaks to http:// proxies only."


async def test_a_proxy_whose_name_can_be_none_is_told_once(
    server: JudgeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://pro..xy:3128")
    with pytest.raises(Unreachable) as error:
        await ask(server.openai_url)
    assert str(error.value) == f"{server.openai_url} cannot be asked; check the base URL and the proxy."
    assert error.value.attempts == 1


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
async def test_a_certificate_of_your_own_is_trusted_when_named(
    server: JudgeServer, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, str(CERTIFICATES / "ca.pem"))
    async with tls_front(port(server)) as front:
        answer = await ask(f"https://localhost:{front.port}/openai/v1")
    assert answer.text == "{}"


async def test_a_certificate_that_nobody_vouches_for_is_refused_once(server: JudgeServer) -> None:
    async with tls_front(port(server)) as front:
        with pytest.raises(Unreachable) as error:
            await ask(f"https://localhost:{front.port}/openai/v1")
    assert f"localhost:{front.port} is not trusted (" in str(error.value)
    assert "set SSL_CERT_FILE to it" in str(error.value)
    assert error.value.attempts == 1
    assert server.received == []


async def test_a_bundle_that_does_not_exist_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nowhere/ca.pem")
    with pytest.raises(SetupError, match=r"REQUESTS_CA_BUNDLE names '/nowhere/ca\.pem'"):
        await ask("https://127.0.0.1:9/v1")


async def test_a_netrc_does_not_take_the_keys_place(
    server: JudgeServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password hunter2\n")
    os.chmod(netrc, 0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    await ask(server.openai_url)
    assert server.received[0].headers["authorization"] == f"Bearer {KEY}"
