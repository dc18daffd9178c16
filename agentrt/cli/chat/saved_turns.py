"""The turns of the last conversation, kept for ``agentrt chat --resume``."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from langchain_core.messages import messages_from_dict, messages_to_dict

from ...errors import ConfigurationError
from ...own_files import OwnFileError, read_own_file, replace_own_file

if TYPE_CHECKING:
    from langchain_core.messages import AnyMessage

_MOST_BYTES: Final = 2**19
"""Of the file. What is older is not kept: far less of it fits into a request."""
_log = logging.getLogger(__name__)


class SavedTurns:
    """A file of the user with the turns of a conversation, which only the user can read."""

    def __init__(self, path: Path | None = None) -> None:
        """``path`` is ``chat_conversation.json`` in the user's state folder by default."""
        import platformdirs

        self._path = path or platformdirs.user_state_path("agentrt") / "chat_conversation.json"

    def load(self) -> list[list[AnyMessage]]:
        """Return the turns; none if none were kept.

        Raises:
            ConfigurationError: the file cannot be read, or is no conversation.
        """
        if not self._path.exists():
            return []
        try:
            turns = json.loads(read_own_file(self._path))
            return [messages_from_dict(turn) for turn in turns]  # type: ignore[misc]
        except OwnFileError as error:
            raise ConfigurationError(f"{self._path} cannot be used: {error}.") from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ConfigurationError(
                f"{self._path} holds no conversation. Delete it, or leave out --resume."
            ) from error

    def save(self, turns: Sequence[Sequence[AnyMessage]]) -> None:
        """Replace what is kept, at once or not at all; a failure is logged, as the conversation goes on."""
        kept: list[str] = []
        room = _MOST_BYTES
        for turn in reversed(turns):
            kept.insert(0, json.dumps(messages_to_dict(turn)))
            room -= len(kept[0])
            if room < 0:
                del kept[0]
                break
        try:
            replace_own_file(self._path, f"[{', '.join(kept)}]")
        except OSError as error:
            _log.warning("the conversation is not kept: %s", error)
