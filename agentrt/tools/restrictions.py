"""What the tools of one turn must not do before the model has called them and the call is approved."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Restrictions:
    """The tools of a turn that must not run speculatively, and those whose results must wait for approval."""

    refused: Mapping[str, str] = field(default_factory=dict)
    """Names of tools that must not run speculatively in this turn, each with the reason."""
    unapproved: frozenset[str] = frozenset()
    """Names of tools whose result must not leave the process before their call is approved: no model request
    is sent ahead with it, and no engine gets it."""

    def permitted(self, tools: Iterable[str]) -> list[str]:
        """Return those of ``tools`` that may run speculatively."""
        return [name for name in tools if name not in self.refused]


UNRESTRICTED = Restrictions()


def not_offered(tools: Iterable[str], offered: Collection[str] | None) -> dict[str, str]:
    """Return those of ``tools`` that are not in ``offered``, with the reason; None offers all of them."""
    if offered is None:
        return {}
    return {name: "the tool is not offered in this turn" for name in tools if name not in offered}
