"""The base class of all settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from .errors import ConfigurationError

__all__ = ["Settings", "invalid_settings"]


class Settings(BaseModel):
    """Immutable, validated settings. Errors in them raise :class:`ConfigurationError`.

    Numbers are finite. The message names each field that is unknown or has an invalid value. Neither making
    nor changing settings raises pydantic's own :class:`~pydantic.ValidationError`.
    """

    called: ClassVar[str | None] = None
    """What errors call the settings, if not by the name of the class."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def __init__(self, **settings: Any) -> None:
        """Validate ``settings``, one keyword argument for each field."""
        try:
            super().__init__(**settings)
        except ValidationError as error:
            raise invalid_settings(self.called or type(self).__name__, error) from None

    # Pydantic then validates settings within settings without calling this constructor, so that their errors
    # come with their whole path.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    def __setattr__(self, name: str, value: Any) -> None:
        """Raise: settings are immutable."""
        try:
            super().__setattr__(name, value)
        except ValidationError:
            raise ConfigurationError(
                f"{type(self).__name__}.{name} cannot be changed. Make a changed copy with "
                f"model_copy(update={{{name!r}: ...}})."
            ) from None

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with the fields in ``update`` changed and validated."""
        if not update:
            return super().model_copy(deep=deep)
        return type(self)(**{**dict(self), **update})

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Self:
        """Make settings from a mapping."""
        try:
            return super().model_validate(obj, **options)
        except ValidationError as error:
            raise invalid_settings(cls.called or cls.__name__, error) from None

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        """Make settings from JSON text."""
        try:
            return super().model_validate_json(json_data, **options)
        except ValidationError as error:
            raise invalid_settings(cls.called or cls.__name__, error) from None


def invalid_settings(name: str, error: ValidationError) -> ConfigurationError:
    """Return pydantic's error in the settings of ``name`` as one that says what to correct."""
    problems = "; ".join(_text(problem["loc"], problem["msg"]) for problem in error.errors())
    return ConfigurationError(f"{name} cannot be used as given: {problems}. Correct these settings.")


def _text(place: tuple[int | str, ...], message: str) -> str:
    said = message.removeprefix("Value error, ").removesuffix(".")
    return f"{'.'.join(map(str, place))}: {said}" if place else said  # of several fields: it names them


def expanded_path(path: str | Path) -> Path:
    """Return ``path`` with its ``~`` expanded.

    Raises:
        ValueError: it is empty, or begins with the ``~`` of a user that has no home folder.
    """
    if path == "":
        raise ValueError("it is empty")
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise ValueError(f"{str(path)!r} begins with the home folder of nobody") from None
