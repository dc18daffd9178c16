"""The entry point of ``agentrt`` and ``python -m agentrt``."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from .errors import AgentRTError, MissingExtraError


def main() -> None:
    """Run the command line with this process's arguments; it always ends by raising :class:`SystemExit`.

    An :class:`AgentRTError` becomes one line on standard error and exit code 2. Any other exception is a
    fault of agentrt and keeps its traceback.
    """
    try:
        for module in ("rich", "typer"):
            if find_spec(module) is None:
                raise MissingExtraError(module, "cli")
        from .cli.main import app

        app()
    except AgentRTError as error:
        print(f"agentrt: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
