"""OpenTelemetry: conventions for generative AI, ``traceparent``, metrics, exporters of servers."""
