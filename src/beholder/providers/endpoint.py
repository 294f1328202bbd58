"""Where a model is asked and with which key: base URLs, API keys, and to which servers a key may be sent."""

from __future__ import annotations

import ipaddress
import os
import re
from urllib.parse import urlsplit

from beholder.errors import SetupError
from beholder.providers.base import JudgeSettings, Provider
from beholder.providers.payload import MIN_KEY_CHARACTERS

PLACEHOLDER_KEY = "no-key"  # for a server that gets none of the user's keys; too short to be taken for one


_SECRET_VARIABLE = re.compile("KEY|TOKEN|SECRET")
_named_variables: set[str] = set()  # those of keys, whatever a suite calls them


def find_secrets(variable: str | None = None) -> tuple[str, ...]:
    """Return the values in the environment that may be keys, longest first, to keep them out of messages.

    Only a provider's SDK knows which one it uses: Cohere's is CO_API_KEY, Amazon's AWS_BEARER_TOKEN_BEDROCK. `variable`
    and those that judges were given before count as well.
    """
    _named_variables.update([variable] if variable else [])
    values = {
        value.strip()
        for name, value in os.environ.items()
        if name in _named_variables or _SECRET_VARIABLE.search(name.upper())
    }
    return tuple(sorted((value for value in values if len(value) >= MIN_KEY_CHARACTERS), key=len, reverse=True))


def find_api_key(provider: Provider, variable: str | None, *, needed: bool) -> tuple[str | None, str]:
    """Return the key and the environment variable that held it, or `(None, "")`.

    Args:
        provider: names the variables to look at.
        variable: the one to look at instead, if the user named one.
        needed: whether a missing key is an error.

    Raises:
        SetupError: the key is missing or malformed.
    """
    names = (variable,) if variable else provider.key_variables
    _named_variables.update(names)
    for name in names:
        key = os.environ.get(name, "").strip()
        if not key:
            continue
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise SetupError(f"{name} holds characters that no key has; copy the key again, without spaces or breaks.")
        return key, name
    if needed or variable:
        wanted = " or ".join(names)
        raise SetupError(f"{provider.name} needs a key and {wanted} is not set; set it: export {names[0]}=YOUR_KEY")
    return None, ""


def choose_api_key(provider: Provider, settings: JudgeSettings, base_url: str) -> tuple[str | None, str]:
    """Return the key to send to a base URL and the environment variable that held it; see `find_api_key`."""
    if not settings.send_provider_key and not settings.key_variable:
        return PLACEHOLDER_KEY, ""
    needed = not (provider.key_optional and base_url != provider.base_url)
    return find_api_key(provider, settings.key_variable, needed=needed)


def check_key_transport(judge: str, url: str, settings: JudgeSettings) -> None:
    """Raise `SetupError` if a key would go over plain http beyond this machine and private networks."""
    if urlsplit(url).scheme == "http" and not (settings.allow_http_key or is_private_url(url)):
        raise SetupError(
            f"The key for {judge} would go to {url} over plain http, where anyone on the way can read it; use https, "
            "or allow it (--allow-http-key or allow_http_key=True)."
        )


def is_loopback_url(url: str) -> bool:
    """Return whether a URL is one of this machine, by its name or number; nothing is looked up."""
    host = _url_host(url)
    if isinstance(host, str):
        return host == "localhost" or host.endswith(".localhost")
    return host.is_loopback or host.is_unspecified


def is_private_url(url: str) -> bool:
    """Return whether a URL is one of this machine or of a private network, by its name or number.

    A name without a dot is that of a machine nearby (one of digits only would be a number in disguise), and so is one
    under a domain that the internet does not have.
    """
    host = _url_host(url)
    if isinstance(host, str):
        return is_loopback_url(url) or bool(
            re.fullmatch(r"[a-z][a-z0-9-]*|.+\.(local|internal|lan|svc|invalid|home\.arpa)", host)
        )
    return not host.is_global


def _url_host(url: str) -> str | ipaddress.IPv4Address | ipaddress.IPv6Address:
    name = ""
    try:
        name = (urlsplit(url).hostname or "").rstrip(".")
        address = ipaddress.ip_address(name)
    except ValueError:  # a name, or no URL at all, such as `//[`
        return name
    return getattr(address, "ipv4_mapped", None) or address


def resolve_base_urls(provider: Provider, settings: JudgeSettings) -> tuple[str, ...]:
    """Return the base URLs at which a model is asked; raise `SetupError` for an invalid one."""
    if not settings.base_urls:
        url = settings.base_url or os.environ.get(provider.base_url_variable, "").strip()
        return (normalize_base_url(url) if url else provider.base_url,)
    if settings.base_url:
        raise SetupError("base_url and base_urls are both given; keep one.")
    urls = tuple(normalize_base_url(url) for url in settings.base_urls)
    if provider.base_url in urls:
        raise SetupError(
            f"{provider.base_url} is {provider.name}'s own address; base_urls are servers of your own that all serve "
            "one model."
        )
    return urls


def normalize_base_url(url: str) -> str:
    """Return the base URL without a slash at its end; raise `SetupError` for what is none."""
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        (parts.hostname or "").encode("idna")  # as the resolver will: no empty part, none of more than 63 characters
    except ValueError:
        valid = False
    if not valid or not url.isprintable() or " " in url or "\\" in url:
        raise SetupError(f"{url!r} is no base URL; write one such as http://localhost:8000/v1.")
    if "@" in parts.netloc:
        raise SetupError(f"The base URL for {parts.hostname} holds a password; put the key into a variable instead.")
    if parts.query or parts.fragment:
        raise SetupError(f"The base URL for {parts.hostname} has a '?' or '#' in it; leave that part out.")
    return url.rstrip("/")
