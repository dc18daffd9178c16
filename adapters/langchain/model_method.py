"""The methods by which LangChain sends a request to a chat model."""

from __future__ import annotations

from enum import StrEnum


class ModelMethod(StrEnum):
    """One of the four methods that a chat model may implement, by its name."""

    GENERATE = "_generate"
    AGENERATE = "_agenerate"
    STREAM = "_stream"
    ASTREAM = "_astream"

    @property
    def is_async(self) -> bool:
        """Whether the method runs on the caller's event loop."""
        return self in (ModelMethod.AGENERATE, ModelMethod.ASTREAM)

    @property
    def is_streamed(self) -> bool:
        """Whether the method yields chunks, not one result."""
        return self in (ModelMethod.STREAM, ModelMethod.ASTREAM)
