"""What the OTEL_* variables export, and values that cannot be used: one line, and no end of an agent."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from agentrt.errors import ConfigurationError
from agentrt.otel import exporting as exporting_module
from agentrt.otel.exporting import _named, exporting


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER"):
        monkeypatch.delenv(name, raising=False)
    for kind in ("", "TRACES_", "METRICS_"):
        for what in ("ENDPOINT", "PROTOCOL"):
            monkeypatch.delenv(f"OTEL_EXPORTER_OTLP_{kind}{what}", raising=False)


@pytest.mark.parametrize(
    ("variables", "traces", "metrics"),
    [
        ({}, (), ()),
        ({"OTEL_SERVICE_NAME": "mine", "OTEL_TRACES_SAMPLER": "always_on"}, (), ()),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}, ("otlp",), ("otlp",)),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}, ("otlp",), ()),
        ({"OTEL_TRACES_EXPORTER": "otlp, console"}, ("otlp", "console"), ()),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, (), ("otlp",)),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, (), ()),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, (), ()),
    ],
)
def test_only_an_exporter_that_the_user_names_is_used(
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    traces: tuple[str, ...],
    metrics: tuple[str, ...],
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert (_named("traces"), _named("metrics")) == (traces, metrics)


def test_without_one_nothing_is_imported() -> None:
    program = (
        "import sys\n"
        "from agentrt.otel.exporting import exporting\n"
        "with exporting('x') as signals:\n"
        "    print(signals, any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "() False"


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("OTEL_TRACES_EXPORTER", "carrier_pigeon", "'carrier_pigeon'.*use otlp or console"),
        ("OTEL_TRACES_EXPORTER", "zipkin", "Install the package that has it, or use otlp or console"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "smoke", "'smoke'.*http/protobuf"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "opentelemetry-sdk opentelemetry-exporter-otlp-proto-grpc"),
    ],
)
def test_a_variable_that_cannot_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, says: str
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=says), exporting("x"):
        pass


def test_a_process_that_exports_already_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    monkeypatch.setattr(trace, "get_tracer_provider", TracerProvider)
    with exporting("x") as signals:
        assert signals == ()


def run_exporting(program: str) -> str:
    """Return what a process prints that exports its traces to the console."""
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={"OTEL_TRACES_EXPORTER": "console", "PATH": "", "PYTHONPATH": ":".join(sys.path)},
    ).stdout


def test_spans_of_a_process_are_exported_and_flushed() -> None:
    program = (
        "from agentrt.otel import api\n"
        "from agentrt.otel.exporting import exporting\n"
        "with exporting('fallback') as signals:\n"
        "    api.tracer().start_span('one').end()\n"
        "print(signals)"
    )
    printed = run_exporting(program)
    assert '"name": "one"' in printed
    assert '"service.name": "fallback"' in printed
    assert printed.strip().endswith("('traces',)")


@pytest.mark.check
def test_an_exporter_that_never_ends_does_not_hold_the_process() -> None:
    program = (
        "import threading\n"
        "import agentrt.otel.exporting as exporting\n"
        "from agentrt.otel import api\n"
        "class Stuck:\n"
        "    def export(self, spans): threading.Event().wait()\n"
        "    def shutdown(self): threading.Event().wait()\n"
        "exporting._find = lambda signal, name: Stuck\n"
        "with exporting.exporting('x'):\n"
        "    for _ in range(10_000):\n"
        "        api.tracer().start_span('one').end()\n"
        "print('ended')"
    )
    assert run_exporting(program).strip() == "ended"


def test_traces_and_metrics_are_flushed_in_one_time(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    join = threading.Thread.join

    def noting(thread: threading.Thread, timeout: float | None = None) -> None:
        if timeout is None:
            join(thread)
        else:
            waited.append(timeout)

    never = threading.Event()
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    monkeypatch.setattr(exporting_module, "_find", lambda signal, name: None)
    monkeypatch.setattr(exporting_module, "_start", lambda service, **_: [never.wait, never.wait])
    monkeypatch.setattr(threading.Thread, "join", noting)
    with exporting("x"):
        pass
    never.set()
    assert waited == [2.0]


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
