"""What is known of a server, from the frames of its live page. Everything that grows has a limit."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

Frame: TypeAlias = Mapping[str, Any]

SPAN_S: Final = 10.0
"""The most seconds over which the use of XPUs is measured."""
_RATE_S: Final = 2.0
"""The least seconds over which tokens are counted, once so many are known."""
_ENDED: Final = 8
_TOOLS: Final = 50


@dataclass(frozen=True, slots=True)
class Use:
    """Shares of the time measured in which an XPU ran kernels, and kernels a second."""

    reactive: float
    proactive: float
    kernels_per_s: float


@dataclass(frozen=True, slots=True)
class Rate:
    """How much there was of something a second, in the last ``seconds``."""

    per_s: float
    seconds: float


class TopState:
    """Sums of the frames of one connection so far.

    Rates leave out the time before the first frame: nothing was recorded then.
    """

    def __init__(self) -> None:
        """Know nothing."""
        self.t = 0.0
        """Until when all is known, in seconds on the server's clock."""
        self.models: list[Frame] = []
        self.ended: list[Frame] = []
        """The requests that ended last, the newest first; of each app the newest, as on the page."""
        self.tools: Counter[str] = Counter()
        """Calls answered from the tool cache."""
        self.speculation: Frame | None = None
        self._number = -1
        self._since = 0.0
        self._kernels: defaultdict[str, deque[tuple[float, float, bool, int]]] = defaultdict(
            lambda: deque(maxlen=20_000)
        )
        self._tokens: deque[tuple[float, int]] = deque(maxlen=100)

    def apply(self, frame: Frame) -> None:
        """Add a frame."""
        follows = frame["n"] == self._number + 1
        self._number, self.t = frame["n"], frame["t"]
        if not follows:  # kernels of the frames between are not known
            self._since = self.t
            self._kernels.clear()
        self.models = frame["models"]
        for model in self.models:
            for xpu, start, seconds, _, reactive, kernels, *_ in model.get("kernels", ()) if follows else ():
                lane = self._kernels[f"{model['name']}: {model['xpus'][xpu]}"]
                lane.append((start, start + seconds, bool(reactive), kernels))
            self.ended = _newest_of_each_app([*reversed(model.get("ended", ())), *self.ended])
            for answer in model.get("answered", ()):
                for tool in answer["tools"]:
                    self.tools[tool if tool in self.tools or len(self.tools) < _TOOLS else "others"] += 1
        self.speculation = frame.get("speculation")
        self._note_tokens()

    def note_silence(self, seconds: float) -> None:
        """Note that ``seconds`` have passed since the first frame.

        A server that was idle in its newest frame has done nothing since: it sends a frame when something
        happens. Of any other one nothing more is known.
        """
        if not self.sum("running") and not self.sum("waiting"):
            self.t = max(self.t, self._since + seconds)
            self._note_tokens()

    def _note_tokens(self) -> None:
        self._tokens.append((self.t, self.count("sampled_tokens")))

    @property
    def known_s(self) -> float:
        """Seconds until the newest frame of which all is known."""
        return self.t - self._since

    def count(self, name: str) -> int:
        """Return a counter of all models together, since the server was started."""
        return sum(model["counts"][name] for model in self.models)

    def sum(self, name: str) -> int:
        """Return a present number of all models together."""
        return sum(model.get(name, 0) for model in self.models)

    @property
    def tokens(self) -> Rate | None:
        """Sampled tokens a second of late; None if too little is known."""
        until, now = self._tokens[-1] if self._tokens else (0.0, 0)
        older = [each for each in self._tokens if each[0] <= until - _RATE_S]
        since, before = older[-1] if older else self._tokens[0] if self._tokens else (0.0, 0)
        return Rate((now - before) / (until - since), until - since) if until > since else None

    def use(self) -> dict[str, Use]:
        """Return how much each XPU that ran kernels was used in the last :attr:`use_s` seconds."""
        found: dict[str, Use] = {}
        span_s = self.use_s
        if not span_s:
            return found
        for name, lane in self._kernels.items():
            while lane and lane[0][1] < self.t - span_s:
                lane.popleft()
            seconds = {True: 0.0, False: 0.0}
            for start, end, reactive, _ in lane:
                seconds[reactive] += end - max(start, self.t - span_s)
            kernels = sum(each[3] for each in lane)
            found[name] = Use(
                min(1.0, seconds[True] / span_s), min(1.0, seconds[False] / span_s), kernels / span_s
            )
        return found

    @property
    def use_s(self) -> float:
        """Seconds over which :meth:`use` measures."""
        return min(SPAN_S, self.known_s)


def _newest_of_each_app(ended: list[Frame]) -> list[Frame]:
    """Return at most ``_ENDED``, in order, so that no app leaves less to others than it has."""
    places: Counter[str] = Counter()
    ranked: list[tuple[int, int]] = []
    for age, row in enumerate(ended):
        app = row.get("app", "")
        ranked.append((places[app], age))
        places[app] += 1
    return [ended[age] for age in sorted(age for _, age in sorted(ranked)[:_ENDED])]
