"""The measurements behind the documentation, each kept as one report: what runs, on what, of which source."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SMALL: Final = "qwen2.5-coder-0.5b-q4_k_m.gguf"
LARGE: Final = "qwen2.5-coder-1.5b-q4_k_m.gguf"
TINY: Final = "smollm2-135m-q4_1.gguf"

_SHARED: Final = ("bench/common",)
_ENGINE: Final = (
    *("agentrt/calls", "agentrt/priority.py", "runtime/config.py", "runtime/drafting", "runtime/engine"),
    *("runtime/heg", "runtime/kv", "runtime/local", "runtime/model", "runtime/request", "runtime/scheduler"),
    *("runtime/structured_output", "runtime/toolcache", "runtime/xpu"),
)
_SERVER: Final = (
    *(*_ENGINE, "runtime/serving/http", "runtime/serving/tool_cache_route.py"),
    "runtime/pool/responses/common_request.py",
    *(f"runtime/serving/server/{name}.py" for name in ("answers", "chat", "metrics", "server_state")),
)
"""What a chat completion passes: no bench speaks another form, and ``app.py`` only names the routes."""
_CONTEXTS: Final = ("runtime/contexts", "runtime/files")
_CORE: Final = (
    *("agentrt/calls", "agentrt/concurrency", "agentrt/config.py", "agentrt/drafts.py"),
    *("agentrt/lookahead", "agentrt/perfmodel.py", "agentrt/reports", "agentrt/testing", "agentrt/tools"),
    *("agentrt/turns", "speculators"),
)
_SPECULATION: Final = (
    *(*_CORE, "adapters/langchain", "adapters/openai", "adapters/server_tools.py", "adapters/stainless"),
    "adapters/transparent_subclass.py",
)
_NANO: Final = ("runtime/nano",)
_ASSISTANT: Final = (
    *(*_SHARED, *_ENGINE, *_SPECULATION, *_NANO),
    *("bench/assistant", "examples/assistant", "examples/chat", "examples/personal_assistant.py"),
)


@dataclass(frozen=True, slots=True)
class Part:
    """One measurement, whose report is kept as ``NAME.json``."""

    name: str
    arguments: tuple[str, ...]
    """Of ``python -m``; the report is written where ``--json`` says."""
    rooms: tuple[str, ...]
    """Source whose change makes the report one of the past."""
    models: tuple[str, ...] = ()
    """Names of GGUF files, each behind the option before it in ``arguments``."""
    workloads: bool = False
    """Whether recorded workloads are used."""
    minutes: int = 10
    """On an idle machine of two cores. A part that takes four times as long is ended."""
    has_quick: bool = True
    shown: str = ""
    """The command that a reader types, where it is not that of ``arguments``."""

    def command(self, *, quick: bool = False) -> str:
        """Return the command line that a reader repeats it with."""
        line = self.shown or shlex.join(self.arguments)
        if not self.shown and self.arguments[0] != "agentrt":
            line = f"python -m {line}"
        return f"{line}{' --workloads DIR' if self.workloads else ''}{' --quick' if quick else ''}"

    def process(self, models: Path | None, workloads: Path | None, report: Path, *, quick: bool) -> list[str]:
        """Return the command line of the process that measures it and writes ``report``."""
        given = [str(models / each) if models and each in self.models else each for each in self.arguments]
        found = [sys.executable, "-m", *given, "--json", str(report)]
        if self.workloads and workloads:
            found += ["--workloads", str(workloads)]
        return [*found, "--quick"] if quick else found


def _bench(name: str, *options: str) -> tuple[str, ...]:
    return ("agentrt", "bench", name, *options)


PLAN: Final[Sequence[Part]] = (
    Part("frameworks", ("tests.adapters.frameworks_report",), (*_CORE, "adapters"), has_quick=False),
    Part(
        "speculation",
        _bench("speculation"),
        (*_SHARED, *_SPECULATION, "bench/speculation"),
        workloads=True,
        minutes=17,
    ),
    Part(
        "scheduler",
        _bench("scheduler"),
        (*_SHARED, *_ENGINE, "bench/scheduler", "bench/simulation"),
        workloads=True,
    ),
    Part(
        "engine_models",
        _bench("engine", "--model", SMALL),
        (*_SHARED, *_SERVER, "bench/engine", "bench/engines"),
        models=(SMALL,),
    ),
    Part(
        "engine_large",
        _bench("engine", "--model", LARGE),
        (*_SHARED, *_SERVER, "bench/engine", "bench/engines"),
        models=(LARGE,),
        minutes=18,
    ),
    Part(
        "scheduler_models",
        _bench("scheduler", "--model", SMALL),
        (*_SHARED, *_SERVER, "bench/scheduler", "bench/engines"),
        models=(SMALL,),
        minutes=12,
    ),
    Part(
        "context_traces",
        _bench("context", "--model", SMALL, "--part", "traces"),
        (*_SHARED, *_ENGINE, *_CONTEXTS, "bench/context"),
        models=(SMALL,),
        workloads=True,
        minutes=20,
    ),
    Part(
        "context_returns",
        _bench("context", "--part", "returns"),
        (*_SHARED, *_ENGINE, *_CONTEXTS, "bench/context"),
        workloads=True,
        minutes=3,
    ),
    Part(
        "context_restarts",
        _bench("context", "--model", LARGE, "--part", "restarts"),
        (*_SHARED, *_ENGINE, *_CONTEXTS, "bench/context", "bench/engines"),
        models=(LARGE,),
        workloads=True,
    ),
    Part(
        "context",
        _bench("context", "--model", SMALL, "--model", TINY, "--part", "storage", "--part", "compression"),
        (*_SHARED, *_ENGINE, *_CONTEXTS, "bench/context"),
        models=(SMALL, TINY),
        workloads=True,
    ),
    Part(
        "drafting",
        _bench("drafting", "--model", LARGE, "--draft", SMALL),
        (*_SHARED, *_ENGINE, "bench/drafting", "bench/engines"),
        models=(LARGE, SMALL),
        workloads=True,
        minutes=30,
    ),
    Part(
        "toolcache",
        _bench("toolcache"),
        (*_SHARED, *_SERVER, *_SPECULATION, *_NANO, "bench/toolcache"),
        workloads=True,
    ),
    Part(
        "toolcache_models",
        _bench("toolcache", "--model", LARGE),
        (*_SHARED, *_SERVER, *_SPECULATION, "bench/toolcache"),
        models=(LARGE,),
        workloads=True,
        minutes=20,
    ),
    Part(
        "speculation_models",
        _bench("speculation", "--model", SMALL, "--draft", "nano"),
        (*_SHARED, *_ENGINE, *_SPECULATION, *_NANO, "bench/speculation"),
        models=(SMALL,),
        workloads=True,
        minutes=25,
    ),
    Part(
        "speculation_samples",
        _bench("speculation", "--model", LARGE, "--draft", SMALL, "--part", "samples"),
        (*_SHARED, *_ENGINE, *_SPECULATION, "bench/speculation"),
        models=(LARGE, SMALL),
        workloads=True,
    ),
    Part(
        "models",
        _bench("models", "--model", SMALL, "--model", LARGE),
        (*_SHARED, *_ENGINE, "bench/models", "bench/engines"),
        models=(SMALL, LARGE),
        workloads=True,
        minutes=13,
    ),
    Part(
        "outside",
        _bench("outside", "--model", SMALL, "--agentperf", "python3.12"),
        (*_SHARED, *_SERVER, "bench/outside", "bench/engines", "bench/models"),
        models=(SMALL,),
        workloads=True,
        minutes=27,
    ),
    Part(
        "outside_large",
        _bench("outside", "--model", LARGE, "--agentperf", "python3.12"),
        (*_SHARED, *_SERVER, "bench/outside", "bench/engines", "bench/models"),
        models=(LARGE,),
        workloads=True,
        minutes=70,
    ),
    Part("assistant", _bench("assistant"), _ASSISTANT),
    Part("assistant_models", _bench("assistant", "--model", SMALL), _ASSISTANT, models=(SMALL,)),
    Part("assistant_large", _bench("assistant", "--model", LARGE), _ASSISTANT, models=(LARGE,)),
    Part(
        "gateway",
        _bench("gateway"),
        (*_SHARED, *_SERVER, *_NANO, "bench/engines", "bench/gateway", "runtime/serving/gateway"),
        minutes=3,
    ),
    Part(
        "page",
        _bench("page"),
        (*_SHARED, *_SERVER, *_NANO, "bench/engines", "bench/page", "runtime/serving/live"),
        minutes=4,
    ),
    Part(
        "wire",
        _bench("wire", "--model", SMALL),
        (*_SHARED, *_ENGINE, *_CONTEXTS, "bench/wire", "runtime/pool", "runtime/serving"),
        models=(SMALL,),
        minutes=15,
    ),
    Part(
        "attack",
        (
            *("pytest", "tests/attack", "--full", "--timeout=0", "--override-ini=faulthandler_timeout=0"),
            "--capture=no",
        ),
        (*_ENGINE, "tests/attack", "runtime/contexts", "runtime/serving"),
        minutes=40,
        has_quick=False,
        shown="make attack",
    ),
)
