"""Addresses of HTTP servers, as users write them, and why one cannot be reached, in plain words."""

from __future__ import annotations

import errno
import os
import re
import socket
import ssl
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import httpx

from agentrt.errors import ConfigurationError

_AUTHORITY: Final = re.compile(r"(\[[^\[\]]+\]|[^\[\]:@%]+)(:[0-9]{1,5})?")
_MAX_LABEL: Final = 63
_MAX_HOST: Final = 253


NOTHING_LISTENS: Final = "nothing listens there"
NO_SOCKET: Final = "there is no such socket"
_BY_NUMBER: Final = {
    errno.ECONNREFUSED: NOTHING_LISTENS,
    errno.ENOENT: NO_SOCKET,
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
    problem = _problem(address, secret)
    if problem is None:
        try:
            url = httpx.URL(address)
        except httpx.InvalidURL as error:
            problem = str(error)
        else:
            problem = _host_problem(url.raw_host.decode("ascii"))
    if problem is not None:
        # What may be a password or a key is not shown.
        shown = re.sub(r".*@|[?#].*", "…", address, flags=re.DOTALL)
        meant = f"http://{address}"
        hint = f" Did you mean {meant}?" if "//" not in address and _problem(meant, secret) is None else ""
        raise ConfigurationError(
            f"{setting}: {shown!r} is not the address of {server}: {problem}.{hint} Write scheme, host, and "
            "port or path if it has them, such as http://127.0.0.1:8000/v1."
        )
    path = url.raw_path.rstrip(b"/").removesuffix(b"/v1").rstrip(b"/")
    return url.copy_with(raw_path=path or b"/")


def _problem(address: str, secret: str) -> str | None:
    """Return what is wrong with the text of an address, some of which a parser would mend in silence."""
    if not address.isprintable() or set(address) & {" ", "\\"}:
        return "it has a space, a backslash or a character that cannot be printed"
    scheme, separator, rest = address.partition("://")
    authority, _, path = rest.partition("/")
    if not separator or scheme.lower() not in ("http", "https") or not authority:
        return "it does not begin with http:// or https:// and a host"
    if set(address) & {"?", "#"} or "@" in authority:
        return f"it has a user, a query or a fragment; {secret}"
    found = _AUTHORITY.fullmatch(authority)
    if found is None:
        return "its host or port cannot be read"
    if found[2] is not None and not 0 < int(found[2][1:]) < 2**16:
        return "its port is not between 1 and 65535"
    for part in path.removesuffix("/").split("/") if path else ():
        plain = unquote(part)
        if not plain.isprintable() or plain[-1:] in ("", ".") or set(plain) & {"/", "\\", "%", ";"}:
            return f"the part {part!r} of its path is empty, ends in a dot, or has a '%' or ';' in it"
    return None


def _host_problem(host: str) -> str | None:
    """Return what is wrong with a host in ASCII, which a resolver would refuse at each request."""
    labels = [host] if ":" in host else host.split(".")
    if not all(0 < len(label) <= _MAX_LABEL for label in labels) or len(host) > _MAX_HOST:
        return "its host has a dot too many, or is too long"
    return None


def why_unreachable(error: httpx.HTTPError, uds: Path | None = None) -> str:
    """Return a main clause that says why a request ended with ``error``; ``uds`` is the server's Unix socket.

    What stands in the clause for the server is "it" or "there".
    """
    if uds is not None and (problem := _socket_problem(uds)) is not None:
        return problem
    if isinstance(error, httpx.ConnectTimeout):
        return "it does not accept the connection"
    if isinstance(error, httpx.TimeoutException):
        return "it sends nothing any more"
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


def _socket_problem(path: Path) -> str | None:
    """Return what is wrong with a Unix socket that can be seen without connecting to it."""
    try:
        return None if stat.S_ISSOCK(path.stat().st_mode) else "it is no socket"
    except FileNotFoundError:
        return NO_SOCKET
    except OSError:
        return None  # connecting tells more


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
