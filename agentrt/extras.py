"""The optional packages, by the extra that brings them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from .errors import MissingExtraError

MODULES: dict[str, tuple[str, ...]] = {
    "anthropic": ("anthropic",),
    "cli": ("platformdirs", "prompt_toolkit", "rich", "typer"),
    "encryption": ("cryptography",),
    "langgraph": ("langchain", "langchain_core", "langgraph", "langsmith"),
    "langchain-openai": ("langchain_openai",),
    "mcp": ("mcp",),
    "openai": ("openai",),
    "openai-agents": ("agents",),
    "otel": ("opentelemetry",),
    "pydantic-ai": ("pydantic_ai",),
    "runtime": (
        "gguf",
        "llguidance",
        "numpy",
        "openvino",
        "openvino_genai",
        "openvino_tokenizers",
        "platformdirs",
    ),
    "hub": ("httpx2", "huggingface_hub"),
    "gateway": ("fastapi", "h11", "httpcore", "httpx", "pydantic_core", "starlette", "uvicorn"),
    "redis": ("redis",),
    "serve": ("prometheus_client",),
    "demo": ("dateutil", "icalendar"),
    "all": (),
    "bench": ("eager_tools_langgraph", "httpx2", "matplotlib", "openai", "opentelemetry", "xllamacpp"),
    "browser": ("playwright",),
    "testing": ("respx",),
}
"""The modules that each extra brings itself."""

INCLUDES: dict[str, tuple[str, ...]] = {
    "langchain-openai": ("langgraph",),
    "hub": ("cli", "runtime"),
    "gateway": ("cli",),
    "redis": ("gateway",),
    "serve": ("gateway", "runtime"),
    "demo": ("cli", "langgraph", "runtime"),
    "all": (
        *("anthropic", "demo", "encryption", "hub", "langchain-openai", "mcp", "openai", "openai-agents"),
        *("otel", "pydantic-ai", "serve"),
    ),
    "bench": ("all",),
}
"""The extras that an extra includes."""


def missing_modules(extra: str) -> list[str]:
    """Return the modules of ``extra`` itself that cannot be imported here."""
    return [module for module in MODULES[extra] if find_spec(module) is None]


def require_extra(extra: str) -> None:
    """Check that ``extra`` and the extras it includes are installed, without importing them.

    Raises:
        MissingExtraError: one of their modules is missing; the message names ``extra``.
    """
    for part in _with_included(extra):
        for module in missing_modules(part):
            raise MissingExtraError(module, extra)


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Name ``extra`` if an import in the block fails for lack of it.

    Raises:
        MissingExtraError: a module of ``extra``, or of an extra it includes, is missing. Any other missing
            module is a fault of agentrt, and its :class:`ModuleNotFoundError` is left as it is.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        module = error.name or ""
        if not any(module.partition(".")[0] in MODULES[part] for part in _with_included(extra)):
            raise
        raise MissingExtraError(module, extra) from error


def _with_included(extra: str) -> Iterator[str]:
    yield extra
    for included in INCLUDES.get(extra, ()):
        yield from _with_included(included)
