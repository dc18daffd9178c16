"""Check a commit message: a subject of at most 72 characters, and an empty line below it.

Run by git as the ``commit-msg`` hook, with the file of the message as its argument.
"""

import sys
from pathlib import Path

MOST_CHARACTERS = 72


def problems(message: str) -> list[str]:
    """Return what is wrong with ``message``, each with what to do; git's comment lines do not count."""
    lines = [line for line in message.splitlines() if not line.startswith("#")]
    subject, *rest = lines or [""]
    found = []
    if not subject.strip():
        found.append("The first line is empty. Say there what changed.")
    if len(subject) > MOST_CHARACTERS:
        found.append(f"The subject has {len(subject)} characters. Shorten it to {MOST_CHARACTERS}.")
    if rest and rest[0].strip():
        found.append("The second line is not empty. Put an empty line below the subject.")
    return found


if __name__ == "__main__":
    found = problems(Path(sys.argv[1]).read_text(encoding="utf-8"))
    print(*found, sep="\n", file=sys.stderr, end="\n" if found else "")
    sys.exit(bool(found))
