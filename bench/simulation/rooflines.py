"""Profiles of simulated machines, from their published peak figures (Agent.xpu §3.1, §5.3)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agentrt.errors import ConfigurationError
from agentrt.runtime.heg.kernel import Role
from agentrt.runtime.heg.profile import (
    Curve,
    DecodeGroups,
    GroupTimes,
    LayerCosts,
    Profile,
    StaticGroups,
    XPUProfile,
)

_MACHINES: Final = Path(__file__).with_name("machines")
_COUNTS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_BLOCK_TOKENS: Final = 32


@dataclass(frozen=True, slots=True)
class _ModelSizes:
    """Sizes that follow from a model's dimensions."""

    heads_width: int
    """Width of the queries of all heads."""
    projections: float
    """Share of a layer's weights that project to queries, keys and values."""
    layer_weights: int
    head_weights: int
    layer_bytes: int
    head_bytes: int
    past_bytes: int
    """Keys and values of one token in one layer."""
    activation_bytes: int
    """What the matmuls of one layer put out for one token."""

    @classmethod
    def of(cls, model: dict[str, Any]) -> _ModelSizes:
        """Compute the sizes for the ``[model]`` table of a machine's file."""
        hidden, kv_width = model["hidden"], model["key_value_heads"] * model["head_size"]
        heads_width = model["heads"] * model["head_size"]
        weights = hidden * (2 * heads_width + 2 * kv_width + 3 * model["intermediate"])
        widths = 2 * heads_width + 2 * kv_width + 2 * model["intermediate"] + 2 * hidden
        return cls(
            heads_width=heads_width,
            projections=hidden * (heads_width + 2 * kv_width) / weights,
            layer_weights=weights,
            head_weights=hidden * model["vocabulary"],
            layer_bytes=weights * model["weight_bytes"],
            head_bytes=hidden * model["vocabulary"] * model["weight_bytes"],
            past_bytes=2 * kv_width * model["activation_bytes"],
            activation_bytes=widths * model["activation_bytes"],
        )


@dataclass(frozen=True, slots=True)
class Contention:
    """How XPUs that share the memory slow each other down (Agent.xpu §3.1, Fig. 3)."""

    attainable: float = 1.0
    """Share of the machine's read bandwidth that all kernels together get at most."""
    interference: float = 0.0
    """A kernel that needs the share ``a`` of the bandwidth takes ``1 + interference * a * b`` times as long
    while the other XPUs' kernels need the share ``b``."""


def simulated_machines() -> list[str]:
    """Return the names of the machines that ship with the runtime."""
    return sorted(file.stem for file in _MACHINES.glob("*.toml"))


def simulated_profile(machine: str, *, npu_decoding: bool = False) -> Profile:
    """Return the profile of a machine that ships with the runtime, each kernel at its XPU's roofline.

    ``npu_decoding`` gives its NPU graphs for decoding.

    Raises:
        ConfigurationError: no such machine ships.
    """
    figures = _figures(machine)
    sizes = _ModelSizes.of(figures["model"])
    bandwidth = figures["read_bandwidth"]
    return Profile(
        fingerprint=f"simulated:{machine}",
        xpus={
            Role(role): _xpu_profile(Role(role), sizes, bandwidth, xpu, npu_decoding=npu_decoding)
            for role, xpu in figures["xpus"].items()
        },
        bandwidth=bandwidth,
        measured=False,
        block_tokens=_BLOCK_TOKENS,
        layers=figures["model"]["layers"],
        layer_bytes=sizes.layer_bytes,
        head_bytes=sizes.head_bytes,
        layer_flops=2 * sizes.layer_weights,
        head_flops=2 * sizes.head_weights,
        past_bytes=sizes.past_bytes,
        activation_bytes=sizes.activation_bytes,
    )


def simulated_contention(machine: str) -> Contention:
    """Return how the XPUs of a machine that ships with the runtime share its memory.

    Raises:
        ConfigurationError: no such machine ships.
    """
    return Contention(**_figures(machine).get("contention", {}))


def _figures(machine: str) -> dict[str, Any]:
    if machine not in simulated_machines():
        raise ConfigurationError(
            f"there is no simulated machine {machine!r}. Choose one of {', '.join(simulated_machines())}."
        )
    return tomllib.loads((_MACHINES / f"{machine}.toml").read_text(encoding="utf-8"))


def _xpu_profile(
    role: Role, sizes: _ModelSizes, bandwidth: float, xpu: dict[str, Any], *, npu_decoding: bool
) -> XPUProfile:
    """Return the profile of one XPU from its table in a machine's file."""
    flops = xpu["peak_flops"] * xpu["efficiency"]
    read = bandwidth * xpu["bandwidth_share"]
    dispatch_s = xpu["dispatch_s"]
    # A layer with nothing in the KV cache; what is in the cache costs read_s and pair_s.
    layer = _roofline(sizes.layer_weights, sizes.layer_bytes, flops, read)
    layers = LayerCosts(
        segment_s=dispatch_s,
        entry_s=0.0,
        layer=layer,
        head=_roofline(sizes.head_weights, sizes.head_bytes, flops, read),
        read_s=sizes.past_bytes / read,
        pair_s=4 * sizes.heads_width / flops,
        attention_s=dispatch_s,
    )
    groups = None
    if "static_tokens" in xpu:

        def times(layer_s: float, each_s: float) -> dict[str, float]:
            return {
                "first_s": each_s + sizes.projections * layer_s,
                "middle_s": each_s + layer_s,
                "last_s": each_s + (1 - sizes.projections) * layer_s,
            }

        decode = None
        if npu_decoding:
            load_s = sizes.layer_bytes / xpu["load_bandwidth"]
            decode = DecodeGroups(
                tokens=xpu["decode_tokens"],
                **times(layer.at(xpu["decode_tokens"], 0.0), dispatch_s),
                load=GroupTimes(**times(load_s, xpu["load_s"])),
            )
        tokens = xpu["static_tokens"]
        groups = StaticGroups(tokens=tokens, **times(layer.at(tokens, 0.0), dispatch_s), decode=decode)
    return XPUProfile(
        device=xpu["device"],
        layers=None if role is Role.PREFILL else layers,
        groups=groups,
        peak_flops=flops,
        peak_bandwidth=read,
        watts=xpu["watts"],
    )


def _roofline(weights: int, weight_bytes: int, flops: float, read: float) -> Curve:
    """Seconds of matmuls with ``weights`` by tokens: bound by arithmetic, or by reading the weights."""
    return Curve(
        counts=_COUNTS,
        seconds=tuple(max(count * 2 * weights / flops, weight_bytes / read) for count in _COUNTS),
    )
