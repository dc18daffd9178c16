"""What the OTEL_* variables export, before anything is sent."""

from __future__ import annotations

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
