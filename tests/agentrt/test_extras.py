import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from agentrt.errors import MissingExtraError
from agentrt.extras import INCLUDES, MODULES, missing_modules, needs_extra, require_extra

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
EXTRAS = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]


@pytest.mark.slow
def test_the_modules_are_those_that_the_extras_bring() -> None:
    # No part of "dev"; both are imported by their own names.
    distributions = {"redis": ["redis"], "playwright": ["playwright"], **metadata.packages_distributions()}
    for extra, modules in MODULES.items():
        names = {re.split(r"[^\w-]", requirement)[0] for requirement in EXTRAS[extra]} - {"agentrt"}
        assert all(names & set(distributions[module]) for module in modules), extra
        assert names <= {name for module in modules for name in distributions[module]}, extra


def test_the_included_extras_are_those_of_the_project() -> None:
    included = {
        extra: tuple(own.group(1).split(","))
        for extra in MODULES
        for requirement in EXTRAS[extra]
        if (own := re.fullmatch(r"agentrt\[([a-z,-]+)\]", requirement))
    }
    assert included == INCLUDES


def test_missing_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing_modules("runtime") == []
    monkeypatch.setitem(sys.modules, "openvino_genai", None)
    assert missing_modules("runtime") == ["openvino_genai"]


def test_an_extra_needs_those_it_includes(monkeypatch: pytest.MonkeyPatch) -> None:
    require_extra("serve")
    monkeypatch.setitem(sys.modules, "openvino_genai", None)
    for extra in ("demo", "serve"):
        with pytest.raises(MissingExtraError, match=rf"openvino_genai is not installed.*agentrt\[{extra}\]"):
            require_extra(extra)  # type: ignore[arg-type]
    require_extra("gateway")


def test_a_failed_import_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(MissingExtraError, match=r"uvicorn.*agentrt\[gateway\]"), needs_extra("gateway"):
        import uvicorn.server
    with pytest.raises(MissingExtraError, match=r"agentrt\[serve\]"), needs_extra("serve"):
        import uvicorn  # noqa: F401


def test_a_module_that_no_extra_brings_keeps_its_error() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module") as raised, needs_extra("gateway"):
        import no_such_module  # type: ignore[import-not-found] # noqa: F401
    assert not isinstance(raised.value, MissingExtraError)
