"""What a tool-call format is: all that parser, grammar, tokenizer and tool cache need to know of one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol

from ..errors import ConfigurationError
from .arguments import json_text
from .events import ParserEvent, ToolCall


class CallScanner(Protocol):
    """A push parser for the text of one call, without the markup around it. One per call."""

    @property
    def done(self) -> bool:
        """Whether the call is complete."""

    @property
    def malformed(self) -> bool:
        """Whether the text turned out not to be a call."""

    def feed(self, text: str, position: int, end: int) -> tuple[int, list[ParserEvent]]:
        """Read ``text[position:end]``; return where reading stopped, and the events of what was read.

        Reading stops early after the last character of the call, or before the first character that cannot
        belong to one.
        """


@dataclass(frozen=True, slots=True)
class CallShape:
    """The one way in which a grammar lets a model write a call, after the opening tag.

    A call is ``head(name)``, the arguments as a JSON object, and ``tail``. It must be what the format's
    scanner reads, up to the closing tag included.
    """

    head: Callable[[str], str]
    """Returns the text before the arguments of a call of the tool with this name."""
    tail: str
    """The text after the arguments."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ToolCallFormat:
    """A text format in which models write tool calls.

    Calls stand in sections: an opening, calls joined by ``separator``, and ``closing``. Whitespace between
    these parts is ignored.

    The built-in formats are attributes of this class, and :func:`find_tool_call_format` finds any format by
    name. To add one from another package, define an instance there and name it in the package's entry points;
    see :mod:`agentrt.calls.registry`.
    """

    if TYPE_CHECKING:  # set by the registry; as annotations they would be fields that contain their own class
        DEEPSEEK_V3: ClassVar[ToolCallFormat]
        DEEPSEEK_V31: ClassVar[ToolCallFormat]
        FUNCTION_GEMMA: ClassVar[ToolCallFormat]
        FUNCTION_TAG: ClassVar[ToolCallFormat]
        FUNCTOOLS: ClassVar[ToolCallFormat]
        GEMMA4: ClassVar[ToolCallFormat]
        GLM4: ClassVar[ToolCallFormat]
        GRANITE: ClassVar[ToolCallFormat]
        HERMES: ClassVar[ToolCallFormat]
        JSON_MESSAGE: ClassVar[ToolCallFormat]
        KIMI_K2: ClassVar[ToolCallFormat]
        LFM2: ClassVar[ToolCallFormat]
        LLAMA3_JSON: ClassVar[ToolCallFormat]
        MISTRAL: ClassVar[ToolCallFormat]
        MISTRAL_ARGS: ClassVar[ToolCallFormat]
        PHI4_MINI: ClassVar[ToolCallFormat]
        PYTHONIC: ClassVar[ToolCallFormat]
        QWEN3_CODER: ClassVar[ToolCallFormat]
        QWEN3_CODER_BARE: ClassVar[ToolCallFormat]
        TOOLS_TAG: ClassVar[ToolCallFormat]
        XLAM: ClassVar[ToolCallFormat]

    name: str
    """Lower case, with underscores."""
    scanner: Callable[[int], CallScanner] = field(repr=False)
    """Creates the scanner of a call from the call's index in its message."""
    opening_tag: str | None = field(default=None, repr=False)
    """Opens a section anywhere in the text."""
    message_opening: str | None = field(default=None, repr=False)
    """Opens a section at the start of the message only. If empty, a message may
    begin with a call."""
    separator: str | None = field(default=None, repr=False)
    """Stands between two calls of one section. Empty if the next call follows directly; None if a section
    holds one call."""
    closing: str | None = field(default=None, repr=False)
    """Ends a section; None if the message ends it."""
    inner_markup: tuple[str, ...] = field(default=(), repr=False)
    """Special tokens inside sections, which the scanner reads, and those of which a combined tag consists."""
    untyped_arguments: bool = False
    """Whether every argument is a text, whose type only the tool's schema tells."""
    template_markers: tuple[str, ...] = field(default=(), repr=False)
    """Texts that a chat template contains only if it teaches this format."""
    model_names: tuple[str, ...] = field(default=(), repr=False)
    """Parts of model names, in lower case, for models whose chat template does not show their format."""
    shape: CallShape | None = field(default=None, repr=False)
    """For a grammar; None if calls of this format cannot be held to one. A grammar takes effect at the token
    of ``opening_tag``, so it also needs a vocabulary in which that tag is a single token."""

    write: Callable[[ToolCall], str | None] | None = field(default=None, repr=False)
    """Returns a message that makes this one call, as models of this format write it, or None for a call that
    they cannot write. The scanner must read it. If left out, the ``shape`` is used, if there is one."""

    def __post_init__(self) -> None:
        """Check that calls can be found.

        Raises:
            ConfigurationError: the format has no opening, or a shape without an opening tag.
        """
        needs_tag = self.message_opening is None or self.shape is not None
        if self.opening_tag == "" or (self.opening_tag is None and needs_tag):
            raise ConfigurationError(
                f"tool-call format {self.name!r} has no opening tag. Set opening_tag; message_opening is "
                "enough for a format without a shape."
            )

    def written(self, call: ToolCall) -> str | None:
        """Return a message that makes this one call; None if the format does not say how to write it."""
        if self.write is not None:
            return self.write(call)
        if self.shape is None:
            return None
        arguments = json_text(dict(call.arguments))
        return f"{self.opening_tag}{self.shape.head(call.name)}{arguments}{self.shape.tail}"

    @property
    def markup(self) -> tuple[str, ...]:
        """The texts around calls. The parser must see them even where they are special tokens."""
        texts = (self.opening_tag, self.message_opening, self.separator, self.closing, *self.inner_markup)
        return tuple(text for text in texts if text)
