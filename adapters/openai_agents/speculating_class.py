"""The classes that turn a model, or a provider of models, into a speculating one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from agents.models.interface import Model, ModelProvider

from ..transparent_subclass import plain_class, transparent_subclass
from .speculating_model import ModelState, SpeculatingModel

T = TypeVar("T")

# At run time the user's provider is the base class.
if TYPE_CHECKING:
    _Base = ModelProvider
else:
    _Base = object


class SpeculatingProvider(_Base):
    """Mixin of a speculating provider; ``super()`` is the user's provider."""

    if TYPE_CHECKING:
        _agentrt_state: ModelState

    def get_model(self, model_name: str | None) -> Model:
        """Return a speculating model; one that speculates by itself is returned as it is."""
        model = super().get_model(model_name)  # type: ignore[safe-super]
        return model if hasattr(model, "_agentrt_state") else speculating(model, self._agentrt_state)


def speculating(plain: T, state: ModelState) -> T:
    """Return a model or a provider as one that speculates with ``state``.

    The two share their attributes: a connection that one of them opens or closes is that of the other. The
    state belongs to the class, so that it is not among them.
    """
    base = plain_class(type(plain))
    kind = state.classes.get(base)
    if kind is None:
        mixin = SpeculatingModel if issubclass(base, Model) else SpeculatingProvider
        kind = state.classes[base] = transparent_subclass(base, mixin, _agentrt_state=state)
    same: Any = object.__new__(kind)
    object.__setattr__(same, "__dict__", plain.__dict__)  # also where the class is a frozen dataclass
    return same  # type: ignore[no-any-return]
