import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys

network = []
sys.addaudithook(
    lambda event, arguments: network.append((event, arguments))
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "urllib.Request", "os.fork")
    else None
)

import agentrt
import openvino
import openvino_genai
from openvino.tools.ovc import convert_model

assert sys.modules["openvino_telemetry"] is None
assert network == [], network
"""


def test_openvino_reports_nothing_and_leaves_nothing_at_home(tmp_path: Path) -> None:
    pytest.importorskip("openvino_genai")
    environment = {
        key: value for key, value in os.environ.items() if key not in ("CI", "TF_BUILD", "JENKINS_URL")
    }
    environment |= {"HOME": str(tmp_path), "LOCALAPPDATA": str(tmp_path)}

    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_reporter_that_the_program_loaded_itself_is_left_alone() -> None:
    script = """
import sys, types
own = sys.modules["openvino_telemetry"] = types.ModuleType("openvino_telemetry")
import agentrt
assert sys.modules["openvino_telemetry"] is own
"""
    subprocess.run([sys.executable, "-c", script], check=True)
