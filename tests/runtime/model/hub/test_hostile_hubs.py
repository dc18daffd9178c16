"""``pull_model`` before hubs that are silent, wrong or hostile, and addresses that name no file."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.errors import ModelDownloadError
from agentrt.runtime.model.hub import client
from agentrt.runtime.model.hub.pull import pull_model
from tests.runtime.model.hub.hub_server import asked_at

NAME = "o/n:q4_0"
HUB = "https://mirror.example"
COMMIT = "b" * 40
CONTENT = b"GGUF" + b"x" * 500
SHA256 = hashlib.sha256(CONTENT).hexdigest()
FILE = {"rfilename": "m-q4_0.gguf", "lfs": {"sha256": SHA256}}
HEADERS = {"etag": f'"{SHA256}"', "x-repo-commit": COMMIT}

Answer = Callable[[httpx2.Request], httpx2.Response]


def hub_of(listing: Any, headers: Any = HEADERS, status: int = 200) -> Answer:
    """Return what answers as a hub with this listing, and with these headers of each file."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.path.startswith("/api/models/"):
            if isinstance(listing, httpx2.SyncByteStream):
                return httpx2.Response(200, stream=listing)
            body = listing if isinstance(listing, bytes) else json.dumps(listing).encode()
            return httpx2.Response(200, content=body)
        if request.method == "HEAD":
            return httpx2.Response(status, headers=headers)
        return httpx2.Response(200, stream=httpx2.ByteStream(CONTENT))

    return answer


@contextmanager
def answering(answer: Answer, root: Path) -> Iterator[list[httpx2.Request]]:
    """Let ``answer`` answer every request; yield the requests. The cache folders are below ``root``."""
    requests = []

    def handle(transport: object, request: httpx2.Request) -> httpx2.Response:
        requests.append(request)
        return answer(request)

    with asked_at(HUB, root) as patch:
        patch.setattr(httpx2.HTTPTransport, "handle_request", handle)
        yield requests


class Endless(httpx2.SyncByteStream):
    """A body that does not end."""

    sent = 0

    def __iter__(self) -> Iterator[bytes]:
        while True:
            self.sent += 2**16
            yield b" " * 2**16


@pytest.mark.parametrize(
    ("listing", "says"),
    [
        ([1], "Input should be an object"),
        ({"siblings": {"a": 1}}, "siblings: Input should be a valid array"),
        ({"siblings": [{"rfilename": 5}]}, "rfilename: Input should be a valid string"),
        ({"siblings": [FILE | {"lfs": {"sha256": 7}}]}, "sha256: Input should be a valid string"),
        ({"siblings": [FILE | {"lfs": {"sha256": "../x"}}]}, "sha256: String should match"),
        (b"[" * 200_000 + b"]" * 200_000, "recursion limit"),
        (b"<html>login</html>", "whether the network asks for a login"),
        (Endless(), "sends more than 67108864 bytes"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_is_no_listing_is_said_with_its_address(tmp_path: Path, listing: Any, says: str) -> None:
    with answering(hub_of(listing), tmp_path), pytest.raises(ModelDownloadError) as raised:
        pull_model(NAME)
    assert str(raised.value).startswith(f"{HUB}/api/models/o/n ")
    assert says in str(raised.value)
    assert "Check HF_ENDPOINT" in str(raised.value)


def shard(number: int, count: int = 3, stem: str = "m") -> dict[str, str]:
    return {"rfilename": f"{stem}-q4_0-{number:05}-of-{count:05}.gguf"}


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ([shard(1), shard(3)], "the 3 files of 'm-q4_0': number 2 is missing"),
        ([shard(2), shard(3)], "number 1 is missing"),
        ([shard(1, 1), shard(2, 1)], "number 2 is one too many"),
        (
            [shard(1, 1), FILE, shard(1, 1, "big")],
            "several models of this quantisation: 'big-q4_0', 'm-q4_0'",
        ),
        ([{"rfilename": "../m-q4_0.gguf"}], "cannot be stored: '..' is a folder"),
        ([{"rfilename": "a\0-q4_0.gguf"}], "'a\\x00-q4_0.gguf', which cannot be stored"),
    ],
)
def test_listed_files_that_are_no_model(tmp_path: Path, files: list[Any], says: str) -> None:
    with answering(hub_of({"siblings": files}), tmp_path) as requests, pytest.raises(ModelDownloadError) as e:
        pull_model(NAME)
    assert says in str(e.value)
    assert len(requests) == 1, "nothing is downloaded"


def test_the_projector_beside_a_model_is_not_downloaded(tmp_path: Path) -> None:
    files = [FILE, {"rfilename": "mmproj-m-q4_0.gguf"}]
    with answering(hub_of({"siblings": files}), tmp_path):
        assert pull_model(NAME).name == "m-q4_0.gguf"


OUTSIDE = [
    "../../../outside",
    '"../../../outside"',
    'W/"../../../outside"',
    "W..",
    "WW/",
    "a\\b",
    "ROOT/outside",
]


@pytest.mark.parametrize("header", ["etag", "x-linked-etag", "x-repo-commit"])
@pytest.mark.parametrize("value", OUTSIDE)
def test_no_header_names_a_path(tmp_path: Path, header: str, value: str) -> None:
    headers = HEADERS | {header: value.replace("ROOT", str(tmp_path)), "location": "https://cdn.example/x"}
    for status in (200, 302):
        with (
            answering(hub_of({"siblings": [FILE]}, headers, status), tmp_path),
            pytest.raises(ModelDownloadError, match=rf"^{HUB}/o/n/resolve/.* Check HF_ENDPOINT"),
        ):
            pull_model(NAME)
    assert outside(tmp_path / "cache", tmp_path) == []


def outside(cache: Path, top: Path) -> list[Path]:
    """Return what lies below ``top`` outside the cache folder."""
    return [path for path in top.rglob("*") if not (path.is_relative_to(cache) or cache.is_relative_to(path))]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FILE_NAMES = st.sampled_from(
    [
        "m-q4_0.gguf",
        "../m-q4_0.gguf",
        "a/../../m-q4_0.gguf",
        "ROOT/m-q4_0.gguf",
        ".-q4_0.gguf",
        "q4_0.gguf/..",
    ]
) | st.text(max_size=6).map(lambda text: f"{text}-q4_0.gguf")
FILES = st.fixed_dictionaries(
    {"rfilename": FILE_NAMES | JSON}, optional={"lfs": st.just(FILE["lfs"]) | JSON, "size": JSON}
)
LISTINGS = st.one_of(
    st.just({"siblings": [FILE]}),
    st.fixed_dictionaries({"siblings": st.lists(FILES, max_size=3)}, optional={"sha": JSON}),
    JSON,
    st.binary(max_size=20),
)
VALUES = st.sampled_from(
    [*OUTSIDE, COMMIT, f'"{SHA256}"', "", "..", "5", HUB, "https://[", "RepoNotFound"]
) | st.text(st.characters(codec="latin-1"), max_size=12)
NAMES = [
    "etag",
    "x-linked-etag",
    "x-repo-commit",
    "x-linked-size",
    "location",
    "x-error-code",
    "x-xet-hash",
    "link",
]
ANY_HEADERS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4)


@pytest.mark.filterwarnings("ignore:Not enough free disk space")
@given(listing=LISTINGS, headers=ANY_HEADERS, status=st.sampled_from([200, 200, 302, 404, 416, 503]))
def test_any_answer_is_a_typed_error_or_files_in_the_cache(
    listing: Any, headers: dict[str, str], status: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "a" / "b"
        listing = listing if isinstance(listing, bytes) else json.dumps(listing).replace("ROOT", str(root))
        sent = [
            (name.encode(), value.replace("ROOT", str(root)).encode("latin-1"))
            for name, value in (HEADERS | headers).items()
        ]
        listing = listing.encode() if isinstance(listing, str) else listing
        with answering(hub_of(listing, sent, status), root), suppress(ModelDownloadError):
            path = pull_model(NAME)
            assert path.resolve().is_relative_to(root / "cache" / "hf")
            assert path.is_file()
        assert outside(root / "cache", Path(folder).resolve()) == []


def silence(request: httpx2.Request) -> httpx2.Response:
    raise httpx2.ReadTimeout("timed out", request=request)


def test_a_silent_hub_is_said_before_and_after_the_wait(tmp_path: Path) -> None:
    said: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        assert said == [f"asking {HUB} for the files of o/n"]
        return silence(request)

    with answering(answer, tmp_path) as requests, pytest.raises(ModelDownloadError) as raised:
        pull_model(NAME, say=said.append)
    assert f"could not be downloaded from {HUB} (ReadTimeout" in str(raised.value)
    assert said[1:] == [f"no answer within 10 s from {HUB}/api/models/o/n"]
    assert len(requests) == 1


def test_a_hub_that_falls_silent_is_asked_twice(tmp_path: Path) -> None:
    listed = hub_of({"siblings": [FILE]})
    said: list[str] = []
    with (
        answering(
            lambda sent: silence(sent) if sent.method == "HEAD" else listed(sent), tmp_path
        ) as requests,
        pytest.raises(
            ModelDownloadError, match=r"m-q4_0\.gguf could not be downloaded: no answer within 10 s"
        ),
    ):
        pull_model(NAME, say=said.append)
    assert [sent.method for sent in requests] == ["GET", "HEAD", "HEAD"]
    assert len(said) == 3


def test_every_wait_is_bounded(tmp_path: Path) -> None:
    with answering(hub_of({"siblings": [FILE]}), tmp_path) as requests:
        pull_model(NAME)
        pull_model(f"{HUB}/x.gguf", sha256=SHA256)
    assert [sent.method for sent in requests] == ["GET", "HEAD", "GET", "GET"]
    for sent in requests:
        assert set(sent.extensions["timeout"].values()) == {10}


def test_a_hub_that_sends_more_than_it_announced(tmp_path: Path) -> None:
    answer, body = hub_of({"siblings": [FILE]}, HEADERS | {"x-linked-size": "500"}), Endless()

    def endless(request: httpx2.Request) -> httpx2.Response:
        is_file = request.method == "GET" and "/resolve/" in request.url.path
        return httpx2.Response(200, stream=body) if is_file else answer(request)

    with answering(endless, tmp_path), pytest.raises(ModelDownloadError, match="sends more than 500 bytes"):
        pull_model(NAME)
    assert body.sent == 2**16


def test_a_listing_that_drips_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_MAX_S", 0.0)
    with answering(hub_of(Endless()), tmp_path), pytest.raises(ModelDownloadError, match="takes longer than"):
        pull_model(NAME)


@pytest.mark.parametrize("headers", [{}, {"content-length": "500"}])
def test_an_address_that_sends_more_than_it_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str]
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=10**6))
    with (
        answering(lambda _: httpx2.Response(200, headers=headers, stream=Endless()), tmp_path),
        pytest.raises(ModelDownloadError, match=r"sends more bytes than it announced.*It was deleted"),
    ):
        pull_model(f"{HUB}/x.gguf", sha256=SHA256)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("revision", ["../x", "a//b", "", "/x", "a\nb"])
def test_a_revision_is_no_path_elsewhere(tmp_path: Path, revision: str) -> None:
    with answering(silence, tmp_path) as requests, pytest.raises(ModelDownloadError, match="is no revision"):
        pull_model(NAME, revision=revision)
    assert requests == []


@pytest.mark.parametrize(
    ("paths", "says"),
    [
        (("/..", "/%2e%2e", "/.", "/x/%2e%2e%2fy"), "under which nothing can be stored"),
        (("/a%00b", "/a%0ab", "/con", "/" + "a" * 300), "under which nothing can be stored"),
        (("/a\nb", "/a\0b", "/\udcff", ":x/y"), "is not the address of a file"),
    ],
    ids=ascii,
)
def test_addresses_that_name_no_file(tmp_path: Path, paths: tuple[str, ...], says: str) -> None:
    with answering(silence, tmp_path) as requests:
        for path in paths:
            with pytest.raises(ModelDownloadError, match=says):
                pull_model(HUB + path, sha256=SHA256)
    assert requests == []


@given(st.text(max_size=12) | st.text("./%20efE:?#@[]\\\0\n", max_size=12))
def test_any_address_is_a_typed_error_or_a_file_of_its_digest(path: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        with (
            answering(lambda _: httpx2.Response(200, stream=httpx2.ByteStream(CONTENT)), root),
            suppress(ModelDownloadError),
        ):
            pulled = pull_model(f"{HUB}/{path}", sha256=SHA256)
            assert pulled.parent == root / "cache" / "agentrt" / "models" / "downloads" / SHA256
            assert pulled.read_bytes() == CONTENT
        assert outside(root / "cache", root) == []


def test_which_server_of_an_address_is_asked(tmp_path: Path) -> None:
    said: list[str] = []
    with answering(silence, tmp_path), pytest.raises(ModelDownloadError, match="could not be downloaded"):
        pull_model(f"{HUB}/x.gguf", sha256=SHA256, say=said.append)
    assert said == ["asking mirror.example for x.gguf"]
