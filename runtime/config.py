"""Everything about a runtime that is chosen when it is opened."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from agentrt.settings import Settings

from .scheduler.policy import POLICIES, Policy


class RuntimeConfig(Settings, strict=True):
    """How :meth:`LocalRuntime.open` sets up one model. Immutable; ``None`` leaves the choice to OpenVINO.

    Raises:
        ConfigurationError: a field is unknown or its value cannot work.
    """

    memory_bytes: int = Field(default=256 * 2**20, gt=0)
    """Size of the KV arena. It is allocated once and never exceeded; weights come on top."""

    platform: Literal["auto", "cpu", "intel-ultra", "emulated"] = "auto"
    """Where the model runs. ``intel-ultra`` prefills on the NPU and decodes on the GPU; ``auto`` takes it
    where both are there, and the CPU elsewhere. ``emulated`` plays it with two cores of a CPU, for tests."""

    threads: int | None = Field(default=None, ge=1)
    """CPU threads of one forward pass."""

    inference_precision: Literal["f32", "bf16", "f16"] | None = None
    """Precision of the arithmetic. ``f32`` is the reference; OpenVINO prefers bf16 where the CPU has it."""

    kv_cache_precision: Literal["f32", "bf16", "f16", "u8"] | None = None
    """Precision of the stored keys and values. OpenVINO's own choice on CPU is ``u8``."""

    dynamic_quantization_group_size: int | None = Field(default=None, ge=0)
    """Activations per int8 scale where weights are int8. 0 switches it off; larger is faster and coarser."""

    max_batch_size: int = Field(default=16, ge=1, le=1024)
    """Sequences in one forward pass. More may be alive; the rest keep their blocks and wait."""

    prefill_chunk_tokens: int = Field(default=1024, ge=1)
    """Most prompt tokens in one forward pass, rounded up to whole KV blocks. The model's profile may advise
    fewer, to stay within :attr:`quantum_s`. Each pass costs something beside its tokens."""

    policy: Literal["agent-xpu", "fcfs", "preempt-restart", "time-share", "iteration-level"] = "agent-xpu"
    """How requests are scheduled. All but the default are what it is compared with."""

    quantum_s: float = Field(default=0.025, gt=0, le=0.1)
    """Seconds that one kernel should take at most: a reactive request waits so long for a proactive one."""

    promote_after_s: float | None = Field(default=None, gt=0)
    """Seconds after which a proactive request gets its share of the machine in any case; None leaves it to
    the policy."""

    max_waiting_requests: int = Field(default=10_000, ge=1)
    """Requests that may wait for memory; beyond it the least urgent one is refused."""

    profile_folder: Path | None = None
    """Where profiles of models are kept; None is the user's cache folder."""

    constrain_tool_calls: bool = True
    """Hold tool calls to the names and JSON schemas of the request's tools. Has an effect for models whose
    call format has a shape and whose vocabulary has a token for its opening tag: see
    :class:`agentrt.calls.ToolCallFormat`. Of the built-in formats that is Hermes (Qwen)."""

    def scheduling(self) -> Policy:
        """The scheduling policy these settings stand for."""
        chosen = replace(POLICIES[self.policy], max_waiting=self.max_waiting_requests)
        if self.promote_after_s is not None:
            chosen = replace(chosen, promote_after_s=self.promote_after_s)
        return chosen

    def device_properties(self) -> dict[str, Any]:
        """The OpenVINO properties these settings stand for."""
        chosen = {
            "INFERENCE_NUM_THREADS": self.threads,
            "INFERENCE_PRECISION_HINT": self.inference_precision,
            "KV_CACHE_PRECISION": self.kv_cache_precision,
            "DYNAMIC_QUANTIZATION_GROUP_SIZE": self.dynamic_quantization_group_size,
        }
        return {"PERFORMANCE_HINT": "LATENCY"} | {
            name: value for name, value in chosen.items() if value is not None
        }
