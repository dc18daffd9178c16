"""RuntimeConfig: the settings of one runtime."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from agentrt.errors import ConfigurationError
from agentrt.settings import Settings, expanded_path

from .scheduler.policy import POLICIES, Policy


def _expanded(path: object) -> object:
    """Return ``path`` with its ``~`` expanded."""
    return expanded_path(path) if isinstance(path, (str, Path)) else path


_Path: TypeAlias = Annotated[Path, Field(strict=False), BeforeValidator(_expanded)]


class RuntimeConfig(Settings, strict=True):
    """Settings for :meth:`LocalRuntime.open`. Immutable; ``None`` leaves the choice to OpenVINO.

    Raises:
        ConfigurationError: a field is unknown or its value cannot work.
    """

    memory_bytes: int = Field(default=256 * 2**20, gt=0, lt=2**63)
    """Bytes of the KV arena. It is allocated once and never grows; weights are not included."""

    platform: Literal["auto", "cpu", "intel-ultra", "emulated"] = "auto"
    """Devices that run the model. ``intel-ultra`` prefills on the NPU and decodes on the GPU; ``auto`` is
    ``intel-ultra`` where both devices exist, and ``cpu`` elsewhere. ``emulated`` imitates it with two cores
    of a CPU, for tests."""

    threads: int | None = Field(default=None, ge=1)
    """CPU threads of one forward pass."""

    npu_decoding: bool = False
    """On a platform with an NPU (``intel-ultra``, ``emulated``) decode and verify drafts there, too, with a
    second graph of a shorter static shape that is loaded in place of the first during prefill (sd.npu §3.2).
    :attr:`drafts` are then also made from the logits of the prompt and from rejected drafts (§3.3, §3.4).
    Other platforms have no static shapes and ignore it. The graphs are kept in :attr:`profile_folder`."""

    inference_precision: Literal["f32", "bf16", "f16"] | None = None
    """Precision of the arithmetic. ``f32`` is the reference; OpenVINO prefers bf16 where the CPU has it. With
    weights as they are in a GGUF file the default is ``f32``."""

    kv_cache_precision: Literal["f32", "bf16", "f16", "u8"] | None = None
    """Precision of the stored keys and values. OpenVINO's own choice on CPU is ``u8``. With weights as they
    are in a GGUF file and arithmetic by default it is ``bf16`` on a CPU that has it without AMX, which
    attention then computes in, else ``f16``: in ``u8`` a key depends on which others were written with it."""

    dynamic_quantization_group_size: int | None = Field(default=None, ge=0)
    """Activations per int8 scale where weights are int8. 0 disables it; larger is faster, less accurate."""

    weight_format: Literal["auto", "file", "int8"] = "auto"
    """How the weights of a GGUF file are held and multiplied. ``file``: as they are in it, on a CPU, by code
    that is compiled on this machine once (:mod:`agentrt.runtime.model.native.library`); a token is then
    computed alike whatever is computed with it. ``int8``: by OpenVINO on any device, rounded to 8 bits in
    groups of 128. ``auto`` is ``file`` where that is possible, the platform has a CPU only, and
    :attr:`dynamic_quantization_group_size` is None."""

    max_batch_size: int = Field(default=16, ge=1, le=1024)
    """Maximum number of sequences in one batch. Further running sequences keep their KV blocks and wait."""

    prefill_chunk_tokens: int = Field(default=256, ge=1, le=8192)
    """Maximum number of prompt tokens in one batch (chunked prefill), rounded up to whole KV blocks. The
    model's profile may set fewer, to stay within :attr:`quantum_s`. Each batch has a fixed cost as well.

    At most 8192, 16 times the longest chunk that a profile measures: costs of longer chunks are extrapolated,
    and all lengths up to this one are compared when a model is opened."""

    policy: Literal[
        "agent-xpu", "fcfs", "fcfs-disaggregated", "preempt-restart", "time-share", "iteration-level"
    ] = "agent-xpu"
    """Scheduling policy. All but the default are baselines for comparison."""

    quantum_s: float = Field(default=0.025, gt=0, le=0.1)
    """Target for the longest kernel, in seconds: how long a proactive kernel may delay a reactive request.

    On a CPU, kernels of proactive prompts take up to four times as long while no request is reactive, eight
    times where the model is in one piece. A request that arrives interrupts them. A kernel is never less than
    a piece of the model with a block of tokens: on a CPU up to twice the quantum.
    """

    promote_after_s: float | None = Field(default=None, gt=0)
    """Age in seconds at which a proactive request is promoted, so that it does not starve; None for the
    policy's own value."""

    max_waiting_requests: int = Field(default=10_000, ge=1)
    """Maximum number of requests that wait for KV blocks; beyond it the least urgent one is refused."""

    profile_folder: _Path | None = None
    """Folder of the model profiles, and of graphs for :attr:`npu_decoding`, a path or a string; None for the
    user's cache folder."""

    tool_prompt: Literal["auto", "native"] = "auto"
    """How tools get into the prompt. ``auto`` describes them in the system message where the model's chat
    template takes no tools; ``native`` refuses tools there."""

    constrain_tool_calls: bool = True
    """Hold tool calls to the names and JSON schemas of the request's tools: from their opening tag on, if
    that is one token of the vocabulary, and in answers that begin like a call in JSON."""

    drafts: bool | None = None
    """Draft tokens from the request's own text, from what its app has generated before, and from the grammar
    that an answer is held to, and verify several in one forward pass where that is expected to save time.
    None drafts where that changes no token: with weights as they are in a GGUF file (:attr:`weight_format`),
    at precisions of None; and on an NPU that decodes (:attr:`npu_decoding`). In float32 without quantised
    activations the tokens are the same as well; otherwise a near tie of two tokens may be decided the other
    way."""

    history_folder: _Path | None = None
    """Folder in which the answers of each named app (``app=``) are kept, as token ids that only the user can
    read, so that :attr:`drafts` are made from them after a restart, too. At most 512 KiB per app and 64 apps
    per tokenizer. None keeps them in memory until the runtime is closed."""

    context_folder: _Path | None = None
    """Folder in which the contexts of each named app (``app=``) are kept: keys and values of what its
    requests have computed, in files that only the user can read. The next prompt that begins alike is loaded
    from there, also after a restart. Each model has a folder of its own in it, used by one runtime at a time.
    Hybrid models keep no keys and values there. None keeps them in the KV arena, until its memory is
    needed."""

    context_memory_bytes: int | None = Field(default=None, ge=0, lt=2**63)
    """Bytes of memory, beside the KV arena, for the contexts of named apps that the arena has no room for.
    None takes, where there is a :attr:`context_folder`, at most 1 GiB and an eighth of what is free, and
    gives it back when that is less. Hybrid models do not use it."""

    context_disk_bytes: int | None = Field(default=None, ge=0, lt=2**63)
    """Bytes of one model's contexts in :attr:`context_folder`: keys and values that were used longest ago are
    dropped first, texts never; where texts alone reach it, there are no new contexts. None is without
    limit."""

    context_app_bytes: int | None = Field(default=None, ge=0, lt=2**63)
    """The same for the contexts of one app of a model."""

    context_key: Literal["keyring"] | _Path | None = None
    """Encrypts :attr:`context_folder`: a file with the key, which is created with the folder, or ``keyring``
    for the keyring of the system. A folder is encrypted from its first context on, for all models, or not at
    all."""

    context_compression: float | None = Field(default=None, gt=0, le=1)
    """Bytes of stored contexts over those that they have at 8 bits a number, everything counted: LLMS's
    global ratio, 0.5 in the paper. Chunks that carry little information get fewer bits. When a model is first
    opened with it, the bits that it bears are measured; where it does not bear few enough, the bytes exceed
    the ratio. None stores contexts as they are in the KV arena."""

    context_tolerance: float = Field(default=0.005, gt=0, le=1)
    """Share by which :attr:`context_compression` may increase perplexity."""

    @model_validator(mode="after")
    def _settings_have_what_they_need(self) -> Self:
        if self.context_key is not None and self.context_folder is None:
            raise ValueError("context_key encrypts a context_folder. Set it, too, or leave it out.")
        if self.history_folder is not None and self.drafts is False:
            raise ValueError("history_folder keeps answers to draft from. Set drafts=True, or leave it out.")
        return self

    contexts_per_app: int = Field(default=256, ge=1, le=1_000_000)
    """Maximum number of contexts that an app may make (:class:`ContextService`). As many sessions and chains
    of stored responses are kept besides; the least recently used ones give way to new ones."""

    max_context_tokens: int | None = Field(default=None, ge=1)
    """Maximum number of tokens of one context, prompts and answers together; None for the model's own."""

    @property
    def cache_bytes(self) -> int:
        """Bytes of memory for keys and values: those of the arena, and those set aside beside it."""
        return self.memory_bytes + (self.context_memory_bytes or 0)

    def scheduling(self) -> Policy:
        """Return the scheduling policy of these settings."""
        chosen = replace(POLICIES[self.policy], max_waiting=self.max_waiting_requests)
        if self.promote_after_s is not None:
            chosen = replace(chosen, promote_after_s=self.promote_after_s)
        return chosen

    def device_properties(self, *, keeps_weights: bool = False) -> dict[str, Any]:
        """Return the OpenVINO properties of these settings.

        ``keeps_weights`` is that of the model's directory. With it the default is arithmetic in f32, keys and
        values in f16, and both in bf16 for attention on a CPU that has it without AMX: by that a token is
        computed alike whatever is computed with it.
        """
        precision, of_cache = self.inference_precision, self.kv_cache_precision
        if keeps_weights and precision is None:
            from .model.openvino_core import attends_alike_in_bf16

            precision, of_cache = "f32", of_cache or ("bf16" if attends_alike_in_bf16() else "f16")
        chosen = {
            "INFERENCE_NUM_THREADS": self.threads,
            "INFERENCE_PRECISION_HINT": precision,
            "KV_CACHE_PRECISION": of_cache,
            "DYNAMIC_QUANTIZATION_GROUP_SIZE": self.dynamic_quantization_group_size,
        }
        return {"PERFORMANCE_HINT": "LATENCY"} | {
            name: value for name, value in chosen.items() if value is not None
        }


def check_config(config: object) -> None:
    """Check that a caller has given a configuration.

    Raises:
        ConfigurationError: it is anything else.
    """
    if not isinstance(config, RuntimeConfig):
        raise ConfigurationError(
            f"{config!r} is not a configuration. Give a RuntimeConfig, such as "
            "RuntimeConfig(memory_bytes=256 * 2**20), or leave it out."
        )
