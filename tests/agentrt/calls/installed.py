"""A tool-call format for the ``install_format`` fixture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

InstallFormat: TypeAlias = Callable[..., None]

ACME: Final = """
from agentrt.calls import CallShape, JsonCallScanner, ToolCallFormat

ACME = ToolCallFormat(
    name="acme",
    scanner=JsonCallScanner,
    opening_tag="<tools>",
    closing="</tools>",
    template_markers=("<tools><tool_call>",),
    model_names=("acme",),
    shape=CallShape(lambda name: f'{{"name": "{name}", "arguments": ', "}</tools>"),
)
"""
