"""The real GGUF files of the folder that AGENTRT_TEST_MODELS names; without it these tests are skipped."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentrt.runtime import LocalRuntime, RuntimeConfig

FOLDER = os.environ.get("AGENTRT_TEST_MODELS")
FILES = sorted(Path(FOLDER).glob("*.gguf"), key=lambda file: file.stat().st_size) if FOLDER else []
CONFIG = RuntimeConfig(
    inference_precision="f32",
    kv_cache_precision="f32",
    dynamic_quantization_group_size=0,
    memory_bytes=2**29,
)
"""Only in float32 do equal computations prefer equal tokens, in whatever batches they run."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = str(Path(__file__).parent)
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.real_model)
            item.add_marker(pytest.mark.slow)
            if not FILES:
                reason = f"AGENTRT_TEST_MODELS={FOLDER or ''} names no folder with GGUF files"
                item.add_marker(pytest.mark.skip(reason=reason))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests of ``file`` with each model, and tests of ``pair`` with each and the next smaller one."""
    if "pair" in metafunc.fixturenames:
        pairs = list(itertools.pairwise(FILES))
        metafunc.parametrize("pair", pairs, ids=[f"{small.stem}-for-{large.stem}" for small, large in pairs])
    elif "file" in metafunc.fixturenames:
        metafunc.parametrize("file", FILES, ids=[file.stem for file in FILES], scope="session")


@pytest.fixture(scope="session")
def runtime(file: Path) -> Iterator[LocalRuntime]:
    """The model in float32."""
    with LocalRuntime.open(file, CONFIG) as runtime:
        yield runtime
