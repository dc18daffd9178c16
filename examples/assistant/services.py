"""The servers that the assistant's tools ask, all on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from .imap_mail import ImapMail
from .imap_server import ImapServer
from .latencies import Latencies
from .mail import MailBox
from .weather import WeatherService
from .website import WebSite


@dataclass(frozen=True)
class Services:
    """Addresses of the running servers."""

    mail_port: int
    weather_url: str
    web_url: str

    @contextmanager
    def mail(self, connections: int = 4) -> Iterator[ImapMail]:
        """Log in to the mail server, with so many connections from the beginning; log out at the end."""
        mail = ImapMail("127.0.0.1", self.mail_port)
        try:
            mail.connect(connections)
            yield mail
        finally:
            mail.close()


@contextmanager
def running_services(mbox: Path, latencies: Latencies) -> Iterator[Services]:
    """Run the three servers until the end of the block; the mail is that in the file ``mbox``."""
    with ExitStack() as stack:
        mails = stack.enter_context(closing(MailBox(mbox)))
        mail = stack.enter_context(ImapServer(mails, latencies.mail))
        weather = stack.enter_context(WeatherService(latencies.weather))
        web = stack.enter_context(WebSite(latencies.web))
        yield Services(mail.port, weather.url, web.url)
