"""The registry of tool-call formats: the built-in ones, and those that installed packages add.

A package adds formats by entry points, each a :class:`ToolCallFormat` under its own name::

    [project.entry-points."agentrt.tool_call_formats"]
    acme = "acme_agentrt:ACME"

They are loaded when a format is first detected, or looked up by a name that is not built in; importing
agentrt loads none of them.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from ..errors import ConfigurationError
from . import json_formats as by_json
from .format import ToolCallFormat
from .pythonic import LFM2, PYTHONIC
from .tagged_formats import FUNCTION_GEMMA, GEMMA4, GLM4, QWEN3_CODER, QWEN3_CODER_BARE

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

BUILT_IN_FORMATS: Final = (
    QWEN3_CODER,
    GLM4,
    by_json.HERMES,
    by_json.LLAMA3_JSON,
    PYTHONIC,
    by_json.XLAM,
    by_json.MISTRAL_ARGS,
    by_json.MISTRAL,
    by_json.DEEPSEEK_V3,
    by_json.DEEPSEEK_V31,
    by_json.KIMI_K2,
    by_json.GRANITE,
    by_json.PHI4_MINI,
    by_json.FUNCTOOLS,
    LFM2,
    FUNCTION_GEMMA,
    GEMMA4,
    by_json.FUNCTION_TAG,
    QWEN3_CODER_BARE,
    by_json.TOOLS_TAG,
    by_json.JSON_MESSAGE,
)
"""In the order in which they are detected: a template may contain the markers of several."""

ENTRY_POINT_GROUP: Final = "agentrt.tool_call_formats"

# The attributes that the class declares: ToolCallFormat.HERMES and so on.
for _format in BUILT_IN_FORMATS:
    setattr(ToolCallFormat, _format.name.upper(), _format)


def tool_call_formats() -> tuple[ToolCallFormat, ...]:
    """Return all formats in the order in which they are detected: those of other packages first.

    Raises:
        ConfigurationError: an installed package's format cannot be loaded.
    """
    return *_installed_formats(), *BUILT_IN_FORMATS


def find_tool_call_format(name: str | ToolCallFormat) -> ToolCallFormat:
    """Return the format called ``name``, such as ``"hermes"``; a format is returned as it is.

    Raises:
        ConfigurationError: there is no such format, or an installed package's format cannot be loaded.
    """
    if isinstance(name, ToolCallFormat):
        return name
    known = {format.name: format for format in BUILT_IN_FORMATS}
    if name not in known:
        known |= {format.name: format for format in _installed_formats()}
    if name in known:
        return known[name]
    raise ConfigurationError(
        f"there is no tool-call format {name!r}. Use one of: {', '.join(sorted(known))}."
    )


def takes_tools(chat_template: str) -> bool:
    """Whether a chat template writes the definitions of tools into the prompt."""
    return "tools" in chat_template


def detect_tool_call_format(chat_template: str, model_id: str) -> ToolCallFormat | None:
    """Return the format in which a model writes calls, or None if its chat template takes no tools.

    The model's name decides before the template, since some models keep the template of their base model.

    Raises:
        ConfigurationError: an installed package's format cannot be loaded.
    """
    if not takes_tools(chat_template):
        return None
    formats, name = tool_call_formats(), model_id.lower()
    for format in formats:
        if any(part in name for part in format.model_names):
            return format
    for format in formats:
        if any(marker in chat_template for marker in format.template_markers):
            return format
    # The other open models that take tools were tuned on many dialects, of which Hermes is the most common.
    return by_json.HERMES


@functools.cache
def _installed_formats() -> tuple[ToolCallFormat, ...]:
    """Load the formats of installed packages; only a success is remembered."""
    from importlib.metadata import entry_points  # slow to import

    formats: dict[str, ToolCallFormat] = {format.name: format for format in BUILT_IN_FORMATS}
    for entry_point in entry_points(group=ENTRY_POINT_GROUP):
        try:
            format = entry_point.load()
        except Exception as error:
            raise _unusable(entry_point, f"{type(error).__name__}: {error}") from error
        if not isinstance(format, ToolCallFormat) or format.name != entry_point.name:
            raise _unusable(entry_point, f"{entry_point.value} is not a ToolCallFormat of this name")
        if format.name in formats:
            raise _unusable(entry_point, "the name is taken")
        formats[format.name] = format
    return tuple(formats.values())[len(BUILT_IN_FORMATS) :]


def _unusable(entry_point: EntryPoint, reason: str) -> ConfigurationError:
    package = entry_point.dist.name if entry_point.dist is not None else entry_point.module
    return ConfigurationError(
        f"tool-call format {entry_point.name!r} of the package {package} cannot be used: {reason}. "
        "Update or uninstall the package."
    )
