"""Stand-ins for injected arguments, in a speculative run of a tool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn


class StandIn:
    """Value of an injected argument in a speculative run: whatever uses it calls a function that raises."""

    def __init__(self, use: Callable[[], NoReturn]) -> None:
        """``use`` is called by every use of the stand-in, and raises."""
        object.__setattr__(self, "_use", use)

    def __getattribute__(self, name: str) -> Any:
        """Raise: an attribute is used."""
        _use(self)


def _use(stand_in: StandIn, *_: Any) -> NoReturn:
    use: Callable[[], NoReturn] = object.__getattribute__(stand_in, "_use")
    use()


# Python looks these up in the class. Operators that ``object`` does not have raise a TypeError by themselves.
for _name in (
    *("__bool__", "__call__", "__contains__", "__delattr__", "__dir__", "__eq__", "__format__"),
    *("__getitem__", "__hash__", "__iter__", "__len__", "__ne__", "__reduce_ex__", "__repr__"),
    *("__setattr__", "__str__"),
):
    setattr(StandIn, _name, _use)
