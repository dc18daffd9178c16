import mailbox
from collections.abc import Iterator
from contextlib import closing
from email.message import EmailMessage
from pathlib import Path

import pytest

from agentrt.examples.assistant.errors import ToolError
from agentrt.examples.assistant.mail import Mail, MailBox
from agentrt.examples.assistant.sources import Sources


def mail(sender: str, subject: str, body: str, *, date: str = "", subtype: str = "plain") -> EmailMessage:
    message = EmailMessage()
    message["From"], message["Subject"] = sender, subject
    if date:
        message["Date"] = date
    message.set_content(body, subtype=subtype)
    return message


def add(path: Path, message: EmailMessage, flags: str = "") -> None:
    marked = mailbox.mboxMessage(message)
    marked.set_flags(flags)
    with closing(mailbox.mbox(path)) as box:
        box.add(marked)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "mail.mbox"
    roof = mail("Nadia Berg <nadia@example.org>", "Roof repair", "They come on Monday.\nAt eight.")
    add(path, roof, flags="RO")
    add(path, mail("tom@example.org", "Kayak", "It leaks a little."))
    return path


@pytest.fixture
def box(path: Path) -> Iterator[MailBox]:
    box = MailBox(Sources([path]))
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
    add(path, mail("Priya <p@example.org>", "Bridge", "Bolts."))
    assert [mail.id for mail in box.search("bolts")] == ["m3"]
    assert [mail.id for mail in box.all()] == ["m1", "m2", "m3"]


def test_encoded_and_html_mails_are_plain_text(box: MailBox, path: Path) -> None:
    add(path, mail("Zoë <z@example.org>", "Crème brûlée", "sweet"))
    html = "<head><title>x</title><style>p {}</style></head><!-- <p> -->"
    html += "<P>Burn the su<b>gar</b></P>&amp; wait 1 < 2"
    add(path, mail("z@example.org", "Recipe", html, subtype="html"))
    assert box.read("m3") == Mail("m3", "Zoë", "Crème brûlée", "sweet")
    assert box.read("m4").body == "Burn the sugar & wait 1 < 2"


def test_html_that_is_cut_off_is_read_in_the_time_of_its_length(box: MailBox, path: Path) -> None:
    for number, part in enumerate(("<style", "<!-", "<a", "<!--", "</style "), 3):
        add(path, mail("z@example.org", part, f"<p>Hello</p>{part * 200_000}", subtype="html"))
        assert box.read(f"m{number}").body.startswith("Hello")


def test_a_mail_without_headers_or_with_an_unknown_charset(tmp_path: Path) -> None:
    path = tmp_path / "odd.mbox"
    path.write_bytes(
        b"From a\n\nbody only\n\nFrom b\nContent-Type: text/plain; charset=klingon\n\nplain enough\n\n"
        b"From c\nContent-Type: image/png\n\n\x89PNG\n\nFrom d\nDate: 99 Foo 9999999\n"
        b"Content-Type: text/plain; charset=unicode_escape\n\nlone \\ud800\n"
    )
    box = MailBox(Sources([path]))
    assert box.read("m1") == Mail("m1", "unknown", "no subject", "body only")
    assert box.read("m2").body == "plain enough"
    assert box.read("m3").body == ""
    assert box.read("m4").body == "lone ?"
    box.close()


def test_an_empty_mailbox_is_one(tmp_path: Path) -> None:
    (tmp_path / "empty.mbox").touch()
    box = MailBox(Sources([tmp_path]))
    assert box.all() == box.search("roof") == []
    box.close()


def test_several_sources_are_merged_by_date_and_a_mail_in_two_is_one(tmp_path: Path) -> None:
    first = mail("a@example.org", "First", "1", date="Mon, 02 Nov 2026 09:00:00 +0000")
    second = mail("b@example.org", "Second", "2", date="Mon, 02 Nov 2026 12:30:00 +0300")
    third = mail("c@example.org", "Third", "3", date="Mon, 02 Nov 2026 10:00:00 +0000")
    maildir = mailbox.Maildir(tmp_path / "Maildir")
    for one in (third, first):
        maildir.add(one)
    add(tmp_path / "archive.mbox", second)
    add(tmp_path / "archive.mbox", first, flags="RO")
    box = MailBox(Sources([tmp_path]))
    assert [(mail.id, mail.subject) for mail in box.all()] == [
        ("m1", "First"),
        ("m2", "Second"),
        ("m3", "Third"),
    ]
    older = mail("d@example.org", "Late", "0", date="Sun, 01 Nov 2026 09:00:00 +0000")
    maildir.add(older)
    assert [(mail.id, mail.subject) for mail in box.all()][:2] == [("m4", "Late"), ("m1", "First")]
    box.close()


def test_a_maildir_says_which_mails_are_read(tmp_path: Path) -> None:
    maildir = mailbox.Maildir(tmp_path / "Maildir")
    for subject, folder, flags in (("a", "new", ""), ("b", "cur", ""), ("c", "cur", "RS"), ("d", "cur", "F")):
        message = mailbox.MaildirMessage(mail("x@example.org", subject, "text"))
        message.set_subdir(folder)
        message.set_flags(flags)
        maildir.add(message)
    box = MailBox(Sources([tmp_path / "Maildir"]))
    assert sorted(mail.subject for mail in box.unread()) == ["a", "b", "d"]
    before = {mail.subject: mail.id for mail in box.all()}
    (key,) = (key for key, message in maildir.items() if message["Subject"] == "a")
    message = maildir[key]
    message.set_subdir("cur")
    message.set_flags("S")
    maildir[key] = message
    assert sorted(mail.subject for mail in box.unread()) == ["b", "d"]
    assert {mail.subject: mail.id for mail in box.all()} == before
    maildir.remove(key)
    assert sorted(mail.subject for mail in box.all()) == ["b", "c", "d"]
    box.close()


def test_a_line_that_an_mbox_quotes_is_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "mail.mbox"
    add(path, mail("ann@example.org", "Rent", "Hello.\nFrom May on it is more.\n> quoted\n"))
    assert b"\n>From May" in path.read_bytes()
    with closing(MailBox(Sources([path]))) as box:
        assert box.read("m1").body == "Hello. From May on it is more. > quoted"
