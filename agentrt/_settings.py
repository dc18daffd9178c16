"""The base of everything that a user configures."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from .errors import ConfigurationError


class Settings(BaseModel):
    """Immutable settings; an unknown or impossible one raises :class:`ConfigurationError` and is named."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def __init__(self, **settings: Any) -> None:
        """Check every setting."""
        try:
            super().__init__(**settings)
        except ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in error.errors()
            )
            raise ConfigurationError(
                f"{type(self).__name__} cannot be used as given: {problems}. Correct these settings."
            ) from None
