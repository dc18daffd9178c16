from __future__ import annotations

from pathlib import Path

import pytest

from agentrt.runtime import EmbeddingModel
from tests.runtime.pool.tiny_bert import write_tiny_bert


@pytest.fixture(scope="session")
def bert_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_bert(tmp_path_factory.mktemp("embedding") / "tiny-bert")


@pytest.fixture(scope="session")
def bert(bert_folder: Path) -> EmbeddingModel:
    return EmbeddingModel.open(bert_folder)
