import mailbox
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path

import pytest

from agentrt.errors import ConfigurationError
from agentrt.examples.assistant.errors import ToolError
from agentrt.examples.assistant.mail import Mail, MailBox


def add(path: Path, sender: str, subject: str, body: str, *, flags: str = "", subtype: str = "plain") -> None:
    mail = EmailMessage()
    mail["From"], mail["Subject"] = sender, subject
    mail.set_content(body, subtype=subtype)
    message = mailbox.mboxMessage(mail)
    message.set_flags(flags)
    box = mailbox.mbox(path)
    box.add(message)
    box.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "mail.mbox"
    add(path, "Nadia Berg <nadia@example.org>", "Roof repair", "They come on Monday.\nAt eight.", flags="RO")
    add(path, "tom@example.org", "Kayak", "It leaks a little.")
    return path


@pytest.fixture
def box(path: Path) -> Iterator[MailBox]:
    box = MailBox(path)
    yield box
    box.close()


def test_mails_are_found_by_sender_subject_and_body(box: MailBox) -> None:
    for query in ("nadia", "roof", "monday"):
        assert [mail.id for mail in box.search(query)] == ["m1"], query
    assert box.search("zeppelin") == []


def test_a_mail_is_read_by_its_id(box: MailBox) -> None:
    assert box.read("m1") == Mail("m1", "Nadia Berg", "Roof repair", "They come on Monday. At eight.")
    assert box.read(" m2 ").sender == box.read("2").sender == "tom@example.org"


@pytest.mark.parametrize("mail_id", ["m0", "m3", "", "m-1", "m", "²", "m" + "9" * 5000])
def test_an_unknown_id_is_a_clear_error(box: MailBox, mail_id: str) -> None:
    with pytest.raises(ToolError, match=r"^no mail with id "):
        box.read(mail_id)


def test_mail_that_arrives_later_is_found(box: MailBox, path: Path) -> None:
    assert [mail.id for mail in box.unread()] == ["m2"]
    add(path, "Priya <p@example.org>", "Bridge", "Bolts.")
    assert [mail.id for mail in box.search("bolts")] == ["m3"]
    assert [mail.id for mail in box.all()] == ["m1", "m2", "m3"]


def test_encoded_and_html_mails_are_plain_text(box: MailBox, path: Path) -> None:
    add(path, "Zoë <z@example.org>", "Crème brûlée", "sweet")
    html = "<head><title>x</title><style>p {}</style></head><!-- <p> -->"
    html += "<P>Burn the su<b>gar</b></P>&amp; wait 1 < 2"
    add(path, "z@example.org", "Recipe", html, subtype="html")
    assert box.read("m3") == Mail("m3", "Zoë", "Crème brûlée", "sweet")
    assert box.read("m4").body == "Burn the sugar & wait 1 < 2"


def test_a_mail_without_headers_or_with_an_unknown_charset(tmp_path: Path) -> None:
    path = tmp_path / "odd.mbox"
    path.write_bytes(
        b"From a\n\nbody only\n\nFrom b\nContent-Type: text/plain; charset=klingon\n\nplain enough\n\n"
        b"From c\nContent-Type: image/png\n\n\x89PNG\n"
    )
    box = MailBox(path)
    assert box.read("m1") == Mail("m1", "unknown", "no subject", "body only")
    assert box.read("m2").body == "plain enough"
    assert box.read("m3").body == ""
    box.close()


def test_an_empty_file_is_a_mailbox_and_other_kinds_are_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "empty.mbox").touch()
    box = MailBox(tmp_path / "empty.mbox")
    assert box.all() == box.search("roof") == []
    box.close()
    (tmp_path / "mail.mbox").write_bytes(b"PK\3\4 a zip file")
    with pytest.raises(ConfigurationError, match="is not an mbox file"):
        MailBox(tmp_path / "mail.mbox")
