"""Addresses of HTTP servers, as users write them, and why one cannot be reached, in plain words."""

from __future__ import annotations

import errno
import os
import re
import socket
import ssl
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

import httpx

from agentrt.errors import ConfigurationError

_ADDRESS: Final = re.compile(
    r"(?i:https?)://(\[[^\[\]]+\]|[^\[\]:@%/]+)(?::(?P<port>[0-9]{1,5}))?(?P<path>(/[^/]+)*)/?"
)
_SEGMENT: Final = re.compile(r"[^/\\%;]*[^/\\%;.]")
"""Of a path, once it is decoded."""
_MAX_LABEL: Final = 63
_MAX_HOST: Final = 253

NOTHING_LISTENS: Final = "nothing listens there"
_BY_NUMBER: Final = {
    errno.ECONNREFUSED: NOTHING_LISTENS,
    errno.EACCES: "this user may not connect to it",
    errno.EPERM: "this user may not connect to it",
    errno.ECONNRESET: "it has broken the connection off",
}


def server_root(address: str, setting: str, server: str, secret: str) -> httpx.URL:
    """Return the address under which the ``/v1`` of the server at ``address`` lies.

    The message of an error names ``setting``, such as ``--url``, and what the ``server`` is, such as "an
    engine"; ``secret`` is a clause that says how its key is given, which is no part of an address.

    Raises:
        ConfigurationError: ``address`` is not the plain address of an HTTP server: a scheme, a host, and
            perhaps a port and a path.
    """
    problem = ""
    if _is_plain(address):
        try:
            url = httpx.URL(address)
        except httpx.InvalidURL as error:
            problem = f": {error}"
        else:
            host = url.raw_host.decode("ascii")
            labels = [host] if ":" in host else host.split(".")
            if all(0 < len(label) <= _MAX_LABEL for label in labels) and len(host) <= _MAX_HOST:
                path = url.raw_path.rstrip(b"/").removesuffix(b"/v1").rstrip(b"/")
                return url.copy_with(raw_path=path or b"/")
            problem = ": its host has a dot too many, or is too long"
    elif set(address) & {"@", "?", "#"}:
        problem = f": it has a user, a query or a fragment; {secret}"
    # What may be a password or a key is not shown.
    shown = re.sub(r".*@|[?#].*", "…", address, flags=re.DOTALL)
    meant = f"http://{address}"
    hint = f" Did you mean {meant}?" if "//" not in address and _is_plain(meant) else ""
    raise ConfigurationError(
        f"{setting}: {shown!r} is not the address of {server}{problem}.{hint} Write scheme, host, and port "
        "or path if it has them, such as http://127.0.0.1:8000/v1."
    )


def _is_plain(address: str) -> bool:
    """Whether the text is an address without anything that a parser or a server would mend in silence."""
    found = _ADDRESS.fullmatch(address)
    if found is None or not address.isprintable() or set(address) & set(" \\?#"):
        return False
    segments = [unquote(part) for part in found["path"].split("/")[1:]]
    return 0 < int(found["port"] or 1) < 2**16 and all(
        _SEGMENT.fullmatch(each) and each.isprintable() for each in segments
    )


def why_unreachable(error: httpx.HTTPError) -> str:
    """Return a main clause that says why a request ended with ``error``.

    What stands in the clause for the server is "it" or "there".
    """
    if isinstance(error, httpx.TimeoutException):
        accepted = not isinstance(error, httpx.ConnectTimeout)
        return "it sends nothing any more" if accepted else "it does not accept the connection"
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({cause.verify_message})"
        if isinstance(cause, ssl.SSLError):
            return "it does not speak TLS, so that its address begins with http:// and not with https://"
        if isinstance(cause, socket.gaierror):
            return "there is no host of this name"
    for cause in causes:
        if isinstance(cause, OSError) and cause.errno is not None:
            return _BY_NUMBER.get(cause.errno, os.strerror(cause.errno).lower())
    if isinstance(error, httpx.RemoteProtocolError):
        return (
            "it breaks the connection off, or does not speak HTTP: an address with TLS begins with https://"
        )
    return str(error) or type(error).__name__


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the causes of an error, the parts of groups included."""
    for cause in (error.__cause__, error.__context__):
        if cause is not None:
            yield cause
            yield from _causes(cause)
            break
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield part
            yield from _causes(part)
