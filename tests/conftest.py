import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import certifi
import pytest

from agentrt.__main__ import main
from agentrt.calls import registry
from agentrt.testing import free_prediction
from tests.external_commands import (  # noqa: F401 - hooks
    pytest_addoption,
    pytest_configure,
    pytest_runtest_setup,
    pytest_unconfigure,
)
from tests.fixed_costs import fix_costs, measure_costs
from tests.hypothesis_profiles import thin_out

TESTS = Path(__file__).parent
END = "-----END CERTIFICATE-----\n"

MARKED_BY_FOLDER = {
    **dict.fromkeys(("attack", "bench", "examples", "training"), "check"),  # of what is not the product
    "adapters": "framework",
}

Command = Callable[..., tuple[object, str, str]]

# A test that takes one of these fixtures, directly or through another one, has the marker.
MARKED_BY_FIXTURE = {
    "real_model": {"exact_runtime", "nano_directory", "open_runtime", "shared_runtime", "tiny_folder"},
    "socket": {"shared_server", "shared_engine", "server", "start", "play"},
    "needs:redis-server": {"redis"},
    "needs:chromium": {"browser", "tab"},
}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file of which ``-m`` would select nothing."""
    marker = MARKED_BY_FOLDER.get(collection_path.name) if collection_path.parent == TESTS else None
    return (marker is not None and f"not {marker}" in config.option.markexpr) or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add markers by fixtures and folders, and thin matrices out, before ``-m`` selects."""
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        for marker, makers in MARKED_BY_FIXTURE.items():
            if makers & fixtures:
                name, *arguments = marker.split(":")
                item.add_marker(getattr(pytest.mark, name)(*arguments))
        marker = MARKED_BY_FOLDER.get(item.path.relative_to(TESTS).parts[0])
        if marker is not None:
            item.add_marker(marker)
    left_out = thin_out(items)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


@pytest.fixture(scope="session", autouse=True)
def _folders_of_our_own(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[None]:
    """Profiles, settings and histories of tests are not the user's, in processes that they start as well."""
    with pytest.MonkeyPatch.context() as patch:
        for kind in ("cache", "config", "data", "state"):
            patch.setenv(f"XDG_{kind.upper()}_HOME", str(tmp_path_factory.mktemp(kind)))
        if sys.platform == "linux" and getattr(pytestconfig, "cache", None):
            # Native products are compiled in half a minute, into a file named after all that it depends on:
            # once for all runs.
            ours = Path(os.environ["XDG_CACHE_HOME"]) / "agentrt"
            ours.mkdir()
            (ours / "native").symlink_to(pytestconfig.cache.mkdir("native"))
        # Every client reads what it trusts: one certificate, not all of the Web's, which take 25 ms.
        trusted = tmp_path_factory.mktemp("trusted") / "certificate.pem"
        trusted.write_text(Path(certifi.where()).read_text().partition(END)[0] + END)
        patch.setenv("SSL_CERT_FILE", str(trusted))
        yield


@pytest.fixture(scope="session", autouse=True)
def _fixed_costs() -> Iterator[None]:
    """The runtime of this process decides by costs that do not depend on how fast the machine is."""
    with pytest.MonkeyPatch.context() as patch:
        fix_costs(patch)
        yield


@pytest.fixture
def measured_costs() -> Iterator[None]:
    """For tests of measuring: costs of kernels and reads are those of this machine."""
    with pytest.MonkeyPatch.context() as patch:
        measure_costs(patch)
        yield


@pytest.fixture
def prediction_is_free() -> Iterator[None]:
    """For modules whose tools and models take no time."""
    with free_prediction():
        yield


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs a command line in this process; returns its exit code, standard output and standard error."""

    def run_here(*arguments: str) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["agentrt", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return (ended.value.code, *capsys.readouterr())

    return run_here


@pytest.fixture
def install_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Puts a distribution on the path, as pip would install it, that adds a tool-call format."""

    def install(source: str, entry_point: str = "acme = acme_agentrt:ACME") -> None:
        (tmp_path / "acme_agentrt.py").write_text(source, encoding="utf-8")
        metadata = tmp_path / "acme_agentrt-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-agentrt\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[agentrt.tool_call_formats]\n{entry_point}\n")
        monkeypatch.syspath_prepend(tmp_path)
        registry._installed_formats.cache_clear()

    yield install
    registry._installed_formats.cache_clear()
    sys.modules.pop("acme_agentrt", None)
