"""OpenVINO's errors, made short."""

from __future__ import annotations


def last_line(error: Exception) -> str:
    """OpenVINO's errors are stacks of source locations; the last line says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1].rstrip(".") + "." if lines else type(error).__name__
