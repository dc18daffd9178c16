"""Subclasses that pass for the class of a user's object: same name, documentation and signatures.

Their instances keep what they share with their copies in ``_agentrt_state``.
"""

from __future__ import annotations

import functools
import types
from typing import Any, ClassVar, TypeVar

from agentrt.errors import ConfigurationError

T = TypeVar("T")


def transparent_subclass(base: type[T], *mixins: type, **attributes: Any) -> type[T]:
    """Return a subclass of ``base`` whose methods come from ``mixins`` first.

    Traces and serialisers see the name, module and documentation of ``base``. Methods of the mixins that
    override one of ``base`` have its signature, which frameworks inspect. In a mixin ``super()`` is the next
    mixin, or ``base``. ``attributes`` are added to the class. :func:`plain_class` returns ``base`` again.
    """
    namespace = {
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        "__doc__": base.__doc__,
        "__annotations__": {"_agentrt_base": ClassVar[type]},
        "_agentrt_base": base,
        **attributes,
    }
    kind = types.new_class(base.__name__, (*mixins, base), {}, lambda body: body.update(namespace))
    before_base = kind.__mro__[1 : kind.__mro__.index(base)]
    for mixin in reversed(before_base):
        for name, function in vars(mixin).items():
            if isinstance(function, types.FunctionType) and hasattr(base, name):
                setattr(kind, name, _with_metadata_of(getattr(base, name), function))
    return kind


def plain_class(kind: type[T]) -> type[T]:
    """Return the class that :func:`transparent_subclass` made ``kind`` of; ``kind`` itself if it did not."""
    plain: type[T] = kind.__dict__.get("_agentrt_base", kind)
    return plain


def state_of(value: Any, kind: type[T]) -> T:
    """Return what a speculating object shares with its copies, which is a ``kind``.

    Raises:
        ConfigurationError: the object does not speculate.
    """
    state = getattr(value, "_agentrt_state", None)
    if not isinstance(state, kind):
        raise ConfigurationError(f"{type(value).__name__} does not speculate. Pass it to speculate() first.")
    return state


def _with_metadata_of(original: Any, override: types.FunctionType) -> Any:
    """Return a copy of ``override`` with the name, documentation and signature of ``original``."""
    copied = types.FunctionType(
        override.__code__,
        override.__globals__,
        argdefs=override.__defaults__,
        closure=override.__closure__,
    )
    copied.__kwdefaults__ = override.__kwdefaults__
    return functools.update_wrapper(copied, original)
