"""The mail server and its client against each other, and the server against Python's own client."""

import imaplib
import mailbox
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from agentrt.errors import ConfigurationError
from agentrt.examples.assistant import imap_server
from agentrt.examples.assistant.errors import ToolError
from agentrt.examples.assistant.imap_mail import ImapMail
from agentrt.examples.assistant.imap_server import ImapServer
from agentrt.examples.assistant.mail import MailBox
from agentrt.examples.assistant.mail_message import Mail

pytestmark = pytest.mark.socket

MAILS = [
    ("Nadia Berg <nadia@example.org>", "Roof repair", "They come on Monday.\nAt eight.", "RO"),
    ("tom@example.org", "Kayak", "It leaks a little, but only when you sing.", ""),
    ("Ines Vega <clinic@example.org>", "Über die Prüfung, " + "sehr " * 30 + "lang", "Grüße aus Köln", ""),
]


@pytest.fixture
def box(tmp_path: Path) -> Iterator[MailBox]:
    path = tmp_path / "mail.mbox"
    file = mailbox.mbox(path)
    for sender, subject, body, flags in MAILS:
        mail = EmailMessage()
        mail["From"], mail["Subject"] = sender, subject
        mail.set_content(body)
        message = mailbox.mboxMessage(mail)
        message.set_flags(flags)
        file.add(message)
    file.close()
    box = MailBox(path)
    yield box
    box.close()


@pytest.fixture
def server(box: MailBox) -> Iterator[ImapServer]:
    with ImapServer(box, 0) as server:
        yield server


@pytest.fixture
def mail(server: ImapServer) -> Iterator[ImapMail]:
    mail = ImapMail("127.0.0.1", server.port)
    yield mail
    mail.close()


def test_mail_over_imap_is_the_mail_in_the_file(mail: ImapMail, box: MailBox) -> None:
    assert mail.all() == box.all()
    assert mail.unread() == box.unread()
    assert [one.id for one in mail.unread()] == ["m2", "m3"]


@pytest.mark.parametrize(
    "query", ["nadia", "roof", "monday", "kayak roof", "köln", "zeppelin", '"', "x" * 900]
)
def test_the_search_finds_what_the_file_has(mail: ImapMail, box: MailBox, query: str) -> None:
    expected = box.search(query)
    assert mail.search(query) == [Mail(one.id, one.sender, one.subject, "") for one in expected]


def test_a_mail_is_read_by_its_id(mail: ImapMail, box: MailBox) -> None:
    for mail_id in ("m1", "3", " m2 "):
        assert mail.read(mail_id) == box.read(mail_id)


@pytest.mark.parametrize("mail_id", ["m0", "m4", "", "m-1", "m", "²", "1:*", "m" + "9" * 5000])
def test_an_unknown_id_is_a_clear_error(mail: ImapMail, mail_id: str) -> None:
    with pytest.raises(ToolError, match=r"^no mail with id "):
        mail.read(mail_id)


def test_calls_at_once_each_have_a_connection_of_their_own(mail: ImapMail, box: MailBox) -> None:
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(mail.read, ["m1", "m2", "m3"] * 8))
    assert found == box.all() * 8


def test_a_server_that_is_gone_is_a_clear_error(box: MailBox) -> None:
    with ImapServer(box, 0) as server:
        mail = ImapMail("127.0.0.1", server.port)
        mail.connect(1)
    for _ in range(2):  # by the connection it has, and by a new one
        with pytest.raises(ToolError, match="the mail server does not answer"):
            mail.read("m1")
    mail.close()


def test_the_client_of_the_standard_library_can_read_it(server: ImapServer) -> None:
    with imaplib.IMAP4("127.0.0.1", server.port) as client:
        assert "SORT" in client.capabilities
        client.login("me", 'a "secret"')
        assert client.select("INBOX") == ("OK", [b"3"])
        assert client.noop()[0] == "OK"
        assert client.uid("SEARCH", "UNSEEN")[1] == [b"2 3"]
        data = client.uid("FETCH", "2:*", "(FLAGS BODY[HEADER.FIELDS (SUBJECT)])")[1]
        assert next(part[1] for part in data if isinstance(part, tuple)) == b"Subject: Kayak\r\n\r\n"


@contextmanager
def connected(server: ImapServer) -> Iterator[Any]:
    address = ("127.0.0.1", server.port)
    with socket.create_connection(address) as connection, connection.makefile("rwb") as lines:
        yield lines


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        (b"a UID FETCH 1 BODY[]", b"a BAD UID FETCH is not allowed yet"),
        (b"a SELECT INBOX", b"a BAD SELECT is not allowed yet"),
        (b"a LOGIN me", b"a BAD LOGIN takes a name and a password"),
        (b"a FLY", b"a BAD unknown command FLY"),
        (b"", b"* BAD unknown command"),
        (b"a UID", b"a BAD unknown command UID"),
        (b"\xff\xfe {", b"\xef\xbf\xbd\xef\xbf\xbd BAD unknown command {"),
    ],
)
def test_what_is_no_command_is_refused(server: ImapServer, command: bytes, answer: bytes) -> None:
    with (
        socket.create_connection(("127.0.0.1", server.port)) as connection,
        connection.makefile("rwb") as lines,
    ):
        assert lines.readline().startswith(b"* OK")
        lines.write(command + b"\r\n")
        lines.flush()
        assert lines.readline().startswith(answer)


@pytest.mark.parametrize(
    "command",
    [
        ("SEARCH", "TEXT", "roof"),
        ("SORT", "(DATE)", "UTF-8", "ALL"),
        ("FETCH", "1", "ENVELOPE"),
        ("FETCH", "1:2:3", "BODY[]"),
        ("FETCH", "one", "BODY[]"),
    ],
)
def test_what_the_server_cannot_do_is_refused(server: ImapServer, command: tuple[str, ...]) -> None:
    with imaplib.IMAP4("127.0.0.1", server.port) as client:
        client.login("me", "secret")
        client.select("INBOX")
        try:
            status = client.uid(*command)[0]
        except imaplib.IMAP4.error:
            status = "BAD"
        assert status in ("NO", "BAD")
        assert client.noop()[0] == "OK"


def test_a_literal_that_is_too_long_ends_the_connection(server: ImapServer) -> None:
    with (
        socket.create_connection(("127.0.0.1", server.port)) as connection,
        connection.makefile("rwb") as lines,
    ):
        lines.readline()
        lines.write(b"a LOGIN me {9999}\r\n")
        lines.flush()
        assert lines.readline() == b""


class Wait(threading.Event):
    """An event that notes how long it is waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.timeouts: list[float | None] = []
        self.begun = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        self.timeouts.append(timeout)
        self.begun.set()
        return super().wait(timeout)


def test_it_waits_before_each_command_and_stops_at_once(
    box: MailBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = Wait()
    monkeypatch.setattr(imap_server, "Event", lambda: waiting)
    with ThreadPoolExecutor(1) as thread:
        with ImapServer(box, 60) as server:
            mail = ImapMail("127.0.0.1", server.port)
            reading = thread.submit(mail.read, "m1")
            waiting.begun.wait()
        with pytest.raises(ToolError, match="the mail server does not answer"):
            reading.result()
    assert waiting.timeouts == [60]


@pytest.mark.parametrize("delay", [-1, 61, float("nan")])
def test_an_impossible_delay_is_a_configuration_error(box: MailBox, delay: float) -> None:
    with pytest.raises(ConfigurationError, match="choose between 0 and 60 seconds"):
        ImapServer(box, delay)
