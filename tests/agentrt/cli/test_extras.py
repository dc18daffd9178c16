import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from agentrt.cli.extras import MODULES, missing_modules, require_demo
from agentrt.errors import MissingExtraError

PROJECT = Path(__file__).parents[3] / "pyproject.toml"


def test_the_modules_are_those_that_the_extras_bring() -> None:
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    distributions = metadata.packages_distributions()
    for extra, modules in MODULES.items():
        names = {re.split(r"[^\w-]", requirement)[0] for requirement in extras[extra]} - {"agentrt"}
        assert all(names & set(distributions[module]) for module in modules), extra
        assert names <= {name for module in modules for name in distributions[module]}, extra


def test_demo_includes_what_its_check_asks_for() -> None:
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    assert any(re.fullmatch(r"agentrt\[cli,langgraph,runtime\]", line) for line in extras["demo"])


def test_missing_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing_modules("runtime") == []
    monkeypatch.setitem(sys.modules, "openvino_genai", None)
    assert missing_modules("runtime") == ["openvino_genai"]
    with pytest.raises(MissingExtraError, match=r"openvino_genai is not installed.*agentrt\[demo\]"):
        require_demo()
