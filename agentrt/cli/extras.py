"""Which optional packages are installed, by the extra that brings them."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Literal

from ..errors import MissingExtraError

Extra = Literal["cli", "langgraph", "openai", "runtime", "serve", "demo"]

MODULES: dict[Extra, tuple[str, ...]] = {
    "cli": ("rich", "typer"),
    "langgraph": ("langchain", "langchain_core", "langgraph"),
    "openai": ("openai",),
    "runtime": ("llguidance", "numpy", "openvino", "openvino_genai", "openvino_tokenizers", "platformdirs"),
    "serve": ("fastapi", "h11", "httpx", "prometheus_client", "pydantic_core", "starlette", "uvicorn"),
    "demo": ("dateutil", "httpx", "icalendar"),
}
"""The modules that each extra brings of its own; ``demo`` includes all but ``openai`` and ``serve``."""


def missing_modules(extra: Extra) -> list[str]:
    """The modules of ``extra`` that cannot be imported here."""
    return [module for module in MODULES[extra] if find_spec(module) is None]


def require_demo() -> None:
    """Raise :class:`MissingExtraError` unless everything that the assistant needs is installed."""
    extras: tuple[Extra, ...] = ("demo", "langgraph", "runtime")
    for extra in extras:
        for module in missing_modules(extra):
            raise MissingExtraError(module, "demo")
