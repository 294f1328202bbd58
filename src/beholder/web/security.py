"""Security of the app: an ASGI middleware that checks every request before it reaches a page.

- `Host` must be a name of this app. A page of another site whose name resolves to this machine (DNS rebinding) sends
  its own name.
- A request that changes something must come from a page of this app, by its `Origin` (CSRF).
- If there is a token, it must be presented: once in the URL, then by a cookie.
- Security headers: pages run only our own scripts and styles, load nothing from elsewhere, and cannot be framed.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import Collection
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
COOKIE = "beholder"
MAX_REQUEST_BYTES = 8_000_000  # of the body
MIN_TOKEN_LENGTH = 16  # characters

_TOO_LONG = f"A request has at most {MAX_REQUEST_BYTES:,} bytes."

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with `no-referrer` our own forms would be sent with the origin `null`
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class RequestGuard:
    """Checks requests before the app gets them.

    `hosts` are the names of the app; with a `token` any IP address is allowed too (DNS rebinding needs a name).
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str] = LOOPBACK, token: str | None = None) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)
        self._token = token
        self._cookie = None if token is None else hashlib.sha256(f"beholder {token}".encode()).hexdigest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, _with_security_headers(send))
            return
        await self._app(scope, _limit_body(receive), _with_security_headers(send))

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if len(headers.getlist("host")) != 1 or not self._is_ours(_host_name(host)):
            return _refuse(421, "This app does not go by that name; open the address that `beholder view` printed.")
        if scope["method"] not in _SAFE_METHODS and headers.get("origin") != f"{scope['scheme']}://{host}":
            return _refuse(403, "This must come from a page of this app; its Origin is another.")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > MAX_REQUEST_BYTES:
            return _refuse(413, _TOO_LONG)
        return None if self._token is None else self._check_token(scope, headers)

    def _is_ours(self, name: str) -> bool:
        if name in self._hosts:
            return True
        if self._token is None:
            return False
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def _check_token(self, scope: Scope, headers: Headers) -> Response | None:
        """Return None if the token was presented; else the response: a redirect that sets the cookie, or a refusal."""
        assert self._token is not None
        assert self._cookie is not None
        if _same_token(_token_cookie(headers), self._cookie) or _same_token(
            headers.get("authorization", ""), f"Bearer {self._token}"
        ):
            return None
        asked = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if scope["method"] == "GET" and any(
            name == "token" and _same_token(value, self._token) for name, value in asked
        ):
            rest = urlencode([(name, value) for name, value in asked if name != "token"])
            # A path with two slashes at the start would redirect to another host.
            path = "/" + scope["path"].lstrip("/\\")
            redirect = RedirectResponse(f"{path}?{rest}" if rest else path, 303)
            redirect.set_cookie(COOKIE, self._cookie, httponly=True, samesite="lax")
            return redirect
        return _refuse(401, "This app asks for its token; open the address with ?token=… that it was started with.")


def _host_name(host: str) -> str:
    """Return the name in a Host header, without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _token_cookie(headers: Headers) -> str:
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return "" if cookie is None else cookie.value


def _same_token(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))


def _refuse(status: int, sentence: str) -> Response:
    return PlainTextResponse(f"{sentence}\n", status, {"Connection": "close"})


def _with_security_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return sending


def _limit_body(receive: Receive) -> Receive:
    """Refuse a body without Content-Length as soon as it gets too long while it is read."""
    seen = 0

    async def receiving() -> Message:
        nonlocal seen
        message = await receive()
        if message["type"] == "http.request":
            seen += len(message.get("body", b""))
            if seen > MAX_REQUEST_BYTES:
                raise HTTPException(413, _TOO_LONG)
        return message

    return receiving
