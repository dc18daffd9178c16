"""Subclasses that pass for the class they are made of."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from agentrt.adapters.transparent_subclass import plain_class, transparent_subclass


class Greeter:
    """Greets people."""

    def greet(self, name: str, *, loud: bool = False) -> str:
        """Return a greeting."""
        return f"hello {name}".upper() if loud else f"hello {name}"

    async def agreet(self, name: str) -> str:
        return f"hello {name}"


class Polite(Greeter):
    def greet(self, *args: Any, **kwargs: Any) -> str:
        return super().greet(*args, **kwargs) + ", please"


class PoliteMixin:
    def greet(self, *args: Any, **kwargs: Any) -> str:
        return self.marked(super().greet(*args, **kwargs))  # type: ignore[misc]

    def marked(self, text: str) -> str:
        return text + "!"


class AsyncMixin(PoliteMixin):
    async def agreet(self, *args: Any) -> str:
        return self.marked(await super().agreet(*args))  # type: ignore[misc]


def test_the_subclass_looks_like_its_base_and_runs_the_mixins() -> None:
    kind: Any = transparent_subclass(Greeter, AsyncMixin, PoliteMixin, volume=11)

    assert issubclass(kind, Greeter)
    assert (kind.__name__, kind.__qualname__, kind.__module__, kind.__doc__) == (
        *("Greeter", "Greeter", __name__, "Greets people."),
    )
    assert inspect.signature(kind.greet) == inspect.signature(Greeter.greet)
    assert kind.greet.__doc__ == "Return a greeting."
    assert inspect.iscoroutinefunction(kind.agreet)
    assert kind().greet("Ann", loud=True) == "HELLO ANN!"
    assert asyncio.run(kind().agreet("Ann")) == "hello Ann!"
    assert kind.volume == 11


def test_each_base_keeps_its_own_signature() -> None:
    plain, polite = transparent_subclass(Greeter, PoliteMixin), transparent_subclass(Polite, PoliteMixin)
    assert inspect.signature(plain.greet) != inspect.signature(polite.greet)
    assert polite().greet("Ann") == "hello Ann, please!"


def test_the_plain_class_is_found_again() -> None:
    kind = transparent_subclass(Greeter, PoliteMixin)
    assert plain_class(kind) is Greeter
    assert plain_class(Greeter) is Greeter
    assert plain_class(type("Sub", (kind,), {})).__name__ == "Sub"
