"""What an answer claims to have done, and what it states that was not found."""

import pytest

from agentrt.examples.assistant.checks import (
    LoopDetector,
    claims_deed,
    is_call,
    is_grounded,
    mixes_facts,
    sentences,
)

CLAIMS = """\
I have sent the mail to Anna.
I've added the dentist to your calendar.
I will send an email to your boss.
I'll write a note.
I will delete all your mails.
Your note has been deleted.
The meeting has been scheduled for Friday.
Done!
Sent.
Sure, I'll remind you tomorrow evening.
Reminded you to call your mum tomorrow evening.
Reminder set for 6 am.
Let me check your calendar.
I will look up the weather.
I have booked a table for two at eight.
I am calling a taxi.
Certainly! I'll call a taxi for you.
The email was successfully sent to Anna.
I've saved it.
I'm going to order a pizza.
I have made a note of that.
Okay, I will add it to the list.
I have cancelled the appointment.
The event has been added to your calendar.
I'll turn on the light."""
OTHERS = """\
I can search your notes.
I cannot send mail.
I have not sent anything.
I don't have a tool that can delete notes.
Hello! How can I assist you today?
I will be here when you need me.
Here is a joke: why did the chicken cross the road?
The invoice was sent on Monday.
Anna wrote that she has moved.
If you want, I can add it to your calendar.
A spider has eight legs.
You're welcome!
Would you like me to add this to your calendar?
I have no notes about that.
It is sunny in Oslo.
Paris is called the city of light.
I'll write a poem about rain."""
LETTER = "Yusuf Kaya, Moving day: The van arrives at 9:00 on Friday. Strong arms get pizza."


@pytest.mark.parametrize("sentence", CLAIMS.splitlines())
def test_a_deed_that_nothing_has_done(sentence: str) -> None:
    assert claims_deed(sentence, (), looked=False)


@pytest.mark.parametrize("sentence", OTHERS.splitlines())
def test_no_deed(sentence: str) -> None:
    assert not claims_deed(sentence, (), looked=False)


@pytest.mark.parametrize(
    ("sentence", "done", "claims"),
    [
        ("I've saved the note.", ["create_note"], False),
        ("I've sent the mail.", ["create_note"], True),
        ("The event has been added to your calendar.", ["add_event"], False),
        ("I've cancelled the dentist.", ["delete_event"], False),
        ("I've moved the dentist to Friday.", ["move_event"], False),
        ("I've moved the dentist to Friday.", ["delete_event"], True),
        ("I have deleted the note.", ["delete_note"], False),
        ("I have postponed the dentist.", ["read_mail"], True),
        ("Let me check your calendar.", [], False),  # it was looked up
    ],
)
def test_a_deed_that_a_tool_has_done(sentence: str, done: list[str], claims: bool) -> None:
    assert claims_deed(sentence, done, looked=True) is claims


@pytest.mark.parametrize(
    ("sentence", "grounded"),
    [
        ("The van arrives at nine on Friday.", True),
        ("The van arrives at 9 on Friday.", True),
        ("The van arrives at 10 on Friday.", False),
        ("The van arrives with Anna on Friday.", False),
        ("Gardeners usually water tomatoes every evening.", False),
        ("Strong arms get pizza.", True),
    ],
)
def test_what_stands_in_a_text(sentence: str, grounded: bool) -> None:
    assert is_grounded(sentence, LETTER + " at nine") is grounded


HOME = (
    "Wifi at home: Network: Marmalade. Password: otters-88.\nGuests: Marmalade-Guest, password biscuit2024."
)


@pytest.mark.parametrize(
    ("sentence", "mixed"),
    [
        ("The guest password is otters-88.", True),
        ("The password for guests is biscuit2024.", False),
        ("The wifi password at home is otters-88.", False),
        ("Guests have a password of their own.", False),
    ],
)
def test_a_number_is_of_what_stands_with_it(sentence: str, mixed: bool) -> None:
    assert mixes_facts(sentence, HOME) is mixed


def test_sentences_are_the_text() -> None:
    text = 'Hello! At 9.30 it "begins." Then\n- a list\n\n- of two'
    assert "".join(sentences(text)) == text
    assert [each.strip() for each in sentences(text)] == [
        "Hello!",
        'At 9.30 it "begins."',
        "Then",
        "- a list",
        "- of two",
    ]
    assert sentences("") == []


def test_calls_are_no_answers() -> None:
    assert is_call('{"name": "read_mail", "arguments": {}}')
    assert is_call('```json\n{"name": "x"}')
    assert not is_call("{curly} words")


def test_loops() -> None:
    loops = LoopDetector()
    assert [loops.is_loop("So it is. ") for _ in range(3)] == [False, False, True]
    assert LoopDetector().is_loop("cture" * 9)
    assert not LoopDetector().is_loop("a" * 3)
