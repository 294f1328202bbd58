"""No test reaches beyond this machine: a connection or a look-up elsewhere fails, and so does the test that tried."""

from __future__ import annotations

import ipaddress
import socket
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# A deadline is a wall-clock assertion, and "too slow" says something of the machine only.
settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")

_tried: list[str] = []


def _here(host: object) -> bool:
    name = host.decode("ascii", "replace") if isinstance(host, bytes) else host
    if name in (None, "", "localhost"):
        return True
    try:
        return ipaddress.ip_address(str(name).split("%")[0]).is_loopback
    except ValueError:
        return False


def _guard(event: str, args: tuple[object, ...]) -> None:
    if event == "socket.getaddrinfo":
        host = args[0]
    elif event in ("socket.connect", "socket.sendto") and isinstance(args[1], tuple):
        host = args[1][0]
    else:
        return
    if _here(host) or host == "0.0.0.0":
        return
    # RFC 6761 reserves .invalid for names that never resolve: asking for one is a test of just that.
    if not str(host).endswith(".invalid"):
        _tried.append(str(host))
    raise socket.gaierror(socket.EAI_NONAME, f"the test session refuses the network: {host}")


sys.addaudithook(_guard)


@pytest.fixture(autouse=True)
def _stays_on_loopback() -> Iterator[None]:
    _tried.clear()
    yield
    assert not _tried, f"this test tried to reach {', '.join(_tried)}"


@pytest.fixture
def tried_hosts() -> list[str]:
    """The hosts that were refused; a test that means to try one clears it."""
    return _tried
