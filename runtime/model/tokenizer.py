"""Chat messages to tokens, and tokens to text, with the model's own chat template and tokenizer."""

from __future__ import annotations

import re
import secrets
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import openvino_genai

from agentrt.calls import ToolCall, takes_tools, tool_call_formats
from agentrt.errors import InvalidRequestError, ModelFormatError

from .detokenizer import ByteDetokenizer, Detokenizer, WindowDetokenizer
from .directory import ModelDirectory
from .openvino_core import load_on_own_thread
from .tool_prompt import with_system_in_user_message, with_tool_prompt

_TRUSTED_ROLES: Final = ("system", "developer", "assistant")
"""Roles whose text may contain special tokens: text of the application itself, and of the model."""


class Tokenizer:
    """The tokenizer and chat template of one model. Thread-safe; independent of the engine.

    Text from outside (user and tool messages, tool definitions, call arguments) cannot forge the template's
    markup: the text of a special token in it, such as ``<|im_end|>``, is encoded as ordinary characters.
    """

    def __init__(self, directory: ModelDirectory, vocabulary_size: int, *, tool_prompt: bool = True) -> None:
        """Load the tokenizer, detokenizer and chat template of ``directory``.

        ``vocabulary_size`` is that of the model, which is often padded beyond that of the tokenizer.
        ``tool_prompt`` describes tools in the system message where the chat template takes none.

        Raises:
            ModelFormatError: one of them cannot be loaded, or the chat template or end token is missing.
        """
        try:
            self._tokenizer = load_on_own_thread(lambda: openvino_genai.Tokenizer(str(directory.path)))
        except RuntimeError as error:
            raise ModelFormatError(
                f"the tokenizer in {directory.path} cannot be loaded "
                f"({str(error).strip().splitlines()[-1]}). "
                f"Convert it again: convert_tokenizer NAME --with-detokenizer -o {directory.path}"
            ) from error
        self.chat_template: str = self._tokenizer.chat_template
        if not self.chat_template:
            raise ModelFormatError(
                f"{directory.path} has no chat template. Copy chat_template.jinja or tokenizer_config.json "
                "from the original model; base models without one cannot chat."
            )
        self.writes_tool_prompt = tool_prompt and not takes_tools(self.chat_template)
        """Whether tools are described by :mod:`agentrt.runtime.model.tool_prompt`."""
        end_token = self._tokenizer.get_eos_token_id()
        self.end_token_ids = directory.end_token_ids | ({end_token} if end_token >= 0 else frozenset())
        if not self.end_token_ids:
            raise ModelFormatError(
                f"{directory.path} has no end token, so that no answer would end. "
                "Set eos_token_id in generation_config.json."
            )
        self._special_token = _special_token_pattern(directory.tokenizer_graph)
        self._hidden, self.token_bytes = self._read_vocabulary(vocabulary_size)
        """The bytes of each token, empty for hidden tokens; None if texts of tokens do not concatenate."""
        # Stands inside the text of forged special tokens while the template is applied. Random, so that no
        # message can contain it; letters and digits, so that no template treats it specially.
        self._separator = secrets.token_hex(16)

    def render(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None) -> str:
        """Apply the chat template, up to the header of the assistant's answer, for :meth:`encode`.

        Raises:
            InvalidRequestError: the template rejects these messages.
        """
        escaped_messages = [self._escape_message(message) for message in messages]
        escaped_tools = None if tools is None else [self._escape(tool) for tool in tools]
        if not self.writes_tool_prompt:
            return self._apply_template(escaped_messages, escaped_tools)
        plain = with_tool_prompt(escaped_messages, escaped_tools)
        try:
            return self._apply_template(plain, None)
        except InvalidRequestError:
            if tools is None or plain[0]["role"] != "system":
                raise
            return self._apply_template(with_system_in_user_message(plain), None)

    def _apply_template(
        self, escaped_messages: list[dict[str, Any]], escaped_tools: list[dict[str, Any]] | None
    ) -> str:
        try:
            rendered: str = self._tokenizer.apply_chat_template(
                escaped_messages, add_generation_prompt=True, tools=escaped_tools
            )
        except (RuntimeError, TypeError) as error:
            reason = re.search(r"Minja's error: (.*)", str(error))
            raise InvalidRequestError(
                "messages",
                f"the model's chat template rejects them: {reason[1] if reason else error}. "
                "Use the roles, and the order of roles, that this model was trained with.",
            ) from error
        return rendered

    def encode(self, rendered: str) -> list[int]:
        """Tokenize a text that :meth:`render` returned, or a part of it."""
        tokens: list[int] = []
        for piece in rendered.split(self._separator):
            # The template writes all special tokens, also those at the start of a text.
            encoded = self._tokenizer.encode(piece, add_special_tokens=False)
            tokens += np.asarray(encoded.input_ids.data)[0].tolist()
        return tokens

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of ``tokens``, without special tokens except those that mark tool calls."""
        shown = [token for token in tokens if token not in self._hidden]
        return str(self._tokenizer.decode(shown, skip_special_tokens=False))

    def detokenizer(self) -> Detokenizer:
        """Return a new incremental detokenizer for one answer."""
        if self.token_bytes is not None:
            return ByteDetokenizer(self.token_bytes)
        return WindowDetokenizer(self.decode, self._hidden)

    def token_text(self, token: int) -> str:
        """Return the text of one token, also of a special token."""
        return str(self._tokenizer.decode([token], skip_special_tokens=False))

    def escape_special_tokens(self, text: str) -> str:
        """Return ``text`` such that :meth:`encode` encodes special tokens in it as ordinary characters."""
        return str(self._escape(text))

    def escape_call(self, call: ToolCall) -> ToolCall:
        """Return ``call`` with the texts of its arguments as :meth:`escape_special_tokens` returns them."""
        return ToolCall(call.name, self._escape(call.arguments))

    def unescape(self, rendered: str) -> str:
        """Return the text that :meth:`encode` encodes for ``rendered``."""
        return rendered.replace(self._separator, "")

    def _escape_message(self, message: Mapping[str, Any]) -> dict[str, Any]:
        if message["role"] not in _TRUSTED_ROLES:
            return dict(self._escape(message))
        return {key: value if key == "content" else self._escape(value) for key, value in message.items()}

    def _escape(self, value: Any) -> Any:
        """Put a separator after the first character of each special token in the texts of ``value``."""
        if isinstance(value, str):
            return self._special_token.sub(
                lambda match: f"{match[0][:1]}{self._separator}{match[0][1:]}", value
            )
        if isinstance(value, Mapping):
            return {self._escape(key): self._escape(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._escape(item) for item in value]
        return value

    def _read_vocabulary(self, vocabulary_size: int) -> tuple[frozenset[int], list[bytes] | None]:
        """Return the hidden tokens, and the bytes of all others if the texts of tokens concatenate."""
        ids: dict[bytes, int] = self._tokenizer.get_vocab()
        size = max(vocabulary_size, max(ids.values()) + 1)
        shown = self._tokenizer.decode([[id] for id in range(size)], skip_special_tokens=True)
        # Some of these are special tokens, but a tool parser must see them.
        markup = {ids.get(text.encode()) for format in tool_call_formats() for text in format.markup}
        hidden = frozenset(id for id in range(size) if not shown[id] and id not in markup)
        table = [b""] * size
        for token, id in ids.items():
            if id not in hidden:
                table[id] = token
        # The vocabulary is byte-level if and only if the concatenated bytes give the detokenizer's text.
        text = self._tokenizer.decode(
            [id for id in range(size) if id not in hidden], skip_special_tokens=False
        )
        return hidden, table if b"".join(table).decode("utf-8", "replace") == text else None


def _special_token_pattern(tokenizer_graph: Path) -> re.Pattern[str]:
    """Read the expression by which a tokenizer finds special tokens in text from its graph.

    Raises:
        ModelFormatError: Python cannot compile the expression.
    """
    root = ElementTree.parse(tokenizer_graph).getroot()
    layers = {layer.get("id"): layer for layer in root.iter("layer")}
    sources = {
        (edge.get("to-layer"), edge.get("to-port")): edge.get("from-layer") for edge in root.iter("edge")
    }
    alternatives: list[str] = []
    with tokenizer_graph.with_suffix(".bin").open("rb") as weights:
        for layer in root.iter("layer"):
            if layer.get("type") != "SpecialTokensSplit":
                continue
            port = layer.findall("input/port")[-1].get("id")
            constant = layers[sources[layer.get("id"), port]].find("data")
            assert constant is not None
            weights.seek(int(constant.get("offset", "0")))
            alternatives.append(weights.read(int(constant.get("size", "0"))).decode("utf-8"))
    try:
        return re.compile("|".join(alternatives) or r"(?!)")
    except re.error as error:
        raise ModelFormatError(
            f"{tokenizer_graph} splits special tokens by an expression that Python cannot compile ({error}). "
            "Convert the tokenizer again with a current openvino-tokenizers."
        ) from error
