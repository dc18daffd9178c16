"""The names under which a server may be addressed."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from .config import ListenConfig
from .errors import ApiError

_LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_WILDCARD_HOSTS: Final = frozenset({"0.0.0.0", "::"})


class Hosts:
    """The values of ``Host`` that a server accepts.

    A web page may have a name that resolves to this machine (DNS rebinding): its browser then takes the
    server for the page's own site, and sends that name.
    """

    def __init__(self, config: ListenConfig) -> None:
        """Accept the loopback names, and the address in ``config``."""
        self._names = _LOOPBACK_NAMES | {config.host.lower()}
        # The names of a wildcard address are not known here, but each request needs a token there. No browser
        # connects to a Unix socket.
        self._any = config.host in _WILDCARD_HOSTS or config.uds is not None

    def check(self, headers: Headers) -> None:
        """Check the ``Host`` of a request.

        Raises:
            ApiError: 421, it is not accepted.
        """
        host = headers.get("host", "")
        if not self._any and _name(f"//{host}") not in self._names:
            raise ApiError(
                421, f"this server is not {host!r}. Use the address it listens on.", code="invalid_host"
            )


def _name(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
