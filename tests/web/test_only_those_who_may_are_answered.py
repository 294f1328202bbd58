"""Loopback by default, another address only with a token; no rebinding, no posts from elsewhere."""

from __future__ import annotations

import socket
from pathlib import Path

import httpx
import pytest
from support.web import Started

from beholder.errors import UsageError
from beholder.web.security import MAX_REQUEST_BYTES
from beholder.web.server import allowed_hosts, open_socket

TOKEN = "a token of decent length"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.0.0.53"])
def test_loopback_needs_no_token(host: str) -> None:
    assert host in allowed_hosts(host, None)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.7", "::", "", "example.com", "localhost.example.com"])
def test_another_address_without_a_token_is_refused(host: str) -> None:
    with pytest.raises(UsageError, match="--token"):
        allowed_hosts(host, None)
    assert host.lower() in allowed_hosts(host, TOKEN)


def test_a_short_token_is_none() -> None:
    with pytest.raises(UsageError, match="at least 16"):
        allowed_hosts("127.0.0.1", "short")


def test_a_port_that_is_taken_is_told_in_a_sentence() -> None:
    with open_socket("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=rf"port {port}"):
            open_socket("127.0.0.1", port)


@pytest.mark.parametrize("path", ["/", "/api/runs", "/assets/app.js", "/openapi.json", "/nowhere"])
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost@evil.example", "", "192.168.1.7"]
)
def test_a_name_that_is_not_ours_is_refused(client: httpx.Client, path: str, host: str) -> None:
    answer = client.get(path, headers={"Host": host})
    assert answer.status_code in (400, 421)
    assert "nightly" not in answer.text


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("origin", [None, "null", "http://evil.example", "https://127.0.0.1", "http://127.0.0.1:1"])
def test_what_changes_something_comes_from_our_own_pages(client: httpx.Client, method: str, origin: str | None) -> None:
    headers = {} if origin is None else {"Origin": origin}
    answer = client.request(method, "/", headers=headers)
    assert answer.status_code == 403


def test_our_own_pages_are_let_through(client: httpx.Client) -> None:
    own = str(client.base_url).rstrip("/")
    assert client.post("/", headers={"Origin": own}).status_code == 405  # there is nothing to post to here


def said_to(site: str, request: str) -> bytes:
    """What the server answers to these very bytes."""
    address = httpx.URL(site)
    with socket.create_connection((address.host, address.port)) as wire:
        wire.sendall(request.replace("\n", "\r\n").encode())
        return wire.recv(4000).lower()


@pytest.mark.parametrize("length", [str(MAX_REQUEST_BYTES + 1), "9" * 40])
def test_a_body_past_all_bounds_is_refused(site: str, length: str) -> None:
    answer = said_to(site, f"POST / HTTP/1.1\nHost: localhost\nOrigin: http://localhost\nContent-Length: {length}\n\n")
    assert answer.startswith((b"http/1.1 413", b"http/1.1 400"))


def test_a_body_that_does_not_say_how_long_it_is_is_refused_where_it_gets_too_long(client: httpx.Client) -> None:
    own = str(client.base_url).rstrip("/")
    parts = (b"rater=" + b"a" * 999_994 for _ in range(9))  # sent piece by piece, without a length
    answer = client.post("/review/run/r1", content=parts, headers={"Origin": own})
    assert answer.status_code == 413
    assert "at most 8,000,000 bytes" in answer.text


def test_two_hosts_are_none(site: str) -> None:
    answer = said_to(site, "GET / HTTP/1.1\nHost: localhost\nHost: evil.example\n\n")
    assert answer.startswith((b"http/1.1 421", b"http/1.1 400"))


def test_with_a_token_nothing_is_shown_without_it(place: Path, started: Started) -> None:
    site = started(place, token=TOKEN)
    with httpx.Client(base_url=site, trust_env=False) as client:
        for path in ("/", "/api/runs", "/assets/app.js", "/openapi.json", "/?token=wrong", "/?token="):
            assert client.get(path).status_code == 401, path
        assert client.get("/", headers={"Cookie": "beholder=guess"}).status_code == 401
        assert client.get("/", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
        shown = client.get("/", params={"token": TOKEN, "x": "1"})
        assert shown.status_code == 303
        assert shown.headers["location"] == "/?x=1"  # the token does not stay in the address
        cookie = shown.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert TOKEN not in cookie
        assert client.get("/").status_code == 200  # by the cookie


def test_the_way_in_leads_nowhere_else(place: Path, started: Started) -> None:
    asked = f"GET //evil.example/?token={TOKEN.replace(' ', '+')} HTTP/1.1\nHost: localhost\n\n"
    assert b"\nlocation: /evil.example/\r" in said_to(started(place, token=TOKEN), asked)


def test_with_a_token_a_literal_address_is_fine_and_a_name_is_not(place: Path, started: Started) -> None:
    site = started(place, token=TOKEN)
    shown = {"Authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=site, trust_env=False) as client:
        assert client.get("/", headers={**shown, "Host": "192.168.1.7:8000"}).status_code == 200
        assert client.get("/", headers={**shown, "Host": "evil.example"}).status_code == 421
