"""The span and the metrics of each generation, by the conventions for generative AI."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from agentrt import Priority
from agentrt.errors import InvalidRequestError
from agentrt.runtime import LocalRuntime, RawPrompt
from agentrt.runtime.engine.output.generation_span import GenerationSpan
from tests.recorded_telemetry import LATEST, Recorded, attributes, telemetry

__all__ = ["telemetry"]

SECRET = [{"role": "system", "content": "Answer."}, {"role": "user", "content": "The pass word is otter."}]
CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


def test_a_generation_is_a_span_with_its_parameters_and_its_usage(
    runtime: LocalRuntime, telemetry: Recorded
) -> None:
    generation = runtime.generate(
        SECRET, max_tokens=5, temperature=0.5, seed=3, stop="###", app="mail", priority=Priority.PROACTIVE
    )
    (span,) = telemetry.spans()
    described = attributes(span)
    times = {name: described.pop(name) for name in list(described) if name.endswith("_s")}
    assert (span.name, span.kind, span.status.status_code) == (
        "chat nano",
        SpanKind.INTERNAL,
        StatusCode.UNSET,
    )
    assert described == {
        "gen_ai.operation.name": "chat",
        "gen_ai.system": "agentrt",
        "gen_ai.request.model": "nano",
        "gen_ai.request.max_tokens": 5,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.seed": 3,
        "gen_ai.response.model": "nano",
        "gen_ai.response.id": generation.id,
        "gen_ai.response.finish_reasons": (generation.finish_reason,),
        "gen_ai.usage.input_tokens": generation.usage.prompt_tokens,
        "gen_ai.usage.output_tokens": generation.usage.completion_tokens,
        "agentrt.priority": "proactive",
        "agentrt.app": "mail",
        "agentrt.cached_tokens": generation.usage.cached_tokens,
        "agentrt.preemptions": 0,
        "agentrt.evictions": 0,
    }
    timing = generation.timing
    assert times == {
        "agentrt.queued_s": timing.queued_s,
        "agentrt.time_to_first_token_s": timing.time_to_first_token_s,
    }
    scope = span.instrumentation_scope
    assert (scope.name, scope.schema_url) == ("agentrt", "https://opentelemetry.io/schemas/1.36.0")


def test_the_opt_in_selects_the_latest_conventions(
    runtime: LocalRuntime, telemetry: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(*LATEST)
    events = list(runtime.iter_stream(SECRET, max_tokens=3))
    (span,) = telemetry.spans()
    described = attributes(span)
    assert described["gen_ai.provider.name"] == "agentrt"
    assert "gen_ai.system" not in described
    assert described["gen_ai.request.stream"] is True
    assert described["gen_ai.usage.cache_read.input_tokens"] >= 0
    assert described["gen_ai.response.time_to_first_chunk"] > 0
    assert events
    scope = span.instrumentation_scope
    assert scope.schema_url == "https://opentelemetry.io/schemas/1.41.1"


def test_parameters_have_the_types_of_the_conventions(
    runtime: LocalRuntime, telemetry: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(*LATEST)
    penalties = {"frequency_penalty": 1, "presence_penalty": 1}
    runtime.generate(SECRET, max_tokens=2, seed=1, temperature=1, top_p=1, top_k=5, **penalties)  # type: ignore[arg-type]
    (span,) = telemetry.spans()
    asked = {name: value for name, value in attributes(span).items() if name.startswith("gen_ai.request.")}
    assert {name: type(value) for name, value in asked.items()} == {
        "gen_ai.request.model": str,
        "gen_ai.request.max_tokens": int,
        "gen_ai.request.seed": int,
        **{
            f"gen_ai.request.{name}": float
            for name in ("temperature", "top_p", "top_k", "frequency_penalty", "presence_penalty")
        },
    }
    assert "gen_ai.response.time_to_first_chunk" not in attributes(span)


@pytest.mark.parametrize("value", [True, 10**400])
def test_parameters_that_no_attribute_holds_are_refused_by_the_request_alone(
    runtime: LocalRuntime, telemetry: Recorded, value: int
) -> None:
    with pytest.raises(InvalidRequestError):
        runtime.generate(SECRET, top_k=value, temperature=value)
    (span,) = telemetry.spans()
    assert not {"gen_ai.request.top_k", "gen_ai.request.temperature"} & {*attributes(span)}


async def start(runtime: LocalRuntime, **options: Any) -> None:
    _ = [event async for event in (await runtime.start(SECRET, **options)).events()]


async def stream(runtime: LocalRuntime, **options: Any) -> None:
    _ = [event async for event in runtime.stream(SECRET, **options)]


WAYS: dict[str, Callable[..., Any]] = {
    "generate": lambda runtime, **options: runtime.generate(SECRET, **options),
    "agenerate": lambda runtime, **options: asyncio.run(runtime.agenerate(SECRET, **options)),
    "iter_stream": lambda runtime, **options: list(runtime.iter_stream(SECRET, **options)),
    "stream": lambda runtime, **options: asyncio.run(stream(runtime, **options)),
    "start": lambda runtime, **options: asyncio.run(start(runtime, **options)),
}


@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_generate_makes_one_span(runtime: LocalRuntime, telemetry: Recorded, way: str) -> None:
    WAYS[way](runtime, max_tokens=2)
    (span,) = telemetry.spans()
    assert attributes(span)["gen_ai.usage.output_tokens"] == 2
    assert attributes(span)["gen_ai.response.finish_reasons"] == ("length",)


def test_a_raw_prompt_is_a_text_completion(runtime: LocalRuntime, telemetry: Recorded) -> None:
    runtime.generate(RawPrompt("Once"), max_tokens=1)
    (span,) = telemetry.spans()
    assert span.name == "text_completion nano"
    assert attributes(span)["gen_ai.operation.name"] == "text_completion"


@pytest.mark.parametrize("way", WAYS)
def test_a_refused_request_is_a_failed_span_without_the_error_s_text(
    runtime: LocalRuntime, telemetry: Recorded, way: str
) -> None:
    with pytest.raises(InvalidRequestError):
        WAYS[way](runtime, temperature=-1.0)
    (span,) = telemetry.spans()
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description is None
    assert span.events == ()
    assert attributes(span)["error.type"] == "InvalidRequestError"
    (point,) = telemetry.points()["gen_ai.server.request.duration"]
    assert point.attributes["error.type"] == "InvalidRequestError"


def test_an_answer_that_is_read_no_further_ends_its_span(runtime: LocalRuntime, telemetry: Recorded) -> None:
    events = runtime.iter_stream(SECRET, max_tokens=500)
    next(events)
    events.close()

    async def leave() -> None:
        stream = await runtime.start(SECRET, max_tokens=500)
        stream.cancel()

    asyncio.run(leave())
    for span in telemetry.spans():
        assert attributes(span)["gen_ai.response.finish_reasons"] == ("cancelled",)
        assert span.status.status_code is StatusCode.UNSET
    assert len(telemetry.spans()) == 2


@pytest.mark.parametrize("mode", [None, "true", "EVENT_ONLY", "NO_CONTENT", "SPAN_ONLY"])
@pytest.mark.parametrize("latest", [False, True])
def test_texts_are_recorded_only_for_those_who_opt_in(
    runtime: LocalRuntime,
    telemetry: Recorded,
    monkeypatch: pytest.MonkeyPatch,
    mode: str | None,
    latest: bool,
) -> None:
    if mode is not None:
        monkeypatch.setenv(CONTENT, mode)
    if latest:
        monkeypatch.setenv(*LATEST)
    generation = runtime.generate(SECRET, max_tokens=4, stop=["otter stops"])
    (span,) = telemetry.spans()
    if not (latest and mode == "SPAN_ONLY"):
        assert "otter" not in span.to_json()
        return
    described = attributes(span)
    assert described["gen_ai.request.stop_sequences"] == ("otter stops",)
    asked = json.loads(described["gen_ai.input.messages"])
    assert [message["role"] for message in asked] == ["system", "user"]
    assert asked[1]["parts"] == [{"type": "text", "content": "The pass word is otter."}]
    (answered,) = json.loads(described["gen_ai.output.messages"])
    assert answered["finish_reason"] == "length"
    assert answered["parts"] == [{"type": "text", "content": generation.text}]


def test_metrics_of_a_generation(runtime: LocalRuntime, telemetry: Recorded) -> None:
    generation = runtime.generate(SECRET, max_tokens=4, app="mail")
    points = telemetry.points()
    assert sorted(points) == [
        "gen_ai.client.operation.duration",
        "gen_ai.client.token.usage",
        "gen_ai.server.request.duration",
        "gen_ai.server.time_per_output_token",
        "gen_ai.server.time_to_first_token",
    ]
    used = {point.attributes["gen_ai.token.type"]: point.sum for point in points["gen_ai.client.token.usage"]}
    assert used == {"input": generation.usage.prompt_tokens, "output": 4}
    for each in points.values():
        for point in each:
            named = dict(point.attributes)
            named.pop("gen_ai.token.type", None)
            assert named == {
                "gen_ai.operation.name": "chat",
                "gen_ai.system": "agentrt",
                "gen_ai.request.model": "nano",
                "gen_ai.response.model": "nano",
            }
    (first,) = points["gen_ai.server.time_to_first_token"]
    assert first.sum == generation.timing.time_to_first_token_s
    assert first.explicit_bounds[:2] == (0.001, 0.005)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("latest", [False, True])
def test_chunks_of_a_stream_are_measured_by_the_latest_conventions(
    runtime: LocalRuntime, telemetry: Recorded, monkeypatch: pytest.MonkeyPatch, way: str, latest: bool
) -> None:
    if latest:
        monkeypatch.setenv(*LATEST)
    WAYS[way](runtime, max_tokens=40)
    points, measured = telemetry.points(), "gen_ai.client.operation.time_to_first_chunk"
    if not latest or way in ("generate", "agenerate"):
        assert measured not in points
        return
    (first,) = points[measured]
    (span,) = telemetry.spans()
    assert (first.count, first.sum) == (1, attributes(span)["gen_ai.response.time_to_first_chunk"])
    assert first.sum >= attributes(span)["agentrt.time_to_first_token_s"]
    assert first.explicit_bounds == tuple(0.01 * 2**power for power in range(14))
    assert first.attributes["gen_ai.response.model"] == "nano"
    (rest,) = points["gen_ai.client.operation.time_per_output_chunk"]
    assert 1 <= rest.count < 40
    assert rest.explicit_bounds == first.explicit_bounds
    (whole,) = points["gen_ai.client.operation.duration"]
    assert rest.sum < whole.sum


@pytest.mark.check
def test_without_opentelemetry_the_runtime_generates() -> None:
    program = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from agentrt.runtime import LocalRuntime\n"
        "with LocalRuntime.open('nano') as runtime:\n"
        "    print(runtime.generate([{'role': 'user', 'content': 'Hello!'}], max_tokens=2).finish_reason)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "length"


def test_an_iterator_that_is_never_begun_has_no_span(runtime: LocalRuntime, telemetry: Recorded) -> None:
    begun: list[str] = []
    begin = GenerationSpan.__init__

    def counted(self: GenerationSpan, model: str, *arguments: Any, **options: Any) -> None:
        begun.append(model)
        begin(self, model, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GenerationSpan, "__init__", counted)
        events = runtime.iter_stream(SECRET, max_tokens=2)
        events.close()
        assert begun == []
        list(runtime.iter_stream(SECRET, max_tokens=2))
        assert begun == ["nano"]
    assert len(telemetry.spans()) == 1
