"""Refines a profile by the kernels that run while a model serves.

A profile is measured in seconds, at few points, perhaps beside other programs. The engine times every kernel
it runs in any case: the median of the last ones corrects the points of the profile that they are nearest to.
"""

from __future__ import annotations

import logging
import statistics
from collections import defaultdict, deque
from collections.abc import Mapping
from typing import Final, TypeAlias, TypeVar

from .kernel import BatchShape, Kernel, KernelKind, Role, StaticGraph
from .profile import Curve, LayerCosts, Profile, StaticGroups, XPUProfile
from .store import ProfileStore

_LATEST: Final = 32
"""Kernels of a kind and size that are remembered."""
_ENOUGH: Final = 8
"""Kernels from which the median counts: one that waited for memory or the processor does not move it."""
_LARGEST_STEP: Final = 2.0
"""Factor by which one refinement changes a point at most."""
_NOISE: Final = 1.05
"""Factor within which a profile is right."""
_FIRST_REFINEMENT: Final = 64
"""Kernels until the profile is refined for the first time while the model serves; then after twice as many,
because less and less is left to refine."""

_log: Final = logging.getLogger(__name__)

_Costs = TypeVar("_Costs", LayerCosts, StaticGroups)
_Point: TypeAlias = tuple[Role, str, int]
"""A figure of a profile: the XPU, the name of the field, and the place in its curve."""


class ProfileRefiner:
    """The profile of a model that serves, and the latest kernels. It belongs to the engine thread."""

    def __init__(self, profile: Profile, store: ProfileStore) -> None:
        """Start with ``profile``, as ``store`` has it."""
        self.profile = profile
        self._store = store
        self._stored = profile
        self._observed, self._next = 0, _FIRST_REFINEMENT
        self._kernels: defaultdict[tuple[Role, KernelKind, int], deque[tuple[Kernel, BatchShape, float]]] = (
            defaultdict(lambda: deque(maxlen=_LATEST))
        )

    def observe(self, role: Role, kernel: Kernel, shape: BatchShape, seconds: float) -> None:
        """Note that ``kernel`` took ``seconds`` on the XPU of ``role`` while no other kernel ran."""
        self._kernels[role, kernel.kind, shape.tokens.bit_length()].append((kernel, shape, seconds))
        self._observed += 1

    def refine_if_due(self) -> Profile | None:
        """Refine :attr:`profile` if many kernels have run since the last time; None if it stays as it is."""
        if self._observed < self._next:
            return None
        self._next = 2 * self._observed
        return self.refine()

    def refine(self) -> Profile | None:
        """Refine :attr:`profile`; None if it is right, or too few kernels have run."""
        factors = self._factors()
        if all(1 / _NOISE <= factor <= _NOISE for factor in factors.values()):
            return None
        refined = self.profile.model_copy(
            update={
                "xpus": {
                    role: _refined_xpu(
                        xpu,
                        {(name, at): factor for (on, name, at), factor in factors.items() if on is role},
                        self.profile,
                    )
                    for role, xpu in self.profile.xpus.items()
                }
            }
        )
        self.profile = refined
        return refined

    def save(self) -> None:
        """Store :attr:`profile`, unless the store has one that was measured again meanwhile, or none."""
        if self.profile is self._stored:
            return
        try:
            self._store.replace(self._stored, self.profile)
        except OSError as error:
            _log.warning("the refined profile of a model could not be stored (%s)", error.strerror)
        self._stored = self.profile

    def _factors(self) -> dict[_Point, float]:
        """By how much each point of the profile is to be changed, where enough kernels tell."""
        factors: defaultdict[_Point, list[float]] = defaultdict(list)
        for (role, _, _), kernels in self._kernels.items():
            for kernel, shape, seconds in kernels:
                # Kernels of the other graph are not observed.
                parts = self.profile.seconds_by_figure(kernel, shape, role, StaticGraph.PREFILL)
                # Who takes most of the time takes the blame for the rest of it.
                figure = max(parts, key=parts.__getitem__)
                if parts[figure] > 0:
                    factor = 1 + (seconds - sum(parts.values())) / parts[figure]
                    factors[role, figure, _place(self.profile.xpus[role], figure, shape)].append(factor)
        return {
            point: min(max(statistics.median(found), 1 / _LARGEST_STEP), _LARGEST_STEP)
            for point, found in factors.items()
            if len(found) >= _ENOUGH
        }


def _place(xpu: XPUProfile, figure: str, shape: BatchShape) -> int:
    """Return the place nearest to ``shape`` in the curve of a figure; 0 if it is no curve."""
    if xpu.layers is not None and figure == "layer":
        return _nearest(xpu.layers.layer, shape.tokens)
    if xpu.layers is not None and figure == "head":
        return _nearest(xpu.layers.head, shape.logits_rows)
    return 0


def _nearest(curve: Curve, count: int) -> int:
    """Return the place of the measured count whose ratio to ``count`` is nearest to 1."""
    return min(range(len(curve.counts)), key=lambda at: _ratio(curve.counts[at], count))


def _ratio(one: int, other: int) -> float:
    """Return the larger of two counts in units of the smaller one."""
    return max(one / other, other / one)


def _refined_xpu(xpu: XPUProfile, factors: Mapping[tuple[str, int], float], profile: Profile) -> XPUProfile:
    """Return ``xpu`` with the figures that ``factors`` names changed by these factors."""
    groups = None if xpu.groups is None else _scaled(xpu.groups, factors)
    if xpu.layers is None:
        return xpu.model_copy(update={"groups": groups})
    layers = _scaled(xpu.layers, factors)
    seconds = zip(layers.layer.counts, layers.layer.seconds, strict=True)
    flops = max((count * profile.layer_flops / each for count, each in seconds if each > 0), default=0.0)
    return xpu.model_copy(update={"groups": groups, "layers": layers, "peak_flops": flops or xpu.peak_flops})


def _scaled(costs: _Costs, factors: Mapping[tuple[str, int], float]) -> _Costs:
    """Return ``costs`` with those of its figures changed that ``factors`` names."""
    changed: dict[str, float | Curve] = {}
    for name in {name for name, _ in factors} & type(costs).model_fields.keys():
        value, own = getattr(costs, name), {at: factor for (of, at), factor in factors.items() if of == name}
        changed[name] = _scaled_curve(value, own) if isinstance(value, Curve) else value * own[0]
    return costs.model_copy(update=changed)


def _scaled_curve(curve: Curve, factors: Mapping[int, float]) -> Curve:
    """Return ``curve`` with its points changed by ``factors``, by their places, and still ascending.

    Points that have no factor get the nearest one: a machine that is slower at one count than when it was
    profiled is slower at the next, and one point moved alone would make another count look efficient.
    """
    observed = {curve.counts[at]: factor for at, factor in factors.items()}
    seconds = [
        each * observed[min(observed, key=lambda other: _ratio(other, count))]
        for count, each in zip(curve.counts, curve.seconds, strict=True)
    ]
    for at in sorted(factors, reverse=True):  # noise only adds time: of two points the shorter one is right
        seconds[at] = min([seconds[at], *(seconds[other] for other in factors if other > at)])
    for at in range(len(seconds)):
        if at not in factors:
            above = [seconds[other] for other in factors if other > at]
            seconds[at] = min([max(seconds[max(at - 1, 0) : at + 1]), *above])
    return Curve(counts=curve.counts, seconds=tuple(seconds))
