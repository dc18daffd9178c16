"""The address of the engine behind a gateway."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

import httpx

from agentrt.errors import ConfigurationError

_AUTHORITY: Final = re.compile(r"(\[[^\[\]]+\]|[^\[\]:@%]+)(:[0-9]{1,5})?")
_MAX_LABEL: Final = 63
_MAX_HOST: Final = 253


def engine_root(upstream: str) -> httpx.URL:
    """Return the address under which the ``/v1`` of the engine at ``upstream`` lies.

    Raises:
        ConfigurationError: ``upstream`` is not the plain address of an HTTP server: a scheme, a host, and
            perhaps a port and a path.
    """
    problem = _problem(upstream)
    if problem is None:
        try:
            url = httpx.URL(upstream)
        except httpx.InvalidURL as error:
            problem = str(error)
        else:
            problem = _host_problem(url.raw_host.decode("ascii"))
    if problem is not None:
        # What may be a password or a key is not shown.
        shown = re.sub(r".*@|[?#].*", "…", upstream, flags=re.DOTALL)
        raise ConfigurationError(
            f"--upstream: {shown!r} is not the address of an engine: {problem}. Write scheme, host, and port "
            "or path if it has them, such as http://127.0.0.1:8000/v1."
        )
    path = url.raw_path.rstrip(b"/").removesuffix(b"/v1").rstrip(b"/")
    return url.copy_with(raw_path=path or b"/")


def _problem(upstream: str) -> str | None:
    """Return what is wrong with the text of an address, some of which a parser would mend in silence."""
    if not upstream.isprintable() or set(upstream) & {" ", "\\"}:
        return "it has a space, a backslash or a character that cannot be printed"
    scheme, separator, rest = upstream.partition("://")
    authority, _, path = rest.partition("/")
    if not separator or scheme.lower() not in ("http", "https") or not authority:
        return "it does not begin with http:// or https:// and a host"
    if set(upstream) & {"?", "#"} or "@" in authority:
        return "it has a user, a query or a fragment; the engine's key is given by --upstream-key-file"
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
