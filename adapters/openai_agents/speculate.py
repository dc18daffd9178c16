"""`speculate` for models and model providers of the Agents SDK."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from agents.models.interface import Model, ModelProvider

from agentrt.adapting import Turns
from agentrt.argument_checks import check_setting
from agentrt.config import SpeculationConfig
from agentrt.drafts import Speculator
from agentrt.errors import ConfigurationError
from agentrt.reports import SpeculationObserver, SpeculationReport

from ..transparent_subclass import plain_class, state_of, transparent_subclass
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


ModelOrProvider = TypeVar("ModelOrProvider", bound=Model | ModelProvider)


def speculate(
    model: ModelOrProvider,
    predictors: Speculator | Sequence[Speculator],
    *,
    samples: int = 1,
    config: SpeculationConfig | None = None,
    observers: Sequence[SpeculationObserver] = (),
) -> ModelOrProvider:
    """Return ``model`` as one that speculates on the calls of ``@speculable`` tools.

    It is an instance of the same class with the same settings and connections, for ``Agent(model=...)`` or
    ``RunConfig(model=...)``. ``model`` itself stays as it is. Given a model provider, for
    ``RunConfig(model_provider=...)``, it returns a provider whose models speculate: all agents of a run then
    do, also those that are handed over to or used as tools.

    Only timing changes (SpecTools, Algorithm 2): while the model answers, streamed or not, the predictors
    predict its next call and the predicted tools run; when the model makes that call, the SDK calls the tool
    as always, with its guardrails, hooks and spans, and gets the result that is already there or on its way.
    ``predictors`` take ``samples`` samples each (λ). :func:`report_of` returns the report.

    Tools that need an approval, that have input guardrails, or that a request does not offer are not run
    speculatively; nor is any tool in the first turn of a run whose agent has input guardrails that run in
    parallel to the model. ``@speculable(before_approval=True)`` permits all but the unoffered ones.

    Raises:
        ConfigurationError: ``model`` is neither a model nor a provider, there is no predictor, ``samples`` is
            below 1, or ``config`` sets ``turn_ahead``, which is not supported here.
    """
    wanted = "a Model such as OpenAIResponsesModel(...), or a ModelProvider such as MultiProvider()"
    check_setting("model", model, (Model, ModelProvider), wanted)
    turns = Turns(
        predictors,
        samples=samples,
        config=config,
        observers=observers,
        without_ahead="turn_ahead is not supported for models of the Agents SDK. Leave it out of the "
        "SpeculationConfig.",
    )
    if not turns.predictors:
        raise ConfigurationError("speculate() needs at least one predictor. Give a Speculator.")
    return speculating(model, ModelState(turns))


def report_of(model: Any) -> SpeculationReport:
    """Return the report of a model or provider that :func:`speculate` returned.

    Raises:
        ConfigurationError: it does not speculate.
    """
    return state_of(model, ModelState).turns.report()
