"""JSON files of model directories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agentrt.errors import ModelFormatError


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file of a model.

    Raises:
        ModelFormatError: the file is missing, no JSON, or holds something else.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelFormatError(f"{path} is missing. Copy it from the original model.") from None
    except (ValueError, RecursionError) as error:
        raise ModelFormatError(
            f"{path} cannot be read as JSON ({error}). Copy it again from the original model."
        ) from error
    if not isinstance(content, dict):
        raise ModelFormatError(f"{path} must hold a JSON object. Copy it again from the original model.")
    return content
