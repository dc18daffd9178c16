"""Profiles of simulated machines, from their published peak figures (Agent.xpu §3.1, §5.3)."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Final

from agentrt.errors import ConfigurationError

from ..heg.kernel import Role
from ..heg.profile import Curve, LayerCosts, Profile, StaticGroups, XPUProfile

_MACHINES: Final = Path(__file__).with_name("machines")
_COUNTS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_BLOCK_TOKENS: Final = 32


def simulated_machines() -> list[str]:
    """Return the names of the machines that ship with the runtime."""
    return sorted(file.stem for file in _MACHINES.glob("*.toml"))


def simulated_profile(machine: str) -> Profile:
    """Return the profile of a machine that ships with the runtime, each kernel at its XPU's roofline.

    Raises:
        ConfigurationError: no such machine ships.
    """
    if machine not in simulated_machines():
        raise ConfigurationError(
            f"there is no simulated machine {machine!r}. Choose one of {', '.join(simulated_machines())}."
        )
    figures = tomllib.loads((_MACHINES / f"{machine}.toml").read_text(encoding="utf-8"))
    model = figures["model"]
    hidden, kv_width = model["hidden"], model["key_value_heads"] * model["head_size"]
    heads_width = model["heads"] * model["head_size"]
    weights = hidden * (2 * heads_width + 2 * kv_width + 3 * model["intermediate"])
    bandwidth = figures["read_bandwidth"]
    layer_bytes = weights * model["weight_bytes"]
    head_bytes = hidden * model["vocabulary"] * model["weight_bytes"]
    past_bytes = 2 * kv_width * model["activation_bytes"]
    widths = 2 * heads_width + 2 * kv_width + 2 * model["intermediate"] + 2 * hidden

    def xpu(role: Role, given: dict[str, Any]) -> XPUProfile:
        flops = given["peak_flops"] * given["efficiency"]
        read = bandwidth * given["bandwidth_share"]
        # A layer with nothing in the KV cache; what is in the cache costs read_s and pair_s.
        layer = Curve(
            counts=_COUNTS,
            seconds=tuple(max(count * 2 * weights / flops, layer_bytes / read) for count in _COUNTS),
        )
        groups = None
        if "static_tokens" in given:
            tokens = given["static_tokens"]
            middle = given["dispatch_s"] + layer.at(tokens, 0.0)
            projections = hidden * (heads_width + 2 * kv_width) / weights
            groups = StaticGroups(
                tokens=tokens,
                first_s=given["dispatch_s"] + projections * layer.at(tokens, 0.0),
                middle_s=middle,
                last_s=given["dispatch_s"] + (1 - projections) * layer.at(tokens, 0.0),
            )
        return XPUProfile(
            device=given["device"],
            layers=None
            if role is Role.PREFILL
            else LayerCosts(
                segment_s=given["dispatch_s"],
                entry_s=0.0,
                layer=layer,
                head=Curve(
                    counts=_COUNTS,
                    seconds=tuple(
                        max(count * 2 * head_bytes / model["weight_bytes"] / flops, head_bytes / read)
                        for count in _COUNTS
                    ),
                ),
                read_s=past_bytes / read,
                pair_s=4 * heads_width / flops,
                attention_s=given["dispatch_s"],
            ),
            groups=groups,
            peak_flops=flops,
            peak_bandwidth=read,
            watts=given["watts"],
        )

    return Profile(
        fingerprint=f"simulated:{machine}",
        xpus={Role(role): xpu(Role(role), given) for role, given in figures["xpus"].items()},
        bandwidth=bandwidth,
        measured=False,
        power_measured=False,
        block_tokens=_BLOCK_TOKENS,
        layers=model["layers"],
        layer_bytes=layer_bytes,
        head_bytes=head_bytes,
        layer_flops=2 * weights,
        head_flops=2 * hidden * model["vocabulary"],
        past_bytes=past_bytes,
        activation_bytes=widths * model["activation_bytes"],
    )
