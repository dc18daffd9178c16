from __future__ import annotations

import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from agentrt.errors import ConfigurationError
from agentrt.runtime.serving.http.config import ListenConfig
from agentrt.runtime.serving.http.identity import Tokens
from agentrt.runtime.serving.http.listener import bind
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets")


def test_the_socket_of_an_ended_server_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "agentrt.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with bind(ListenConfig(uds=path)):
        assert path.is_socket()
    assert not path.exists()


def answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE_S)
        return client.connect_ex(str(path)) == 0


def test_a_second_server_on_a_socket_is_refused_before_the_first_one_serves(tmp_path: Path) -> None:
    config = ListenConfig(uds=tmp_path / "agentrt.sock")
    with bind(config):  # as while its model is loading: nothing accepts yet
        assert answers(tmp_path / "agentrt.sock")
        for _ in range(2):
            with pytest.raises(ConfigurationError, match="another server listens"), bind(config):
                pass
        assert answers(tmp_path / "agentrt.sock")
    with bind(config):
        assert answers(tmp_path / "agentrt.sock")
    assert not (tmp_path / "agentrt.sock").exists()


def test_of_servers_that_start_together_one_listens(tmp_path: Path) -> None:
    config = ListenConfig(uds=tmp_path / "agentrt.sock")
    together, ended = threading.Barrier(8), threading.Barrier(8)

    def start(_: int) -> bool:
        together.wait(30)
        try:
            with bind(config):
                ended.wait(30)
                return True
        except ConfigurationError:
            ended.wait(30)
            return False

    for _ in range(10):
        with ThreadPoolExecutor(8) as threads:
            assert sum(threads.map(start, range(8))) == 1


def test_a_server_removes_no_socket_but_its_own(tmp_path: Path) -> None:
    path = tmp_path / "agentrt.sock"
    with bind(ListenConfig(uds=path)):
        path.unlink()
        other = socket.socket(socket.AF_UNIX)
        other.bind(str(path))
        other.listen()
    with other:
        assert answers(path)
    with bind(ListenConfig(uds=tmp_path / "gone")):
        (tmp_path / "gone").unlink()


def test_a_socket_of_another_program_that_accepts_nothing(tmp_path: Path) -> None:
    path = tmp_path / "agentrt.sock"
    with socket.socket(socket.AF_UNIX) as busy, ExitStack() as clients:
        busy.bind(str(path))
        busy.listen(0)
        for _ in range(2):  # fill its backlog, so that a further connection would wait
            client = clients.enter_context(socket.socket(socket.AF_UNIX))
            client.setblocking(False)
            client.connect_ex(str(path))
        with pytest.raises(ConfigurationError, match="another server listens"), bind(ListenConfig(uds=path)):
            pass
        assert path.exists()


def test_a_port_is_taken_from_the_first_moment() -> None:
    with bind(ListenConfig(port=0)) as first:
        port = first.getsockname()[1]
        with pytest.raises(ConfigurationError, match="choose another --port"), bind(ListenConfig(port=port)):
            pass
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S):
            pass
    with bind(ListenConfig(port=port)):
        pass


def test_a_path_that_is_too_long_for_a_socket(tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigurationError, match="shorter path"),
        bind(ListenConfig(uds=tmp_path / ("x" * 200))),
    ):
        pass


def test_a_path_that_cannot_hold_a_socket(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "nowhere" / "socket", tmp_path / "file" / "socket", tmp_path / "a\0b"):
        with pytest.raises(ConfigurationError, match="cannot listen"), bind(ListenConfig(uds=path)):
            pass


@pytest.mark.parametrize("host", ["no such host", "x" * 300, "127.0.0.1.", "", "a..b"])
def test_a_host_that_is_no_address(host: str) -> None:
    config = ListenConfig(host=host, tokens=Tokens([("app", "t" * 20)]))
    with pytest.raises(ConfigurationError, match="cannot listen"), bind(config):
        pass
