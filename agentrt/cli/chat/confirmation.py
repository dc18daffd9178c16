"""Questions to the user whether a call may run."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession

if TYPE_CHECKING:
    from prompt_toolkit.output import Output


class Confirmation:
    """Asks on the terminal, one question at a time. Anything but yes is no."""

    def __init__(self, output: Output | None = None) -> None:
        """Write the questions to ``output``, by default to standard output."""
        self._session: PromptSession[str] = PromptSession(
            output=output, interrupt_exception=_InterruptedError
        )
        self._one_at_a_time = asyncio.Lock()

    async def why_not(self, call: str) -> str | None:
        """Return why ``call`` may not run, None if it may. Ctrl-C ends the answer in progress."""
        async with self._one_at_a_time:
            try:
                said = await self._session.prompt_async(f"  run {call}? [y/N] ", handle_sigint=False)
            except EOFError:
                said = ""
            except _InterruptedError:
                # The runner cancels the answer, as it does where no prompt is open.
                signal.raise_signal(signal.SIGINT)
                await asyncio.Event().wait()
        return None if said.strip().lower() in ("y", "yes") else "the user has declined this call"


class _InterruptedError(Exception):
    """Ctrl-C was pressed."""
