"""Costs that are the same on every machine, however busy it is, in place of those that the runtime measures.

By these the runtime decides how a model is cut, how long chunks are, which drafts are worth their time, and
whether a stored chunk is loaded or computed (LLMS, Eq. 4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

import pytest

from agentrt.runtime.engine.cost_refinement import CostRefinement
from agentrt.runtime.heg.kernel import KernelKind
from agentrt.runtime.kv.swap.chunk_loader import ChunkLoader
from agentrt.runtime.kv.swap.costs import LinearCost
from agentrt.runtime.xpu import loading, profiler
from agentrt.runtime.xpu.compiled import CompiledKernels
from agentrt.runtime.xpu.kernel_bench import KernelBench

_PIECE_S: Final = 1e-4
_TOKEN_S: Final = 1e-6
_ROW_S: Final = 1e-6
_PAST_S: Final = 1e-9
_LOAD_S: Final = 1e-4
_BANDWIDTH: Final = 2e10

_Attribute: TypeAlias = tuple[Any, str, Any]
"""An object, the name of an attribute of it, and a value."""


def _run(
    bench: KernelBench,
    tokens: int,
    sequences: int = 1,
    *,
    rows: int = 0,
    past: int = 0,
    kind: KernelKind = KernelKind.LAYERS,
    pieces: Sequence[int] | None = None,
) -> list[float]:
    """Return seconds that a further token hardly adds to: a draft is worth its time, as on a large model."""
    bench.spreads.append(0.0)
    count = bench._counts[kind] if pieces is None else len(pieces)
    seconds = _PIECE_S + tokens * (_TOKEN_S + past * _PAST_S)
    return [seconds] * (count - 1) + [seconds + rows * _ROW_S]


def _measure_loads(kernels: CompiledKernels) -> list[float]:
    return [_LOAD_S] * kernels.count(KernelKind.TOKENS)


_FIXED: Final[tuple[_Attribute, ...]] = (
    (KernelBench, "run", _run),
    (KernelBench, "reshape_s", lambda *_, **__: 0.0),
    (profiler, "measure_loads", _measure_loads),
    (loading, "measure_read_bandwidth", lambda: _BANDWIDTH),
    # Profiles that other processes of the tests have measured, or refined, are those of another machine.
    (loading, "usable_cores", lambda: 0),
    # A kernel that is not observed refines no profile.
    (CostRefinement, "_ran_as_estimated", lambda *_: False),
    (ChunkLoader, "io_cost", lambda _: LinearCost(0.0, 0.0)),  # what is stored is loaded
)
_MEASURED: Final = tuple((owner, name, getattr(owner, name)) for owner, name, _ in _FIXED)


def fix_costs(patch: pytest.MonkeyPatch) -> None:
    """Give every kernel and every read a fixed cost."""
    _set(patch, _FIXED)


def measure_costs(patch: pytest.MonkeyPatch) -> None:
    """Measure costs as the runtime does, inside what :func:`fix_costs` has patched."""
    _set(patch, _MEASURED)


def make_with_fixed_costs(make: Callable[..., object], *arguments: object) -> object:
    """Return ``make(*arguments)`` in a process of its own, whose costs are fixed from now on."""
    fix_costs(pytest.MonkeyPatch())
    return make(*arguments)


def _set(patch: pytest.MonkeyPatch, attributes: Iterable[_Attribute]) -> None:
    for owner, name, value in attributes:
        patch.setattr(owner, name, value)
