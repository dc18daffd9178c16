from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from agentrt.errors import ConfigurationError
from agentrt.runtime.http.config import ListenConfig
from agentrt.runtime.http.identity import Tokens
from agentrt.runtime.http.listener import bind

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets")


def test_the_socket_of_an_ended_server_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "agentrt.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with bind(ListenConfig(uds=path)):
        assert path.is_socket()
    assert not path.exists()


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
