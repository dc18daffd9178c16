"""Finds models that cannot chat, by their chat templates, before work is done for them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import openvino_genai

from agentrt.errors import ModelFormatError

from ..nano import MODEL_DIRECTORY
from .openvino_core import load_on_own_thread

_APPLYING: Final = ("Minja's error", "'!result.empty()'")
"""Parts of the errors of a parsed template, which may accept other messages, or write something for them."""
_ADD_TEMPLATE: Final = "gguf-new-metadata --chat-template-file chat_template.jinja OLD.gguf NEW.gguf"


def template_syntax_error(tokenizer: openvino_genai.Tokenizer) -> str | None:
    """Return what the parser reports of a tokenizer's chat template, with row and column; None if nothing."""
    try:
        tokenizer.apply_chat_template([{"role": "user", "content": "Hello"}], add_generation_prompt=True)
    except RuntimeError as error:
        message = str(error).strip()
        return None if any(part in message for part in _APPLYING) else message.splitlines()[0].rstrip(":")
    return None


def check_gguf_template(file: Path, metadata: Mapping[str, Any]) -> None:
    """Check that the metadata of the GGUF file ``file`` hold a chat template that can be parsed.

    Raises:
        ModelFormatError: there is none, or the parser reports an error.
    """
    template = metadata.get("tokenizer.chat_template")
    if not isinstance(template, str) or not template.strip():
        raise ModelFormatError(
            f"{file} has no chat template (tokenizer.chat_template); base models have none. Use a GGUF file "
            "of the model's instruct or chat version, or write a file with the chat template of the original "
            f"model: {_ADD_TEMPLATE}"
        )
    # Any tokenizer parses templates. The embedded one loads in milliseconds.
    tokenizer = load_on_own_thread(lambda: openvino_genai.Tokenizer(str(MODEL_DIRECTORY)))
    tokenizer.set_chat_template(template)
    error = template_syntax_error(tokenizer)
    if error is not None:
        raise ModelFormatError(
            f"the chat template of {file} cannot be parsed: {error}. Use another GGUF file of the model, or "
            f"write one with a corrected template: {_ADD_TEMPLATE}"
        )
