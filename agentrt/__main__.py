"""The entry point of ``agentrt`` and ``python -m agentrt``."""

from __future__ import annotations

import sys

from .errors import AgentRTError
from .extras import require_extra


def main() -> None:
    """Run the command line with this process's arguments. It always raises :class:`SystemExit`.

    An :class:`AgentRTError` is printed as one line on standard error, with exit code 2. Any other exception
    is a fault of agentrt and keeps its traceback. The code is 130 after Ctrl-C.
    """
    try:
        require_extra("cli")
        from .cli.main import app

        app()
    except AgentRTError as error:
        print(f"agentrt: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:  # before the command line handles it
        sys.exit(130)


if __name__ == "__main__":
    main()
