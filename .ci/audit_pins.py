"""Known vulnerabilities of the packages in constraints.txt, by pip-audit.

    python .ci/audit_pins.py constraints.txt

Exits 1 if a pinned version has one. Where the advisory service cannot be reached, or does not know the
packages, it says so and exits 0.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

_SECONDS = 300


def audited(pins: str) -> list[dict[str, Any]] | None:
    """Return pip-audit's report on each package of ``pins``; None if it has made none."""
    command = [sys.executable, "-m", "pip_audit", "--requirement", pins, "--no-deps", "--disable-pip"]
    command += ["--progress-spinner", "off", "--format", "json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
        report: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError):
        return None
    return report


def vulnerable(report: list[dict[str, Any]]) -> list[str]:
    """Return a line for each known vulnerability, with the versions that mend it."""
    return [
        f"{package['name']} {package['version']}: {found['id']}, mended in "
        + (", ".join(found["fix_versions"]) or "no version")
        for package in report
        for found in package.get("vulns", ())
    ]


def main(pins: str) -> int:
    """Print what is known about ``pins``; return the exit code."""
    report = audited(pins)
    if report is None or all("skip_reason" in package for package in report):
        print("WARNING: NO ADVISORIES WERE READ: their service cannot be reached from here.", file=sys.stderr)
        return 0
    found = vulnerable(report)
    unknown = [package["name"] for package in report if "skip_reason" in package]
    print(f"{len(report) - len(unknown)} pinned packages audited, {len(found)} vulnerabilities")
    if unknown:
        print(f"not audited: {', '.join(unknown)}")
    print(*found, sep="\n", end="\n" if found else "")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
