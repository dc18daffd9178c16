"""agentrt: speculative tool execution for the agents you have, and a local LLM runtime under them."""

from ._telemetry import keep_openvino_quiet

keep_openvino_quiet()
