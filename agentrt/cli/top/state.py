"""What is known of a server, from the frames of its live page. Everything that grows has a limit."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

Frame: TypeAlias = Mapping[str, Any]

SPAN_S: Final = 10.0
"""Seconds over which the use of XPUs is measured."""
_RATE_S: Final = 1.0
_ENDED: Final = 8
_TOOLS: Final = 50


@dataclass(frozen=True, slots=True)
class Use:
    """Shares of the last :data:`SPAN_S` seconds in which an XPU ran kernels, and kernels a second."""

    reactive: float
    proactive: float
    kernels_per_s: float


class TopState:
    """Sums of the frames so far."""

    def __init__(self) -> None:
        """Know nothing."""
        self.t = 0.0
        """Time of the newest frame, in seconds on the server's clock."""
        self.models: list[Frame] = []
        self.ended: deque[Frame] = deque(maxlen=_ENDED)
        """The requests that ended last, the newest first."""
        self.tools: Counter[str] = Counter()
        """Calls answered from the tool cache."""
        self.speculation: Frame | None = None
        self._kernels: defaultdict[str, deque[tuple[float, float, bool, int]]] = defaultdict(
            lambda: deque(maxlen=20_000)
        )
        self._tokens: deque[tuple[float, int]] = deque(maxlen=100)

    def apply(self, frame: Frame) -> None:
        """Add a frame."""
        if frame["t"] < self.t:
            self.__init__()  # type: ignore[misc]  # the server was started again
        self.t = frame["t"]
        self.models = frame["models"]
        for model in self.models:
            for xpu, start, seconds, _, reactive, kernels, *_ in model.get("kernels", ()):
                lane = self._kernels[f"{model['name']}: {model['xpus'][xpu]}"]
                lane.append((start, start + seconds, bool(reactive), kernels))
            self.ended.extendleft(model.get("ended", ()))
            for answer in model.get("answered", ()):
                for tool in answer["tools"]:
                    self.tools[tool if tool in self.tools or len(self.tools) < _TOOLS else "others"] += 1
        self.speculation = frame.get("speculation")
        self._tokens.append((self.t, self.count("sampled_tokens")))

    def count(self, name: str) -> int:
        """Return a counter of all models together."""
        return sum(model["counts"][name] for model in self.models)

    def sum(self, name: str) -> int:
        """Return a present number of all models together."""
        return sum(model.get(name, 0) for model in self.models)

    @property
    def tokens_per_s(self) -> float:
        """Sampled tokens in the last second."""
        recent = [each for each in self._tokens if each[0] >= self.t - _RATE_S - 0.5]
        (first, before), (last, now) = (recent or [(0.0, 0)])[0], (recent or [(0.0, 0)])[-1]
        return (now - before) / (last - first) if last > first else 0.0

    def use(self) -> dict[str, Use]:
        """Return how much each XPU was used."""
        found = {}
        for name, lane in self._kernels.items():
            while lane and lane[0][1] < self.t - SPAN_S:
                lane.popleft()
            seconds = {True: 0.0, False: 0.0}
            for start, end, reactive, _ in lane:
                seconds[reactive] += end - max(start, self.t - SPAN_S)
            kernels = sum(each[3] for each in lane)
            found[name] = Use(
                min(1.0, seconds[True] / SPAN_S), min(1.0, seconds[False] / SPAN_S), kernels / SPAN_S
            )
        return found
