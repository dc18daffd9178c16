from __future__ import annotations

import os
import socket
import stat
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agentrt.errors import ConfigurationError
from agentrt.runtime.serving.http.config import ListenConfig
from agentrt.runtime.serving.http.listener import bind
from tests.patience import PATIENCE_S
from tests.runtime.serving.http.serving import TOKENS

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agentrt.sock"


def refused(reason: str, **settings: Any) -> None:
    with pytest.raises(ConfigurationError, match=reason), bind(ListenConfig(**settings)):
        pass


def answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE_S)
        return client.connect_ex(str(path)) == 0


def test_the_socket_of_an_ended_server_is_replaced(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with bind(ListenConfig(uds=path)):
        assert path.is_socket()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not path.exists()


def test_a_second_server_on_a_socket_is_refused_before_the_first_one_serves(path: Path) -> None:
    with bind(ListenConfig(uds=path)):  # as while its model is loading: nothing accepts yet
        assert answers(path)
        for _ in range(2):
            refused("another server listens", uds=path)
        assert answers(path)
    with bind(ListenConfig(uds=path)):
        assert answers(path)


def test_of_servers_that_start_together_one_listens(path: Path) -> None:
    together, ended = threading.Barrier(8), threading.Barrier(8)

    def start(_: int) -> bool:
        together.wait(30)
        try:
            with bind(ListenConfig(uds=path)):
                ended.wait(30)
                return True
        except ConfigurationError:
            ended.wait(30)
            return False

    def umask() -> int:
        os.umask(now := os.umask(0o022))
        return now

    before = umask()
    with ThreadPoolExecutor(8) as threads:
        for _ in range(10):
            assert sum(threads.map(start, range(8))) == 1
    assert umask() == before, "that of the process, which every thread shares"


def test_a_server_removes_no_socket_but_its_own(path: Path) -> None:
    with bind(ListenConfig(uds=path)):
        path.unlink()
        other = socket.socket(socket.AF_UNIX)
        other.bind(str(path))
        other.listen()
    with other:
        assert answers(path)
    path.unlink()
    with bind(ListenConfig(uds=path)):
        path.unlink()


def test_a_socket_of_another_program_that_accepts_nothing(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as busy, ExitStack() as clients:
        busy.bind(str(path))
        busy.listen(0)
        for _ in range(2):  # fill its backlog, so that a further connection would wait
            client = clients.enter_context(socket.socket(socket.AF_UNIX))
            client.setblocking(False)
            client.connect_ex(str(path))
        refused("another server listens", uds=path)
        assert path.exists()


def test_a_port_is_taken_from_the_first_moment() -> None:
    with bind(ListenConfig(port=0)) as first:
        port = first.getsockname()[1]
        refused("choose another --port", port=port)
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S):
            pass
    with bind(ListenConfig(port=port)):
        pass


def test_a_path_that_cannot_hold_a_socket(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused("exists and is not a socket", uds=tmp_path / "file")
    for name in ("nowhere/socket", "file/socket", "a\0b", "x" * 200):
        refused("cannot listen .* shorter path", uds=tmp_path / name)


@pytest.mark.parametrize("host", ["no such host", "x" * 300, "127.0.0.1.", "", "a..b"])
def test_a_host_that_is_no_address(host: str) -> None:
    refused("cannot listen", host=host, tokens=TOKENS)
