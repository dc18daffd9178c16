"""Mail of an IMAP server, over sockets. The server of these tests knows commands that read, and no others."""

import base64
import contextlib
import datetime as dt
import errno
import ipaddress
import os
import re
import socketserver
import ssl
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from typer.testing import CliRunner

from agentrt.cli.main import app
from agentrt.errors import ConfigurationError
from agentrt.examples.assistant import imap
from agentrt.examples.assistant.data import PersonalData
from agentrt.examples.assistant.imap import LOOK_EVERY_S, Address, ImapMail, open_mail
from agentrt.examples.assistant.sources import Sources
from tests.patience import PATIENCE_S, until

PASSWORD = r'correct "horse\ battery'


def mail(subject: str, text: str = "Hello.") -> bytes:
    return f"From: Nadia <nadia@example.org>\r\nSubject: {subject}\r\n\r\n{text}\r\n".encode()


class Server(socketserver.ThreadingTCPServer):
    """An IMAP server with one account and one folder. It notes whatever would change a mail."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Connection)
        self.user, self.password = "anna@example.org", PASSWORD
        self.folder, self.validity = "INBOX", 7
        self.mails: dict[int, bytes] = {}
        self.seen: set[int] = set()
        self.withheld: set[int] = set()
        self.instead: dict[str, bytes] = {}
        """What it answers to a command, or first of all to "", before it closes the connection."""
        self.context: ssl.SSLContext | None = None
        self.open = threading.Event()
        self.open.set()
        """While it is not set, commands wait."""
        self.commands: list[str] = []
        self.sent: list[int] = []
        self.changes: list[str] = []

    @property
    def address(self) -> str:
        scheme = "imap" if self.context is None else "imaps"
        return f"{scheme}://{self.user}@127.0.0.1:{self.server_address[1]}/INBOX"

    def add(self, *subjects: str) -> None:
        for subject in subjects:
            self.mails[max(self.mails, default=0) + 1] = mail(subject)

    def get_request(self) -> Any:
        connection, address = super().get_request()
        if self.context is not None:
            connection = self.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients may break off."""


class Connection(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True
    server: Server

    def handle(self) -> None:
        if "" in self.server.instead:
            self.wfile.write(self.server.instead[""])
            return
        self.wfile.write(b"* OK ready\r\n")
        for line in self.rfile:
            tag, _, rest = line.decode().rstrip("\r\n").partition(" ")
            name = " ".join(rest.split()[: 2 if rest.startswith("UID ") else 1])
            self.server.commands.append(rest)
            if not self.server.open.wait(PATIENCE_S):
                return
            if name in self.server.instead:
                self.wfile.write(self.server.instead[name].replace(b"TAG", tag.encode()))
                return
            answer = getattr(self, f"on_{name.lower().replace(' ', '_')}", self.on_other)
            self.wfile.write(f"{tag} {answer(rest[len(name) + 1 :])}\r\n".encode())
            if name == "LOGOUT":
                return

    def on_capability(self, _: str) -> str:
        self.wfile.write(b"* CAPABILITY IMAP4rev1 AUTH=PLAIN\r\n")
        return "OK done"

    def on_login(self, arguments: str) -> str:
        given = [re.sub(r"\\(.)", r"\1", each) for each in re.findall(r'"((?:[^"\\]|\\.)*)"', arguments)]
        return self.enter(given)

    def on_authenticate(self, _: str) -> str:
        self.wfile.write(b"+ \r\n")
        return self.enter(base64.b64decode(self.rfile.readline()).decode().split("\0")[1:])

    def enter(self, given: list[str]) -> str:
        right = given == [self.server.user, self.server.password]
        return "OK done" if right else f"NO [AUTHENTICATIONFAILED] Invalid credentials {given[1]}"

    def on_examine(self, folder: str) -> str:
        if folder != f'"{self.server.folder}"':
            return "NO no such mailbox"
        uids, validity = len(self.server.mails), self.server.validity
        self.wfile.write(f"* {uids} EXISTS\r\n* OK [UIDVALIDITY {validity}] valid\r\n".encode())
        return "OK [READ-ONLY] done"

    def on_fetch(self, arguments: str) -> str:
        assert arguments.endswith(":* (UID FLAGS)"), arguments
        for number, uid in list(enumerate(sorted(self.server.mails), 1))[int(arguments.split(":")[0]) - 1 :]:
            flags = r"\Answered \Seen" if uid in self.server.seen else ""
            self.wfile.write(f"* {number} FETCH (FLAGS ({flags}) UID {uid})\r\n".encode())
        return "OK done"

    def on_uid_fetch(self, arguments: str) -> str:
        uids, wanted = arguments.split(" ", 1)
        limit = re.fullmatch(r"\(UID BODY\.PEEK\[\]<0\.(\d+)>\)", wanted)
        if limit is None:
            return self.on_other(arguments)
        for uid in map(int, uids.split(",")):
            if uid in self.server.withheld:
                continue
            content = self.server.mails[uid][: int(limit[1])]
            before, behind = (f"UID {uid} ", "") if uid % 2 else ("", f" UID {uid}")  # both are common
            self.wfile.write(f"* 1 FETCH ({before}BODY[]<0> {{{len(content)}}}\r\n".encode() + content)
            self.wfile.write(f"{behind})\r\n".encode())
            self.server.sent.append(uid)
        return "OK done"

    def on_logout(self, _: str) -> str:
        self.wfile.write(b"* BYE\r\n")
        return "OK done"

    def on_other(self, arguments: str) -> str:
        self.server.changes.append(arguments)
        return "BAD done"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


Open = Callable[..., ImapMail]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: tmp_path / "cache" / name)
    monkeypatch.setenv("AGENTRT_IMAP_PASSWORD", PASSWORD)
    return tmp_path / "cache"


@pytest.fixture
def server(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], cache: Path
) -> Iterator[Server]:
    """One with two mails, of which nothing may change, and which no output may give the password of."""
    with Server() as server:
        server.add("Roof", "Kayak")
        server.seen = {1}
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.001})
        thread.start()
        yield server
        server.shutdown()
        thread.join()
    assert server.changes == []
    assert server.password not in "".join([caplog.text, *capfd.readouterr()])
    assert not any(
        server.password.encode() in path.read_bytes() for path in cache.rglob("*") if path.is_file()
    )


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def opened(server: Server, clock: Clock) -> Open:
    """Opens the mail of the server, as ``agentrt chat`` does; it waits for whatever it fetches again."""

    def open_it(password: str = PASSWORD) -> ImapMail:
        address = Address.parse(server.address)
        assert address is not None
        return ImapMail(address, password, clock=clock, patience_s=PATIENCE_S)

    return open_it


def stop(server: Server) -> None:
    """Take no more connections."""
    server.shutdown()
    server.server_close()


def subjects(mirror: ImapMail) -> dict[str, bool]:
    """Return whether each mail is unread, by subject, as the assistant reads the mirror."""
    with contextlib.closing(PersonalData.open(mirror.folder)) as data:
        unread = data.mail.unread()
        return {each.subject: each in unread for each in data.mail.all()}


def files(mirror: ImapMail) -> dict[str, bytes]:
    found = (path for path in mirror.folder.rglob("*") if path.is_file())
    return {path.relative_to(mirror.folder).as_posix(): path.read_bytes() for path in found}


def test_mail_is_read_from_the_server_and_named_by_its_address(server: Server) -> None:
    told: list[str] = []
    mail = open_mail(["/home", server.address], told.append)
    assert told == [f"Fetching what is new in {server.address}"]
    (mirror,) = mail.values()
    with contextlib.closing(PersonalData.open(mirror.folder, mirrors=[mirror])) as data:
        assert data.description() == f"Reads 2 mails in {server.address}."
        assert data.mail.search("roof")[0].body == "Hello."
        assert [each.subject for each in data.mail.unread()] == ["Kayak"]
    assert server.commands[-1] == "LOGOUT"


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
def test_only_the_user_can_read_the_mirror(opened: Open) -> None:
    before = os.umask(0)
    try:
        folder = opened().folder
    finally:
        os.umask(before)
    assert [stat.S_IMODE(each.stat().st_mode) for each in (folder, folder.parent)] == [0o700, 0o700]


def test_a_mirror_is_left_out_of_a_folder_around_it(opened: Open, cache: Path) -> None:
    opened()
    (cache / "plan.txt").write_text("tulips")
    assert [source.place for source in Sources([cache]).find()] == ["plan.txt"]


def test_only_what_is_new_is_fetched_and_the_rest_follows_the_server(
    server: Server, opened: Open, clock: Clock
) -> None:
    assert subjects(opened()) == {"Roof": False, "Kayak": True}
    server.add("Jam")
    mirror = opened()
    assert subjects(mirror) == {"Roof": False, "Kayak": True, "Jam": True}
    assert sorted(server.sent) == [1, 2, 3]
    del server.mails[1]
    server.seen = {2}
    clock.now += LOOK_EVERY_S
    mirror.refresh()
    assert subjects(mirror) == {"Kayak": False, "Jam": True}
    server.mails.clear()
    clock.now += LOOK_EVERY_S
    mirror.refresh()
    assert list(files(mirror)) == ["complete"]


def test_the_newest_mails_are_mirrored(server: Server, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imap, "MOST_MAILS", 45)
    server.add(*map(str, range(100)))
    mirror = opened()
    assert list(subjects(mirror)) == [str(number) for number in range(55, 100)]
    assert "FETCH 58:* (UID FLAGS)" in server.commands
    server.add("Jam")
    assert list(subjects(opened())) == [*(str(number) for number in range(56, 100)), "Jam"]


def test_with_another_uidvalidity_all_mails_are_others(server: Server, opened: Open) -> None:
    opened()
    server.validity += 1
    server.mails = {1: mail("Other"), 2: mail("Kayak")}
    assert list(subjects(opened())) == ["Other", "Kayak"]
    assert server.sent == [2, 1, 2, 1]


def test_looking_at_mail_fetches_what_is_new_at_most_once_a_minute(
    server: Server, opened: Open, clock: Clock
) -> None:
    mirror = opened()
    with contextlib.closing(PersonalData.open(mirror.folder, mirrors=[mirror])) as data:
        server.add("Jam")
        clock.now += LOOK_EVERY_S - 1
        assert data.mail.search("jam") == []
        clock.now += 1
        with data.sources.seen_once():
            assert data.notes.search("jam") == []
            assert [each.subject for each in data.mail.search("jam")] == ["Jam"]
        server.add("Bread")
        assert data.mail.search("bread") == []
    assert server.commands.count("LOGOUT") == 2


def test_a_server_that_hangs_delays_no_look(server: Server, clock: Clock) -> None:
    address = Address.parse(server.address)
    assert address is not None
    mirror = ImapMail(address, PASSWORD, clock=clock, patience_s=0)
    server.add("Jam")
    server.open.clear()
    clock.now += LOOK_EVERY_S
    for _ in range(3):
        mirror.refresh()
    assert list(subjects(mirror)) == ["Roof", "Kayak"]
    server.open.set()
    until(lambda: list(subjects(mirror)) == ["Roof", "Kayak", "Jam"])
    until(lambda: server.commands.count("LOGOUT") == 2)


def test_a_large_mail_is_fetched_up_to_a_bound(server: Server, opened: Open) -> None:
    size = imap.LARGEST_PART
    server.mails = {1: mail("Long", f"first {'x' * size} last"), 2: mail("Roof")}
    mirror = opened()
    assert list(subjects(mirror)) == ["Long", "Roof"]
    assert max(map(len, files(mirror).values())) == size


def test_mails_that_the_server_does_not_send_are_left_out_and_said_once(
    server: Server, opened: Open, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    server.withheld = {1}
    mirror = opened()
    clock.now += LOOK_EVERY_S
    mirror.refresh()
    assert list(subjects(mirror)) == ["Kayak"]
    said = f"left out 1 of the mails in {server.address}, which the server does not send"
    assert caplog.messages == [said]


@pytest.mark.parametrize("password", ["wrong", r'wr"on\g', "wröng"])
def test_a_wrong_password_is_an_error_that_says_what_to_do(
    server: Server, opened: Open, caplog: pytest.LogCaptureFixture, password: str
) -> None:
    kept = files(opened())
    with pytest.raises(
        ConfigurationError, match=r"does not let anna@example\.org in.*app password"
    ) as raised:
        opened(password)
    assert password not in str(raised.value)
    assert raised.value.__cause__ is None
    assert kept == files(opened())
    assert password not in caplog.text


def test_what_the_server_says_of_a_refusal_is_said_without_the_password(server: Server, opened: Open) -> None:
    server.instead["LOGIN"] = b"TAG NO [ALERT] Application-specific password required\r\n"
    with pytest.raises(ConfigurationError, match=r"in: \[ALERT\] Application-specific password required\. C"):
        opened()
    escaped = imap._quoted(PASSWORD)[1:-1]
    for said in (b"TAG BAD what is %b?\r\n", b"what is %b?\r\n", b"* BYE not with %b\r\n"):
        for repeated in (PASSWORD, escaped):
            server.instead["LOGIN"] = said % repeated.encode()
            with pytest.raises(ConfigurationError) as raised:
                opened()
            assert repeated not in str(raised.value)
    base64_of_it = base64.b64encode(f"\0{server.user}\0päßword".encode())
    server.instead["AUTHENTICATE"] = b"TAG BAD what is %b?\r\n" % base64_of_it
    with pytest.raises(ConfigurationError) as raised:
        opened("päßword")
    assert base64_of_it.decode() not in str(raised.value)


@pytest.mark.parametrize("password", ["päßword", "a\r\nb LOGOUT"])
def test_a_password_of_other_letters(server: Server, opened: Open, password: str) -> None:
    server.password = password
    assert len(subjects(opened(password))) == 2
    assert "AUTHENTICATE PLAIN" in server.commands


def test_a_folder_that_is_not_there_is_an_error(server: Server, opened: Open) -> None:
    opened()
    server.folder = "Elsewhere"
    with pytest.raises(
        ConfigurationError, match=r"INBOX cannot be opened: no such mailbox\. Give the folder's"
    ):
        opened()


def test_without_the_server_the_mirror_is_read_and_its_age_is_said(
    server: Server, opened: Open, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    mirror = opened()
    kept = files(mirror)
    as_of = dt.datetime(2026, 11, 18, 17, 3).timestamp()
    os.utime(mirror.folder / "complete", (as_of, as_of))
    stop(server)
    mirror = opened()
    assert [each.replace("used", "") for each in caplog.messages] == [
        f"{server.address} cannot be read: Connection ref. Its mail is that of 2026-11-18 17:03."
    ]
    for _ in range(2):
        clock.now += LOOK_EVERY_S
        mirror.refresh()
    assert files(mirror) == kept
    assert len(caplog.messages) == 1


def test_a_failure_is_said_again_once_the_server_was_there(
    server: Server, opened: Open, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    mirror = opened()
    for instead in ({"FETCH": b""}, {"FETCH": b""}, {}, {"FETCH": b""}, {"LOGIN": b"TAG NO changed\r\n"}):
        server.instead = instead
        clock.now += LOOK_EVERY_S
        mirror.refresh()
    assert ["EOF" in said for said in caplog.messages] == [True, True]


def test_without_the_server_and_a_mirror_it_is_an_error(server: Server, opened: Open) -> None:
    stop(server)
    with pytest.raises(
        ConfigurationError, match=r"cannot be read: .*\. Check the address and the network\.$"
    ):
        opened()


WHOLE = b"* 1 FETCH (UID 3 BODY[]<0> {3}\r\nabc)\r\n"
GARBAGE = [
    ("", b""),
    ("", b"\xff\xfe\0garbage"),
    ("", b"* BYE too many connections\r\n"),
    ("", b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    ("CAPABILITY", b"* CAPABILITY \xff\r\nTAG OK\r\n"),
    ("CAPABILITY", b"TAG OK\r\n"),
    ("LOGIN", b""),
    ("LOGIN", b"* BYE too many connections\r\n"),
    ("LOGIN", b"* 1 FETCH (X {" + b"9" * 5000 + b"}\r\n"),
    ("EXAMINE", b"TAG OK done\r\n"),
    ("EXAMINE", b"* many EXISTS\r\n* OK [UIDVALIDITY 7]\r\nTAG OK done\r\n"),
    ("EXAMINE", b"* 3 EXISTS\r\n* OK [UIDVALIDITY ../7]\r\nTAG OK done\r\n"),
    ("EXAMINE", b"* 3 EXISTS {1}\r\n7\r\nTAG OK done\r\n"),
    ("FETCH", b"TAG NO not now\r\n"),
    ("FETCH", b"TAG OK done\r\n"),
    ("FETCH", b"* 1 FETCH (UID 3 FLAGS ())\r\nTAG OK done\r\n"),
    ("FETCH", b"* 1 FETCH (UID 3 FL"),
    ("FETCH", b"* 1 FETCH " + b"(" * 1_100_000),
    ("UID FETCH", b"* 1 FETCH (UID 3 BODY[]<0> {100}\r\nFrom: half a mail"),
    ("UID FETCH", b"* 1 FETCH (UID 3 BODY[]<0> {99999999999999}\r\n"),
    ("UID FETCH", WHOLE),
    ("UID FETCH", b"TAG NO not now\r\n"),
    ("UID FETCH", b"TAG BAD \xff\r\n"),
]


@pytest.mark.parametrize(("name", "answer"), GARBAGE)
def test_garbage_is_a_typed_error_and_leaves_the_mirror_as_it_is(
    server: Server, opened: Open, clock: Clock, caplog: pytest.LogCaptureFixture, name: str, answer: bytes
) -> None:
    good, server.instead = server.instead, {name: answer}
    with pytest.raises(ConfigurationError, match=r"cannot be read: .*Check the address"):
        opened()
    server.instead = good
    mirror = opened()
    kept = files(mirror)
    server.mails = {3: mail("Jam")}
    if name in ("EXAMINE", "FETCH"):
        server.mails |= {4: mail("Bread")}
    server.instead = {name: answer}
    clock.now += LOOK_EVERY_S
    mirror.refresh()
    assert len(caplog.messages) == 1
    assert files(mirror) == kept
    server.instead = good
    clock.now += LOOK_EVERY_S
    mirror.refresh()
    assert list(subjects(mirror))[:1] == ["Jam"]


def test_mails_that_were_not_asked_for_are_not_kept(server: Server, opened: Open) -> None:
    server.instead["UID FETCH"] = WHOLE.replace(b"UID 3", b"UID 9") + WHOLE + b"TAG OK done\r\n"
    server.mails = {3: b"", 4: b""}
    assert sorted(files(opened())) == ["complete", "cur/7.0000000003!2,"]


def test_a_full_disk_leaves_the_mirror_as_it_is(
    server: Server,
    opened: Open,
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def write(path: Path, content: bytes) -> int:
        with path.open("wb") as file:
            file.write(content[:5])
        raise OSError(errno.ENOSPC, "No space left on device")

    mirror = opened()
    kept = files(mirror)
    server.add("Jam")
    clock.now += LOOK_EVERY_S
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", write)
        mirror.refresh()
    assert files(mirror) == kept
    assert "No space left on device" in caplog.text


@pytest.fixture
def certificate(tmp_path: Path, server: Server) -> Path:
    """Makes the server speak TLS, with a certificate of its own."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    alternative = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    begin = dt.datetime(2020, 1, 1)
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), begin)
        .not_valid_after(dt.datetime(2120, 1, 1))
        .add_extension(alternative, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "certificate.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + signed.public_bytes(serialization.Encoding.PEM)
    )
    server.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.context.load_cert_chain(path)
    return path


def test_a_server_of_an_unknown_certificate_does_not_see_the_password(
    server: Server, certificate: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigurationError, match="certificate verify failed"):
        opened()
    assert server.commands == []
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert len(subjects(opened())) == 2


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_server_that_says_nothing_is_given_up(
    server: Server,
    opened: Open,
    encrypted: bool,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if encrypted:
        monkeypatch.setenv("SSL_CERT_FILE", str(request.getfixturevalue("certificate")))
    assert imap._TIMEOUT_S <= 10
    monkeypatch.setattr(imap, "_TIMEOUT_S", 0.2)
    server.open.clear()
    with pytest.raises(ConfigurationError, match=r"cannot be read: .*timed out"):
        opened()
    server.open.set()


@pytest.mark.parametrize(
    ("text", "shown", "folder"),
    [
        ("imaps://anna@imap.example.org/INBOX", None, "INBOX"),
        ("IMAPS://anna@IMAP.example.org:993/", "imaps://anna@imap.example.org/INBOX", "INBOX"),
        ("imaps://anna@example.org@imap.example.org:1993/Work/2026", None, "Work/2026"),
        ("imaps://anna%40example.org@h/My%20%26%20x", "imaps://anna@example.org@h/My & x", "My &- x"),
        ("imaps://a%3Ab@h/Entw%C3%BCrfe", "imaps://a:b@h/Entwürfe", "Entw&APw-rfe"),
        ("imaps://a@h/台北/~peter", None, "&U,BTFw-/~peter"),
        ("imap://anna@localhost", "imap://anna@localhost/INBOX", "INBOX"),
        ("imap://anna@[::1]:1143/INBOX", None, "INBOX"),
    ],
)
def test_addresses(text: str, shown: str | None, folder: str) -> None:
    address = Address.parse(text)
    assert address is not None
    assert str(address) == (shown or text)
    assert imap._modified_utf7(address.folder) == folder


@pytest.mark.parametrize(
    "text", ["~/Maildir", "/mail", "imap", "imaps:/x", "pop3://a@h/x", "mail/imaps://a@h/INBOX"]
)
def test_paths_are_no_addresses(text: str) -> None:
    assert Address.parse(text) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("imaps://anna:secret@h/INBOX", "has a password in it.*Leave it out"),
        ("imaps://anna:@h/INBOX", "has a password"),
        ("imaps://anna:se/cret@h/INBOX", "cannot be read"),
        ("imaps://anna:1/secret@h/INBOX", "cannot be read"),
        ("imaps://anna:#secret@h/INBOX", "cannot be read"),
        ("imaps://h/INBOX", "imaps://USER@HOST/FOLDER"),
        ("imaps://", "cannot be read"),
        ("imaps://anna@/INBOX", "cannot be read"),
        ("imaps://anna@h:port/secret", "cannot be read"),
        ("imaps://anna@[::1/INBOX", "cannot be read"),
        ("imaps://anna@h/secret?x", "cannot be read"),
        ("imaps://anna@h/se%0D%0Acret", "cannot be read"),
        ("imaps://anna@h/%FFsecret", "cannot be read"),
        ("imap://anna@imap.example.org/INBOX", "sends the password to imap.example.org unencrypted"),
        ("imap://anna@localhost.example.org/INBOX", "unencrypted"),
        ("imap://anna@10.0.0.1/INBOX", "unencrypted"),
    ],
)
def test_other_addresses_are_refused_and_not_repeated(text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem) as raised:
        Address.parse(text)
    assert "secret" not in str(raised.value)
    assert raised.value.__context__ is None or raised.value.__suppress_context__


def test_a_user_and_a_folder_of_other_letters(server: Server, opened: Open) -> None:
    server.user = "änna"
    address = server.address.replace("INBOX", "Entw%C3%BCrfe/%22x%5C")
    server.folder = r"Entw&APw-rfe/\"x\\"
    assert len(subjects(*open_mail([address], lambda _: None).values())) == 2


def terminal(monkeypatch: pytest.MonkeyPatch, *answers: str) -> list[str]:
    """Have the user type ``answers``, and then end the input; return what the user is asked."""
    asked: list[str] = []

    def getpass(prompt: str) -> str:
        asked.append(prompt)
        if len(asked) > len(answers):
            raise EOFError
        return answers[len(asked) - 1]

    here = SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr(imap, "sys", SimpleNamespace(stdin=here, stderr=here))
    monkeypatch.setattr("getpass.getpass", getpass)
    return asked


def test_an_account_s_password_is_asked_for_once(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AGENTRT_IMAP_PASSWORD")
    asked = terminal(monkeypatch, PASSWORD)
    upper = server.address.replace("INBOX", "%49NBOX")
    assert len(open_mail([server.address, upper], lambda _: None)) == 2
    assert asked == ["Password of anna@example.org at 127.0.0.1: "]
    for answers in ((), ("",)):
        terminal(monkeypatch, *answers)
        with pytest.raises(
            ConfigurationError, match=r"is missing\. Type it on a terminal, or set AGENTRT_IMAP_"
        ):
            open_mail([server.address], lambda _: None)


def test_the_password_of_the_environment_is_sent_to_one_account_alone(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = server.address.replace("127.0.0.1", "localhost")
    asked = terminal(monkeypatch, PASSWORD, PASSWORD)
    assert len(open_mail([server.address, other], lambda _: None)) == 2
    assert len(asked) == 2
    for piped in (None, SimpleNamespace(isatty=lambda: False)):
        monkeypatch.setattr(imap, "sys", SimpleNamespace(stdin=piped, stderr=imap.sys.stderr))
        with pytest.raises(ConfigurationError, match="AGENTRT_IMAP_PASSWORD is that of one account alone"):
            open_mail([server.address, other], lambda _: None)
    assert len(asked) == 2
    assert len(open_mail([server.address], lambda _: None)) == 1


def test_the_password_is_in_no_text_of_what_has_it(opened: Open) -> None:
    mirror = opened()
    assert PASSWORD not in f"{mirror} {mirror!r}"


def test_chat_reads_it_beside_other_data(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plan.txt").write_text("tulips")
    read: list[str] = []

    @contextlib.contextmanager
    def opened(model: str, *, data: Any, mirrors: Any, **_: Any) -> Iterator[Any]:
        with contextlib.closing(PersonalData.open(*data, mirrors=mirrors)) as both:
            read.append(both.description())
        raise KeyError
        yield

    monkeypatch.setattr("agentrt.cli.chat.talk.open_assistant", opened)
    monkeypatch.setattr("agentrt.cli.chat.opener.ModelOpener.begin", lambda *_: None)
    arguments = ["chat", "hello", "--data", str(tmp_path / "plan.txt"), "--data", server.address]
    assert isinstance(CliRunner().invoke(app, arguments).exception, KeyError)
    assert read == [f"Reads 2 mails and 1 other text file in {tmp_path / 'plan.txt'} and {server.address}."]


@pytest.mark.parametrize("name", ["chat", "demo"])
def test_data_that_cannot_be_read_is_refused(name: str, tmp_path: Path) -> None:
    for given, problem in (
        ("imaps://anna:secret@h/INBOX", "has a password in it"),
        (str(tmp_path / "nowhere"), "does not exist. Give a file or folder"),
    ):
        result = CliRunner().invoke(app, [name, "--data", given])
        said = f"{result.output} {result.exception}"
        assert problem in " ".join(said.replace("│", "").split())
        assert "secret" not in said


def test_the_demo_copies_no_mail_of_a_server() -> None:
    result = CliRunner().invoke(app, ["demo", "--data", "imaps://anna@h/INBOX"])
    assert isinstance(result.exception, ConfigurationError)
    assert "copies no mail of a server. Give files and folders" in str(result.exception)
