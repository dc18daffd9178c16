"""An agent as a process: LangGraph on nano, whose calls are drafted by the server at the given address."""

from __future__ import annotations

import sys
import threading
from typing import Any

from langchain.agents import create_agent
from langchain_core.tools import tool
from opentelemetry import metrics, trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from agentrt import SpeculationConfig, speculable
from agentrt.adapters.langchain import ChatAgentRT, report_of, speculate
from agentrt.speculators import EndpointSpeculator
from agentrt.testing import free_prediction

tracers = TracerProvider()
tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(tracers)
meters = MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())])
metrics.set_meter_provider(meters)
ran = threading.Event()


@speculable
@tool
def get_weather(city: str) -> dict[str, Any]:
    """Current weather in a city."""
    with trace.get_tracer("tool").start_as_current_span("fetch"):
        ran.set()
    return {"city": city, "temperature": 12, "sky": "rain"}


class Waiting(ChatAgentRT):
    """Answers once the drafted tool has run, so that what happens does not depend on the machine."""

    def _generate(self, messages: Any, *args: Any, **options: Any) -> Any:
        if messages[-1].type == "human":
            assert ran.wait(120)
        return super()._generate(messages, *args, **options)


predictor = EndpointSpeculator("nano", base_url=sys.argv[1], api_key="none", timeout=120)
with free_prediction():
    model = speculate(Waiting(model="nano", max_tokens=60), predictor, config=SpeculationConfig())
    agent = create_agent(model, [get_weather])
    with trace.get_tracer("agent").start_as_current_span("invoke_agent"):
        agent.invoke({"messages": [{"role": "user", "content": "What is the weather in Oslo?"}]})
print(report_of(model).total.model_dump_json(), flush=True)
tracers.shutdown()
meters.shutdown()
