"""Values of ``OTEL_*`` variables that cannot be used: one line of a server, and no end of an agent."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def environment(**variables: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")} | variables


@pytest.mark.check
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "exporter"),
    [
        ("OTEL_PROPAGATORS", "none"),
        ("OTEL_PROPAGATORS", "console"),
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "console"),
    ],
)
@pytest.mark.parametrize("command", [("serve",), ("gateway", "--upstream", "http://127.0.0.1:9")])
def test_a_server_says_it_in_one_line(name: str, exporter: str, command: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "agentrt", *command, "--port", "0", "--no-auth"],
        env=environment(**{name: "carrier_pigeon", "OTEL_TRACES_EXPORTER": exporter}),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode != 0
    (line,) = done.stderr.splitlines()
    assert name in line


@pytest.mark.parametrize(
    ("name", "says"),
    [("OTEL_PROPAGATORS", "OTEL_PROPAGATORS"), ("OTEL_PYTHON_TRACER_PROVIDER", "nothing is traced")],
)
def test_an_agent_goes_on_after_one_warning(name: str, says: str) -> None:
    program = (
        "import logging; logging.basicConfig(format='%(name)s: %(message)s')\n"
        "from agentrt.otel.propagation import served, trace_headers\n"
        "from agentrt.reports.tracing import tracing_observer\n"
        "for _ in range(3):\n"
        "    trace_headers(); tracing_observer()\n"
        "    with served({'traceparent': '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'}):\n"
        "        print(len(trace_headers()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(**{name: "carrier_pigeon"}),
        capture_output=True,
        text=True,
        check=True,
    )
    own = [line for line in done.stderr.splitlines() if line.startswith("agentrt.")]
    assert len(own) == 1, done.stderr
    assert says in own[0]
    assert done.stdout.split() == (["1"] if name == "OTEL_PROPAGATORS" else ["0"]) * 3
