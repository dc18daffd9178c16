"""Which part may import which, and when: the dependency rule of docs/decisions/0003."""

import importlib
import sys
import textwrap
from collections.abc import Collection
from pathlib import Path
from types import ModuleType

import pytest

from tests.house.project import PARTS as FOLDERS
from tests.house.project import ROOT, Import, imports, modules, python, within
from tests.house.project import TRAINING as TRAINING_FOLDERS

# A part within another stands before it.
PARTS = (
    "adapters",
    "speculators",
    "runtime",
    "examples",
    "cli",
    "bench.context",
    "bench.simulation",
    "bench",
)

# What the runtime may know of the client half.
SHARED = (
    "agentrt.calls",
    "agentrt.concurrency",
    "agentrt.errors",
    "agentrt.extras",
    "agentrt.finite",
    "agentrt.otel",
    "agentrt.own_files",
    "agentrt.priority",
    "agentrt.private_database",
    "agentrt.settings",
)

# Part -> (parts it may import at any time, parts it may import inside a function or for types only).
MAY_IMPORT: dict[str, tuple[set[str], set[str]]] = {
    "core": ({"core"}, set()),
    "adapters": ({"core", "adapters"}, {"runtime"}),
    "speculators": ({"core", "speculators"}, set()),
    "runtime": ({"runtime"}, set()),
    "bench": ({"core", "bench"}, {"bench.simulation", "adapters", "speculators", "runtime", "examples"}),
    # Measures nothing but the runtime, of which its baselines are variants.
    "bench.context": ({"core", "bench", "bench.context", "runtime"}, set()),
    # Runs the runtime's own scheduler on devices of a virtual clock.
    "bench.simulation": ({"core", "bench.simulation", "runtime"}, set()),
    "cli": ({"core", "cli"}, {"bench", "bench.simulation", "adapters", "speculators", "runtime", "examples"}),
    "examples": ({"core", "adapters", "speculators", "runtime", "examples"}, {"bench"}),
    "training": ({"core", "runtime"}, set()),
}

# The public modules on which adapters stand, of which they use the public names: a stranger has no others.
ADAPTERS_STAND_ON = {
    "agentrt",
    "agentrt.adapting",
    "agentrt.argument_checks",
    "agentrt.calls",
    "agentrt.config",
    "agentrt.dialects",
    "agentrt.drafts",
    "agentrt.errors",
    "agentrt.reports",
    "agentrt.runtime",  # of ChatAgentRT
    "agentrt.settings",
    "agentrt.toolcache",
}

# The packages that `pip install agentrt` brings.
CORE_DEPENDENCIES = {"anyio", "pydantic", "pydantic_core", "typing_extensions"}

# Only the recipe that trains the nano model may know these, and its command inside a function.
TRAINING = {"tokenizers", "torch"}


def part_of(name: str) -> str:
    if name == "agentrt.__main__":
        return "cli"
    if within(name, "training"):
        return "training"
    return next((part for part in PARTS if within(name, f"agentrt.{part}")), "core")


def offence(name: str, imported: Import) -> str | None:
    """Why ``name`` may not import this, or ``None``."""
    part, top = part_of(name), imported.target.split(".")[0]
    if top == "agentrt":
        if part == "runtime" and any(within(imported.target, shared) for shared in SHARED):
            return None
        anytime, lazily = MAY_IMPORT[part]
        # `from agentrt import errors` also shows as a bare `agentrt`, which importing any part runs anyway.
        if imported.target == "agentrt" or part_of(imported.target) in anytime:
            return None
        if part_of(imported.target) in lazily:
            return None if imported.lazy else f"imports {imported.target} outside a function"
        return f"imports {imported.target}"
    if top in TRAINING and not within(name, "training.nano.recipe"):
        return None if imported.lazy and part == "training" else f"imports {top}"
    if (
        part in ("core", "speculators")
        and not imported.lazy
        and top not in sys.stdlib_module_names | CORE_DEPENDENCIES
    ):
        return f"imports {top}, which `pip install agentrt` does not bring, outside a function"
    return None


def test_every_import_keeps_the_dependency_rule() -> None:
    offences = [
        f"{path.relative_to(ROOT)}:{imported.line} {reason}"
        for name, path in modules(FOLDERS | TRAINING_FOLDERS)
        for imported in imports(name, path)
        if (reason := offence(name, imported))
    ]

    assert offences == []


@pytest.mark.parametrize(
    ("name", "source", "allowed"),
    [
        ("agentrt.session", "from .errors import AgentRTError", True),
        ("agentrt.session", "import anyio", True),
        ("agentrt.session", "import numpy", False),
        ("agentrt.session", "def f():\n    from agentrt import runtime", False),
        ("agentrt.session", "from .speculators import LocalSpeculator", False),
        ("agentrt.cli.demo", "from agentrt.examples import personal_assistant", False),
        ("agentrt.cli.demo", "def f():\n    from agentrt.examples import personal_assistant", True),
        (
            "agentrt.bench.engine.main",
            "if TYPE_CHECKING:\n    from agentrt.runtime import LocalRuntime",
            True,
        ),
        ("agentrt.speculators.local", "async def f():\n    import openvino_genai", True),
        ("agentrt.speculators.local", "import openvino_genai", False),
        ("agentrt.speculators.local", "def f():\n    from agentrt.runtime import nano", False),
        ("agentrt.adapters.langchain", "from langchain_core.messages import AIMessage", True),
        ("agentrt.adapters.langchain", "from agentrt.runtime import LocalRuntime", False),
        ("agentrt.adapters.langchain", "def f():\n    from ..runtime import LocalRuntime", True),
        ("agentrt.adapters.openai", "def f():\n    from agentrt.speculators import LocalSpeculator", False),
        ("agentrt.runtime.engine.engine", "from agentrt.errors import EngineError", True),
        ("agentrt.runtime.engine.engine", "from ... import session", False),
        (
            "agentrt.runtime.engine.engine",
            "def f():\n    from agentrt.turns.speculations import FuturesCache",
            False,
        ),
        ("agentrt.runtime.engine.engine", "def f():\n    import torch", False),
        ("training.nano.evaluation", "import torch", False),
        ("training.nano.recipe.training", "import torch", True),
    ],
)
def test_the_rule_itself(name: str, source: str, allowed: bool, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(source, encoding="utf-8")

    offences = [reason for imported in imports(name, path) if (reason := offence(name, imported))]

    assert (offences == []) is allowed, offences


def is_private_of_adapters(imported: Import) -> bool:
    """Whether an adapter imports something of agentrt's that it should not know."""
    if not within(imported.target, "agentrt") or within(imported.target, "agentrt.adapters"):
        return False
    module, _, name = imported.target.rpartition(".")
    public = module in ADAPTERS_STAND_ON and name in public_names(importlib.import_module(module))
    return not (public or imported.target in ADAPTERS_STAND_ON)


def public_names(module: ModuleType) -> Collection[str]:
    """Return the names in ``__all__``; of the module of errors, which has none, its errors."""
    listed: Collection[str] | None = getattr(module, "__all__", None)
    if listed is not None:
        return listed
    kinds = [(name, kind) for name, kind in vars(module).items() if isinstance(kind, type)]
    return [name for name, kind in kinds if issubclass(kind, Exception)]


def test_adapters_stand_on_public_modules_only() -> None:
    offences = [
        f"{path.relative_to(ROOT)}:{imported.line} imports {imported.target}"
        for name, path in modules({"adapters": FOLDERS["adapters"]})
        for imported in imports(name, path)
        if is_private_of_adapters(imported)
    ]

    assert offences == []


@pytest.mark.parametrize(
    ("source", "private"),
    [
        ("from agentrt.adapting import Turns", False),
        ("from agentrt import ToolCall", False),
        ("from .messages import openai_messages", False),
        ("def f():\n    from agentrt.runtime import LocalRuntime", False),
        ("from agentrt.turns.turn import Turn", True),
        ("from ...turns.turn import Turn", True),
        ("from agentrt.adapting import register_context_source, Speculation", True),
        ("from agentrt.calls import key", True),
        ("import agentrt.concurrency.threads", True),
    ],
)
def test_the_rule_of_adapters_itself(source: str, private: bool, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(source, encoding="utf-8")

    found = imports("agentrt.adapters.langchain.module", path)

    assert any(map(is_private_of_adapters, found)) is private


def in_fresh_interpreter(script: str) -> str:
    done = python("-c", textwrap.dedent(script), cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_agentrt_loads_nothing_but_its_core() -> None:
    loaded = in_fresh_interpreter(
        """
        import sys
        before = set(sys.modules)
        import agentrt
        print(*(name for name in set(sys.modules) - before if sys.modules[name] is not None))
        """
    ).split()

    assert {part_of(name) for name in loaded if within(name, "agentrt")} == {"core"}
    heavy = {"httpx", "httpx2", "langchain", "langchain_core", "langgraph", "numpy", "openai", "openvino"}
    heavy |= {"openvino_genai", "rich", "typer"} | TRAINING
    assert {name.split(".")[0] for name in loaded} & heavy == set()


@pytest.mark.check
@pytest.mark.slow
def test_no_import_touches_the_network() -> None:
    names = [name for name, _ in modules() if not name.endswith("__main__")]

    in_fresh_interpreter(
        f"""
        import importlib, sys

        def refuse(event, arguments):
            if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "urllib.Request"):
                raise AssertionError(f"{{event}} {{arguments}}")

        sys.addaudithook(refuse)
        for name in {names}:
            try:
                importlib.import_module(name)
            except ModuleNotFoundError as missing:
                if missing.name not in {TRAINING}:
                    raise
        """
    )
