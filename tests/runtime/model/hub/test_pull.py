"""``agentrt pull`` against a real server that speaks the hub's API."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentrt.bench.common.bench_model import open_given_models
from agentrt.bench.common.random_gguf import ModelShape, write_random_gguf
from agentrt.errors import ModelNotFoundError
from agentrt.runtime import LocalRuntime
from agentrt.runtime.model.directory import find_model, open_model_directory
from agentrt.runtime.model.hub.pulled import find_pulled, forget_pulled, pulled_models, remember_pulled
from agentrt.runtime.nano import MODEL_DIRECTORY
from tests.conftest import Command
from tests.runtime.model.hub.hub_server import HubServer, serve_hub

GGUF = bytes(range(256)) * 4096
NANO = {
    file.name: file.read_bytes()
    for file in Path(MODEL_DIRECTORY).iterdir()
    if file.is_file() and file.suffix in (".xml", ".bin", ".json", ".jinja", ".txt")
}
REPOSITORIES = {
    "OpenVINO/nano-ov": {**NANO, "README.md": b"read me", "original/weights.bin": b"not wanted"},
    "Qwen/Tiny-GGUF": {
        "tiny-q4_k_m.gguf": GGUF,
        "tiny-q8_0-00001-of-00002.gguf": GGUF[:100],
        "tiny-q8_0-00002-of-00002.gguf": GGUF[100:],
        "README.md": b"",
    },
    "someone/torch": {"model.safetensors": b"x"},
}

Pull = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def hub() -> Iterator[HubServer]:
    with serve_hub(REPOSITORIES) as server:
        yield server


@pytest.fixture
def environment(hub: HubServer, tmp_path: Path) -> dict[str, str]:
    return {
        **os.environ,
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(tmp_path / "hf"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "LOCALAPPDATA": str(tmp_path / "cache"),
        "HOME": str(tmp_path),
        "COLUMNS": "400",
    }


@pytest.fixture
def pull(environment: dict[str, str]) -> Pull:
    def run(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "agentrt", "pull", *arguments],
            env={**environment, **more},
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run


def path_in(result: subprocess.CompletedProcess[str]) -> Path:
    assert result.returncode == 0, result.stderr
    return Path(result.stdout.splitlines()[0])


@pytest.mark.socket
def test_an_openvino_repository_is_pulled_once_and_opens_by_its_name(
    hub: HubServer, pull: Pull, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = path_in(pull("OpenVINO/nano-ov"))
    assert {file.name for file in path.iterdir()} == set(NANO)
    downloaded = sum(method == "GET" and "/resolve/" in url for method, url, _ in hub.requests)
    path_in(pull("OpenVINO/nano-ov"))
    assert sum(method == "GET" and "/resolve/" in url for method, url, _ in hub.requests) == downloaded
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA", "HOME"):
        monkeypatch.setenv(name, environment[name])
    assert open_model_directory("OpenVINO/nano-ov").path == path


@pytest.mark.socket
def test_a_quantisation_is_pulled_with_all_its_shards(pull: Pull) -> None:
    single = path_in(pull("Qwen/Tiny-GGUF:Q4_K_M"))
    assert single.read_bytes() == GGUF
    first = path_in(pull("Qwen/Tiny-GGUF:q8_0"))
    assert first.name == "tiny-q8_0-00001-of-00002.gguf"
    assert first.with_name("tiny-q8_0-00002-of-00002.gguf").read_bytes() == GGUF[100:]


@pytest.mark.socket
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["Qwen/Tiny-GGUF"], "q4_k_m, q8_0. Name one: agentrt pull Qwen/Tiny-GGUF:q4_k_m"),
        (["Qwen/Tiny-GGUF:q2_k"], "q4_k_m, q8_0"),
        (["someone/torch"], "neither openvino_model.xml nor GGUF files"),
        (["no/such"], "there is no repository no/such"),
        (["OpenVINO/nano-ov", "--revision", "v9"], "no revision 'v9'"),
    ],
)
def test_what_cannot_be_pulled_is_said_with_what_to_do(
    pull: Pull, arguments: list[str], message: str
) -> None:
    result = pull(*arguments)
    assert result.returncode != 0
    assert message in result.stderr + result.stdout
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["what is this"], "cannot be pulled"),
        (["./x.gguf"], "needs no pulling: name its path"),
        (["models/x.gguf"], "needs no pulling: name its path"),
        ([".hidden/x"], "cannot be pulled"),
        (["Qwen/a--b:q4"], "cannot be pulled"),
        (["Qwen/" + "a" * 92 + ":q4"], "cannot be pulled"),
        (["OpenVINO/nano-ov", "--sha256", "0" * 64], "needs no --sha256"),
        (["https://example.com/x.gguf"], "--sha256"),
        (["https://example.com/x.gguf", "--sha256", "abc"], "'abc' is not a SHA-256 digest"),
        (["https://example.com/x.gguf", "--sha256", "0" * 64, "--revision", "v1"], "has no --revision"),
        (["http://example.com/x.gguf", "--sha256", "0" * 64], "is not an https address"),
        (["https://", "--sha256", "0" * 64], "is not the address of a file: it has no host. Write https://"),
        (["https://[/x.gguf", "--sha256", "0" * 64], "is not the address of a file: Invalid IPv6 URL. Write"),
        (["https://x:99999/x.gguf", "--sha256", "0" * 64], "is not the address of a file: Port out of range"),
    ],
)
def test_what_no_hub_is_asked_for(command: Command, arguments: list[str], message: str) -> None:
    code, _, said = command("pull", *arguments)
    assert code == 2
    assert message in said


@pytest.mark.socket
def test_offline_says_what_to_check(pull: Pull, hub: HubServer) -> None:
    result = pull("OpenVINO/nano-ov", HF_ENDPOINT="http://127.0.0.1:9", HF_HUB_OFFLINE="0")
    assert result.returncode != 0
    assert "HF_ENDPOINT" in result.stderr
    assert "HF_HUB_OFFLINE" in pull("OpenVINO/nano-ov", HF_HUB_OFFLINE="1").stderr
    assert hub.requests == []


@pytest.mark.socket
def test_a_damaged_download_is_deleted(pull: Pull, hub: HubServer) -> None:
    hub.corrupt = True
    result = pull("Qwen/Tiny-GGUF:q4_k_m")
    assert "damaged on its way and deleted" in result.stderr
    hub.corrupt = False
    assert path_in(pull("Qwen/Tiny-GGUF:q4_k_m")).read_bytes() == GGUF


@pytest.mark.socket
def test_nothing_but_the_model_is_requested(pull: Pull, hub: HubServer) -> None:
    path_in(pull("Qwen/Tiny-GGUF:q4_k_m"))
    assert {url.split("?")[0].split("/")[1] for _, url, _ in hub.requests} <= {"api", "Qwen"}
    assert all("telemetry" not in url for _, url, _ in hub.requests)


@pytest.mark.socket
def test_a_pulled_gguf_file_opens_by_its_name_wherever_a_model_is_named(
    hub: HubServer,
    pull: Pull,
    environment: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "tiny.gguf"
    write_random_gguf(file, ModelShape("qwen2", 1, 64, 64, 2, 1, 512))
    hub.repositories = {"Qwen/Tiny-GGUF": {"tiny-q8_0.gguf": file.read_bytes()}}
    name = "Qwen/Tiny-GGUF:q8_0"
    path_in(pull(name))
    for variable in ("XDG_CACHE_HOME", "LOCALAPPDATA", "HOME"):
        monkeypatch.setenv(variable, environment[variable])
    assert find_model(name).name == "tiny-q8_0.gguf"
    assert open_given_models([name], lambda line: None)[name].title == "Tiny-GGUF:q8_0"
    with LocalRuntime.open(name) as runtime:
        made = runtime.generate([{"role": "user", "content": "Hello!"}], max_tokens=2, ignore_eos=True)
    assert made.usage.completion_tokens == 2


@pytest.mark.socket
def test_a_download_from_the_hub_is_resumed(pull: Pull, hub: HubServer) -> None:
    content = bytes(24 * 2**20)  # the hub's library writes 10 MiB at a time
    hub.repositories = {"Qwen/Tiny-GGUF": {"tiny-q4_k_m.gguf": content}}
    hub.break_after = 15 * 2**20
    assert path_in(pull("Qwen/Tiny-GGUF:q4_k_m")).read_bytes() == content
    begins = [headers["range"] for _, _, headers in hub.requests if "range" in headers]
    assert begins == [f"bytes={10 * 2**20}-"]


@pytest.mark.socket
def test_an_address_is_resumed_and_verified(pull: Pull, hub: HubServer) -> None:
    url = f"{hub.url}/Qwen/Tiny-GGUF/resolve/main/tiny-q4_k_m.gguf"
    digest = hashlib.sha256(GGUF).hexdigest()
    hub.break_after = 500_000
    broken = pull(url, "--sha256", digest)
    assert broken.returncode != 0
    assert "goes on where it broke off" in broken.stderr
    assert path_in(pull(url, "--sha256", digest.upper())).read_bytes() == GGUF
    assert hub.requests[-1][2]["range"].startswith("bytes=")
    wrong = pull(url, "--sha256", "0" * 64)
    assert "is not the file with SHA-256" in wrong.stderr
    downloads = path_in(pull(url, "--sha256", digest)).parents[1]
    assert [folder.name for folder in downloads.iterdir()] == [digest]


@pytest.mark.socket
def test_an_address_that_does_not_answer_leaves_no_folder(pull: Pull, tmp_path: Path) -> None:
    result = pull("http://127.0.0.1:9/x.gguf", "--sha256", "0" * 64)
    assert "could not be downloaded" in result.stderr
    assert not list(tmp_path.rglob("0" * 64))


@pytest.mark.socket
def test_a_cache_that_cannot_be_written_is_explained(pull: Pull, hub: HubServer, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_bytes(b"")
    cache = {"XDG_CACHE_HOME": str(blocked), "LOCALAPPDATA": str(blocked)}
    url = f"{hub.url}/Qwen/Tiny-GGUF/resolve/main/tiny-q4_k_m.gguf"
    stored = pull(url, "--sha256", hashlib.sha256(GGUF).hexdigest(), **cache)
    assert "make the folder writable" in stored.stderr
    named = pull("Qwen/Tiny-GGUF:q4_k_m", **cache)
    assert "its name could not be stored" in named.stderr
    downloaded = pull("Qwen/Tiny-GGUF:q4_k_m", HF_HOME=str(blocked))
    assert "(HF_HOME), or make it writable" in downloaded.stderr
    for result in (stored, named, downloaded):
        assert result.returncode != 0
        assert "Traceback" not in result.stderr


def test_a_pulled_name_is_found_until_its_files_are_gone(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"x")
    remember_pulled("a/b:q4", path, tmp_path)
    assert find_pulled("a/b:q4", tmp_path) == path
    assert pulled_models(tmp_path) == {"a/b:q4": path}
    path.unlink()
    assert find_pulled("a/b:q4", tmp_path) is None
    assert pulled_models(tmp_path) == {}
    forget_pulled("a/b:q4", tmp_path)
    (tmp_path / "pulled" / "damaged.json").write_text("{")
    assert pulled_models(tmp_path) == {}


def test_a_name_that_was_not_pulled_says_how_to(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match="agentrt pull Qwen/Not-Here-GGUF:q4_k_m"):
        open_model_directory("Qwen/Not-Here-GGUF:q4_k_m")


@pytest.mark.parametrize("path", ["./nope", "../nope", "folder/x.gguf", "~/nope", ".hidden/x", "/no/such"])
def test_what_looks_like_a_path_is_not_to_be_pulled(path: str) -> None:
    with pytest.raises(ModelNotFoundError) as raised:
        find_model(path)
    assert "agentrt pull" not in str(raised.value)


def test_an_address_is_pulled_with_its_digest() -> None:
    with pytest.raises(ModelNotFoundError, match=r"agentrt pull https://a\.example/x\.gguf --sha256 DIGEST"):
        find_model("https://a.example/x.gguf")
