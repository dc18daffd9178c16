"""The running ``agentrt serve`` of this user: the file by which other commands find it."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..own_files import OwnFileError, make_private_file, read_own_file
from .output import say

if TYPE_CHECKING:
    import httpx

_CONNECT_S: Final = 10.0
"""Seconds in which a server that is there can be reached."""


def server_file() -> Path:
    """Return the path of the file with the running ``agentrt serve`` of this user, which need not exist."""
    import platformdirs

    return platformdirs.user_state_path("agentrt") / "server.json"


def server_lock() -> Path:
    """Return the path of the lock that the server of :func:`server_file` holds as long as it runs."""
    return server_file().with_suffix(".lock")


@contextmanager
def found_by_chat() -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Yield a function that writes what other commands need of this server; it is deleted at the end.

    Of several servers of a user the first is found. A server that cannot be found serves all the same.
    """
    from agentrt.runtime.files.file_lock import file_lock

    file = server_file()
    new = file.with_name(f".{file.name}")

    def write(described: Mapping[str, Any]) -> None:
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            held.enter_context(file_lock(server_lock(), wait=False))
            held.callback(file.unlink, missing_ok=True)
            make_private_file(new)
            new.write_text(json.dumps(described), encoding="utf-8")
            new.replace(file)
        except BlockingIOError:
            say("agentrt chat uses the server that was started before this one")
        except OSError as error:
            say(f"agentrt chat does not find this server: {file} cannot be written ({error.strerror})")

    with ExitStack() as held:
        yield write


def running_server() -> Mapping[str, Any] | None:
    """Return what the running server has written; None if none runs.

    Raises:
        ValueError: it was written by another version.
    """
    from agentrt.runtime.files.file_lock import file_lock

    try:
        described = read_own_file(server_file())
        with file_lock(server_lock(), wait=False):
            return None  # the server was killed, and another program may have its port
    except BlockingIOError:
        pass
    except (OwnFileError, OSError):
        return None
    found: Mapping[str, Any] = json.loads(described)
    return found


def tokens_of(server: Mapping[str, Any]) -> dict[str, str | None]:
    """Return a token of each app of a server, in the server's order.

    Where none is needed, the only app is that of all requests of this user.

    Raises:
        LookupError, TypeError: the server is of another version.
        OwnFileError: its token file cannot be read.
    """
    from agentrt.runtime.serving.http.identity import LOCAL_APP, peer_app

    if server["token_file"]:
        lines = map(str.split, read_own_file(Path(server["token_file"])).splitlines())
        tokens: dict[str, str | None] = {}
        for words in lines:
            if len(words) == 2 and not words[0].startswith(("#", "@")):
                tokens.setdefault(*words)
        return tokens
    if server["token"]:
        return {"default": server["token"]}
    if server["address"].startswith("http"):
        return {LOCAL_APP: None}
    ours, theirs = socket.socketpair()
    with ours, theirs:
        return {peer_app(ours): None}


def client_of(server: Mapping[str, Any], token: str | None) -> httpx.Client:
    """Return a client of a server, at its port or its Unix socket. An answer may take any time."""
    import httpx

    at_port = server["address"].startswith("http")
    # Within a machine there is no TLS, whose certificates take long to read, and no proxy.
    return httpx.Client(
        base_url=server["address"] if at_port else "http://localhost",
        transport=httpx.HTTPTransport(verify=False, uds=None if at_port else server["address"]),
        headers={} if token is None else {"authorization": f"Bearer {token}"},
        timeout=httpx.Timeout(None, connect=_CONNECT_S),
        trust_env=False,
    )
