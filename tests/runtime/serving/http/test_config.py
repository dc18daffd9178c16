from __future__ import annotations

from typing import Any

import pytest

from agentrt.errors import ConfigurationError
from agentrt.runtime.serving.http.config import ListenConfig
from agentrt.runtime.serving.http.identity import Tokens


@pytest.mark.parametrize(
    ("settings", "allowed"),
    [
        ({}, True),
        ({"host": "localhost"}, True),
        ({"host": "::1"}, True),
        ({"host": "0.0.0.0"}, False),
        ({"host": "example.org"}, False),
        ({"host": "0.0.0.0", "tokens": Tokens([("a", "b")])}, True),
    ],
)
def test_only_this_machine_needs_no_token(settings: dict[str, Any], allowed: bool) -> None:
    config = ListenConfig(**settings)
    if allowed:
        config.check()
    else:
        with pytest.raises(ConfigurationError, match="token"):
            config.check()
