"""The licence of every installed package. Exits 1 if one has none, or none of those that are accepted.

Run by .ci/run with the Python of the environment that has the wheel and all that it brings.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from importlib import metadata

ACCEPTED = re.compile(
    "Apache|BSD|CC0|HPND|ISC|MIT|MPL|Mozilla Public License 2|PSF|Python Software Foundation|Unlicense|Zlib"
)
"""Permissive licences, and one that asks for nothing beyond the changed files of the package itself."""


def licence_of(package: metadata.PackageMetadata) -> str:
    """Return the licence that a package names: as an expression, by classifiers, or as text."""
    named = package.get("License-Expression")
    classified = [
        line.rpartition(" :: ")[2] for line in package.get_all("Classifier", []) if "License ::" in line
    ]
    return named or "; ".join(classified) or (package.get("License") or "").partition("\n")[0]


def refused(licences: Mapping[str, str]) -> list[str]:
    """Return the packages whose licence is missing or not accepted."""
    return [name for name, licence in licences.items() if not ACCEPTED.search(licence)]


def main() -> int:
    """Print a line for each package; return the exit code."""
    licences = {
        f"{package.metadata['Name']} {package.version}": licence_of(package.metadata)
        for package in metadata.distributions()
    }
    for name in sorted(licences, key=str.lower):
        print(f"{name}: {licences[name] or 'no licence'}")
    problems = refused(licences)
    print(*(f"not accepted: {name}" for name in problems), sep="\n", end="\n" if problems else "")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
