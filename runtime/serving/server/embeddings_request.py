"""The body of ``POST /v1/embeddings``."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field

from agentrt.errors import InvalidRequestError

from ...request.field_names import renamed
from .common_request import PrioritizedRequest

_MOST_TEXTS: Final = 2048
"""As for OpenAI."""


class EmbeddingRequest(PrioritizedRequest):
    """OpenAI's fields. Unknown fields are ignored, as by other servers."""

    input: str | list[Any]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = Field(default=None, ge=1)

    def texts(self) -> list[str]:
        """Return the texts to be embedded.

        Raises:
            InvalidRequestError: there are none or too many, or one is empty or no text.
        """
        texts = self.input if isinstance(self.input, list) else [self.input]
        if not 0 < len(texts) <= _MOST_TEXTS:
            raise InvalidRequestError("input", f"has {len(texts)} texts. Send 1 to {_MOST_TEXTS}.")
        for index, text in enumerate(texts):
            if not isinstance(text, str):
                raise InvalidRequestError(
                    f"input[{index}]",
                    "is no text. Token ids would be those of another model's tokenizer: send texts (in "
                    "LangChain, check_embedding_ctx_length=False).",
                )
            if not text:
                raise InvalidRequestError(f"input[{index}]", "is empty. Leave it out.")
        return texts

    def field_name(self, field: str) -> str:
        """Return this request's name for a field that an error of its texts names."""
        return renamed(field, {"input[0]": "input"} if isinstance(self.input, str) else {})
