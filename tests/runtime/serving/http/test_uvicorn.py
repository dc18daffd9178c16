"""What is used of uvicorn besides its documented interface, in the versions that pyproject.toml allows."""

from __future__ import annotations

import inspect
import re
import tomllib

import pytest
import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from tests.house.project import ROOT

OVERRIDDEN = {
    H11Protocol: (
        *("connection_made", "connection_lost", "data_received", "eof_received"),
        *("pause_writing", "resume_writing", "on_response_complete", "send_400_response", "shutdown"),
        "_unset_keepalive_if_required",
    ),
    uvicorn.Server: ("handle_exit", "startup", "shutdown"),
}
"""What our subclasses replace or call: without it uvicorn would go on by other ways, and past our limits."""

SET = {
    H11Protocol: ("app_state", "conn", "cycle", "flow", "logger", "loop", "scope", "transport"),
    RequestResponseCycle: ("disconnected", "message_event", "more_body", "response_complete"),
    FlowControl: ("read_paused", "write_paused"),
    ServerState: ("connections", "tasks"),
    uvicorn.Server: ("force_exit", "server_state", "servers", "should_exit"),
}
"""Attributes that our subclasses read or set."""


def test_the_version_has_an_upper_bound_and_is_within_it() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = extras["optional-dependencies"]["gateway"]
    bound = next(
        found for each in requirements if (found := re.fullmatch(r"uvicorn>=0\.\d+,<0\.(\d+)", each))
    )
    assert int(uvicorn.__version__.split(".")[1]) < int(bound[1])


@pytest.mark.parametrize(("kind", "names"), OVERRIDDEN.items())
def test_what_is_replaced_is_there(kind: type, names: tuple[str, ...]) -> None:
    assert [name for name in names if not inspect.isfunction(getattr(kind, name, None))] == []
    assert list(inspect.signature(H11Protocol).parameters)[:3] == ["config", "server_state", "app_state"]


@pytest.mark.parametrize(("kind", "names"), SET.items())
def test_what_is_read_is_set(kind: type, names: tuple[str, ...]) -> None:
    source = inspect.getsource(kind)
    assert [name for name in names if not re.search(rf"\bself\.{name}\b", source)] == []
