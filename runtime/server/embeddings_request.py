"""The body of ``POST /v1/embeddings``."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field

from ..http.errors import ApiError
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
            ApiError: 400, there are none or too many, or one is empty or no text.
        """
        texts = self.input if isinstance(self.input, list) else [self.input]
        if not 0 < len(texts) <= _MOST_TEXTS:
            raise _refused("input", f"has {len(texts)} texts. Send 1 to {_MOST_TEXTS}.")
        for index, text in enumerate(texts):
            if not isinstance(text, str):
                raise _refused(
                    f"input[{index}]",
                    "is no text. Token ids would be those of another model's tokenizer: send texts (in "
                    "LangChain, check_embedding_ctx_length=False).",
                )
            if not text:
                raise _refused(f"input[{index}]", "is empty. Leave it out.")
        return texts


def _refused(field: str, reason: str) -> ApiError:
    return ApiError(400, f"{field}: {reason}", param=field, code="invalid_value")
