"""The image of `deploy/Dockerfile` as it was built by hand: its user, volume, health and end."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

IMAGE = os.environ.get("AGENTRT_TEST_IMAGE", "")

pytestmark = [
    pytest.mark.check,
    pytest.mark.slow,
    pytest.mark.skipif(not IMAGE, reason="AGENTRT_TEST_IMAGE names no image built from deploy/Dockerfile"),
    pytest.mark.needs("docker"),
]

ASK = """
import json, pathlib, urllib.request
lines = dict(line.split() for line in pathlib.Path("/data/tokens").read_text().splitlines() if line[0] != "#")
body = {"model": "nano", "messages": [{"role": "user", "content": "Hello!"}]}
request = urllib.request.Request(
    "http://127.0.0.1:8000/v1/chat/completions",
    json.dumps(body).encode(),
    {"authorization": "Bearer " + lines["default"], "content-type": "application/json"},
)
print(json.load(urllib.request.urlopen(request))["choices"][0]["finish_reason"])
"""


def docker(*arguments: str) -> str:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def state(container: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(docker("inspect", "--format", "{{json .State}}", container))
    return found


@pytest.fixture
def container() -> Iterator[str]:
    """The image's own command, without a network, privileges or a root folder that it can write."""
    sealed = ("--network=none", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--read-only")
    started = docker("run", "--detach", *sealed, "--tmpfs=/tmp", "--volume=/data", IMAGE)
    try:
        yield started
    finally:
        docker("rm", "--force", "--volumes", started)


def test_it_serves_as_a_user_without_privileges(container: str) -> None:
    deadline = time.monotonic() + 150
    while (health := state(container)["Health"]["Status"]) == "starting" and time.monotonic() < deadline:
        time.sleep(1)
    assert health == "healthy", docker("logs", container)

    assert docker("exec", container, "id", "--user") == "10001"
    assert docker("exec", container, "stat", "--format=%U %a", "/data", "/data/tokens").splitlines() == [
        "agentrt 700",
        "agentrt 600",
    ]
    assert docker("exec", container, "python", "-c", ASK) == "stop"

    docker("stop", "--time=40", container)
    assert state(container)["ExitCode"] == 0
