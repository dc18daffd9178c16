"""What a message asks for, as its words say."""

import contextlib
import datetime as dt
import json
import mailbox
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from email.message import EmailMessage
from email.utils import formatdate
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentrt.examples.assistant.data import PersonalData
from agentrt.examples.assistant.dictation import WHICH_TEXT
from agentrt.examples.assistant.planning import (
    NO_WEB,
    NOT_ANSWERED,
    ONLY_NOW,
    WHAT_TO_WRITE,
    WHICH_CITY,
    Planner,
)
from agentrt.examples.assistant.results import Made
from agentrt.examples.assistant.retrieval import content_words, retrieve
from agentrt.examples.assistant.sample_data import write_sample_data
from agentrt.examples.assistant.sources import Sources
from agentrt.examples.assistant.writes import DEPENDS

WEDNESDAY = dt.date(2026, 11, 25)
MESSAGES = """
see you tomorrow! -> 
thanks, have a nice weekend -> 
how was your Monday? -> 
are you free on Friday or is my calendar full? -> list_events Friday
thanks, and on Friday? -> list_events Friday
how long does the lasagne stay in the oven -> read_note n11
cabin wifi pw pls -> read_note n12
Is there a mail from Tom? -> read_mail m5
what does the mail about the train tickets say? -> read_mail m8
Read the file club/minutes.txt -> read_file club/minutes.txt
read the latest mail -> read_mail m12
do I have new mail? -> search_mail new mail
list my notes -> search_notes all notes
do i have files about the garden -> search_files garden
has erik emailed me -> search_mail erik
what is on tomorrow? -> list_events tomorrow
thursday and saturday, whats on -> list_events thursday, list_events saturday
When is choir practice? -> list_events 2026-11-25
when is my dentist appointment? -> list_events 2026-11-26
how often per week does the plum tree get water -> read_file garden/plan.txt
what's the weather like in new york and bergen? -> get_weather new york, get_weather bergen
How warm is it in Oslo, and what is on today? -> get_weather Oslo, list_events today
I'm off to Bergen soon, so how is the weather there? -> get_weather Bergen
on how many degrees must I bake the lasagna -> read_note n11
the library fee and the price of brake pads -> read_mail m3, read_note n1
I'm nervous about my blood test... are the results in? -> read_mail m10
jot down that I owe Tom wine, then tell me what is on today -> create_note I owe Tom wine, list_events today
Write a note: call Bob. He is in Rome. -> create_note call Bob. He is in Rome.
add tea on Friday at 9:00 and gym at 10:00 -> add_event tea Friday 9:00, add_event gym Friday 10:00
Delete the kayak mail, then list what Emil wants for his birthday -> , read_note n2
find the radiator file and the boiler code note -> read_file house/heating.txt, read_note n3
Search the web for kayak rental -> search_web kayak rental
can you look up train prices online? -> search_web train prices
How do I get online at the cabin? -> read_note n12
I can't for the life of me remember what Emil would like for his birthday. -> read_note n2
I wonder how many squats I'm meant to do for my knee. -> read_note n10
Remind me how long my lasagne has to bake, please. -> read_note n11
emil booked us a table for saturday but i forgot at which restaurant -> list_events saturday, read_mail m2
weather oslo -> get_weather oslo
what's it like out in dublin -> get_weather dublin
which emails haven't i read yet -> search_mail new mail
who is my most recent mail from -> read_mail m12
I need the name of the cabin wifi, plus the time my train to Bergen leaves. -> read_note n12, read_mail m8
1) who brings jam, see the minutes file 2) what does Pickle want? -> read_file club/minutes.txt, read_mail m9
how late is the library book, and from whom can i borrow the salt road? -> read_mail m3, read_note n4
I must not forget that Ben dislikes nuts, so save it as a note for me -> create_note Ben dislikes nuts
my passport number, check notes and files -> search_notes passport, search_files passport
In my files, what is it about the bridge? -> read_file work/bridge.txt
Idea for the shed: lavender next to it. Note it -> create_note Idea for the shed: lavender next to it
save Lena's shoe size, 38, as a separate note -> create_note Lena's shoe size, 38
there was a mail about a kayak, how much is it -> read_mail m5
ah good. -> 
oh how long does the lasagne bake -> read_note n11
thanks, what does Emil want for his birthday? -> read_note n2
oh how are you -> 
Could you please tell me today's date? -> 
is it wednesday already -> 
feeling kinda down today -> 
Morning! Did you sleep well? Silly question, I know. -> 
cats or dogs? -> 
How many days are there in a week? -> 
what is the largest planet in our solar system? -> 
And on which day do I have the boiler check in my calendar? -> list_events 2026-11-27
Dear friend, would you tell me how long the lasagne bakes? Cordially, Walter -> read_note n11
My dear assistant, kindly write down that the key is here. Yours, W. -> create_note the key is here.
yo whats on tmrw -> list_events tmrw
is it gonna rain in hamburg -> get_weather hamburg
add dinner at No Name on Friday at 19:00 -> add_event dinner at No Name Friday 19:00
Put tea on Thursday, no sorry, Monday, at 3pm. -> add_event tea Monday 3pm
Tea is on Sunday at 11am. I must not miss it. Please enter it. -> add_event Tea Sunday 11am
put hockey practice in my cal sat 2pm -> add_event hockey practice sat 2pm
when does choir practice begin this evening? -> list_events this evening
I need paint. What colour is the hall? It's in the paint file I think. -> read_file house/paint.txt
I beg you to tell me how many squats are in my knee exercises. -> read_note n10
A friend gave me chocolates today, that was so sweet of her. -> 
It was great. Accept my heartfelt thanks. Your Walter -> 
My prescription is nearly finished, order me a refill. -> 
I'm freezing, can you turn the heating up to, what, twenty degrees? -> 
how hot should the oven be for the lasagne -> read_note n11
My bicycle still squeaks. What did I write down about the price? -> read_note n1
I would be grateful if you could read me what Doctor Vega wrote. -> read_mail m10
Please be so good as to look what is planned for the fifth of December. -> list_events fifth of December
wether in oslo? -> get_weather oslo
whats my newest mail -> read_mail m12
which emails came in most recently? -> search_mail new mail
calendar for tomorrow and for friday -> list_events tomorrow, list_events friday
add tea on Sunday at 9:00 and tell me what I have that day -> add_event tea Sunday 9:00, list_events Sunday
Put 'buy figs' into my calendar for today at 16:30, I'm there anyway. -> add_event buy figs today 16:30
I should be glad if you kept a note that the cleaner gets 35 euros. -> create_note the cleaner gets 35 euros.
On a note please: oats, plums -> create_note oats, plums
stick that in a note - the bins go out on Mondays -> create_note the bins go out on Mondays
The vet is at Mill Lane 4. Keep that for me in a note, I lose it -> create_note The vet is at Mill Lane 4
jot something down about the vet? -> 
write this down before I forget: the bins go out -> create_note before I forget: the bins go out
alright put the vet on Saturday at 11 -> add_event vet Saturday 11
make a note would ya -> 
Tomorrow at 15:00, "Call the vet", in my diary if you please -> add_event Call the vet Tomorrow 15:00
Ben comes on Saturday at 4 pm. Enter it as 'Tea with Ben' -> add_event Tea with Ben Saturday 4 pm
'Tea with Ben', Saturday 4 pm. No, sorry, Sunday -> add_event Tea with Ben Sunday 4 pm
put the vet in for tomorrow at 11, no wait, make it 3 in the arvo -> add_event vet tomorrow 3 in the arvo
Set up a chat with Ben at 8:30 tonight -> add_event chat with Ben tonight 8:30 in the evening
the vet tmrw at 10:15, pls add -> add_event vet tmrw 10:15
Vet visit, the day after tmrw, 10:15. Get that in -> add_event Vet visit day after tmrw 10:15
I wrote the paint colours down in a file. What did we use in the hall? -> read_file house/paint.txt
Would you know a joke? -> 
Well, then I know enough for my camping trip -> 
Och, never mind, I have it -> 
Add "If only" on Monday at 13:00 -> add_event If only Monday 13:00
Tea is on Friday at seven in the evening, put that in for me. -> add_event Tea Friday seven in the evening
Would you please give Hanna a ring and tell her the shelf is cleared? -> , 
Would it be possible for you to turn up the heating? -> 
Good morning, I hope you are well today. -> 
Pardon me, would you happen to know what time it is? -> 
I'm sure I wrote down how to make goulash. Can you find that note? -> search_notes goulash
My starter smells of apples, is that good? It's in one of my notes I think -> read_note n5
good morning! -> 
I finally learned to whistle yesterday! -> 
You are very kind. -> 
What is the capital of Norway? -> 
Where is the boiler check? -> list_events 2026-11-27
what do zebras bring? -> 
How do I feed the starter on Sunday? -> read_note n5
what's the plan for the mint on Friday -> read_note n8
am I busy with the mint on Friday? -> list_events Friday
Write her back that I'm in on Friday -> 
what did we do on Monday? -> list_events 2026-11-23
what was the last thing I told you today? -> 
Note: call the bank. Also, where is the dentist? -> create_note call the bank., list_events 2026-11-26
Note: figs and plums, and what is on on Sunday? -> create_note figs and plums, list_events Sunday
jot down: figs. Could you also say what is on on Sunday? -> create_note figs., list_events Sunday
unread mail? and is anything on tomorrow? -> search_mail new mail, list_events tomorrow
Read my lasagne and my bicycle -> read_note n11, read_note n1
read the garden note and the wifi note -> read_note n8, read_note n12
delete the lasagne note and show me the rest -> delete_note n11 Lasagne recipe, search_notes all notes
which files do I have -> search_files all files
anything new? -> search_mail new mail, list_events today
We really adore our new kettle -> 
Remember: Ben hates figs. And what is on on Sunday? -> create_note Ben hates figs., list_events Sunday
what did Priya say about the drawings today? -> read_mail m7
What's on Monday, no wait, Thursday I mean -> list_events Thursday
Do I have any unread messages? -> search_mail new mail
what is on in the week after next? -> list_events week after next
Anything in the week before Christmas? -> list_events week before Christmas
what did Ben and I do last Monday? -> list_events last Monday
Show me the lasagne note and also the mail about the kayak -> read_note n11, read_mail m5
Tell me what Doctor Vega wrote and whether I'm free on Friday -> read_mail m10, list_events Friday
dont put anything in my calendar just tell me if the 28th is free -> list_events 28th
wehn is teh dentist -> list_events 2026-11-26
Note: adn nad Teh -> create_note adn nad Teh
Add lunch with Ida on Friday at Noon -> add_event lunch with Ida Friday Noon
Ben has won the race today! -> 
Ben might come on Sunday at 3 -> 
Save 'call Ben about figs' in my notes -> create_note call Ben about figs
new note called Figs: two boxes -> create_note Figs: two boxes
Put tea with Ida in for Friday at 12:30 at Green Quay -> add_event tea with Ida, Green Quay Friday 12:30
add dinner at No Name on Saturday at 19:00 -> add_event dinner at No Name Saturday 19:00
Mark wants to move tea to Thursday at 11 -> 
what's in the minutes about jam? -> read_file club/minutes.txt
Add tea on Friday at 15:00. Actually don't. -> 
"""  # noqa: W291 - nothing is called


@pytest.fixture(scope="module")
def planner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planner]:
    folder = tmp_path_factory.mktemp("sample") / "data"
    write_sample_data(folder, WEDNESDAY)
    with contextlib.closing(PersonalData.open(folder, today=lambda: WEDNESDAY)) as data:
        yield Planner(data, WEDNESDAY, has_web=True)


@pytest.mark.parametrize("line", MESSAGES.strip("\n").splitlines())
def test_calls(planner: Planner, line: str) -> None:
    message, _, calls = line.partition(" -> ")
    steps = planner.plan(message, [], [])
    planned = [
        ", ".join(" ".join([name, *map(str, given.values())]) for name, given in step.calls) for step in steps
    ]
    assert ", ".join(planned) == calls


WORDS = st.sampled_from(
    [word for line in MESSAGES.splitlines() for word in line.partition(" -> ")[0].split()]
)
BETWEEN = st.sampled_from([" ", "  ", "\n", ", ", ". ", "? ", " and ", "", "\u2019s "])
ANY_MESSAGE = st.one_of(
    st.text(), st.lists(st.tuples(WORDS, BETWEEN)).map(lambda said: "".join(map("".join, said)))
)


READ = Made("read_mail", {"id": "m1"}, '{"from": "", "subject": "", "body": ""}')


@given(ANY_MESSAGE, st.sampled_from([[], [READ]]))
@example("what is on in  two  days", [])
@example("TMR AA0:00", [])
@example("tmr 0:00AA", [])
def test_whatever_is_said_is_planned_and_an_event_has_its_words(
    planner: Planner, message: str, before: list[Made]
) -> None:
    calls = [call for step in planner.plan(message, before, before) for call in step.calls]
    for event in [arguments for name, arguments in calls if name == "add_event"]:
        assert {*re.findall(r"\w+", event["title"])} <= {*re.findall(r"\w+", message)}


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ("will it rain?", WHICH_CITY),
        ("write a note", WHICH_TEXT),
        ("has that been saved now?", "For your last message nothing was written."),
        ("did you save it?", "For your last message nothing was written."),
        ("did you delete anything today?", "For your last message nothing was written."),
        ("what did you just change?", "For your last message nothing was written."),
        ("could you write something down for me?", WHICH_TEXT),
        ("What date will it be this coming Sunday?", "This coming Sunday is Sunday, November 29, 2026."),
        ("look online for climbing boots", NO_WEB),
    ],
)
def test_what_needs_no_call_or_cannot_be_called_is_said(planner: Planner, message: str, says: str) -> None:
    (step,) = replace(planner, has_web=says != NO_WEB).plan(message, [], [])
    assert (step.says, [*step.calls]) == (says, [])


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ("how is the zebra, and what is on today?", NOT_ANSWERED.format("how is the zebra")),
        ("when is the library book due? Put that into my diary as well.", WHAT_TO_WRITE),
        ("is it sunny in Oslo on Friday?", ONLY_NOW),
    ],
)
def test_what_is_not_answered_is_said(planner: Planner, message: str, says: str) -> None:
    steps = planner.plan(message, [], [])
    assert any(step.calls for step in steps)
    assert says in [step.says for step in steps]


def test_what_was_written_before_the_last_message_is_not_taken_for_it(planner: Planner) -> None:
    added = Made("add_event", {}, '{"added": "haircut", "date": "Friday", "time": "9:00"}')
    (now,) = planner.plan("did you really add that?", [added], [])
    assert now.says.startswith("Yes. Added to your calendar: haircut, on Friday")
    (then,) = planner.plan("did you really add that?", [], [added])
    assert then.says.startswith("For your last message nothing was written. Before that: Added to your")


def test_the_day_of_what_was_written_before_an_answer_is_meant(planner: Planner) -> None:
    added = Made("add_event", {"title": "haircut", "date": "Friday", "time": "9:00"}, "{}")
    (step,) = planner.plan("what else is there on that day?", [], [added])
    assert [*step.calls] == [("list_events", {"date": "Friday"})]


def test_the_day_is_shown_that_a_write_depends_on(planner: Planner) -> None:
    (step,) = planner.plan("only when friday 18:30 is free, enter cinema", [], [])
    assert (step.says, [*step.calls]) == (DEPENDS, [("list_events", {"date": "friday"})])


@pytest.mark.parametrize(
    ("before", "message", "call"),
    [
        (Made("get_weather", {"city": "Oslo"}, "{}"), "and Tromsø", ("get_weather", {"city": "Tromsø"})),
        (
            Made("list_events", {"date": "today"}, "[]"),
            "and tomorrow?",
            ("list_events", {"date": "tomorrow"}),
        ),
        (
            Made("list_events", {"date": "Friday"}, "[]"),
            "sorry, at what time was it",
            ("list_events", {"date": "Friday"}),
        ),
        (
            Made("list_events", {"date": "Friday"}, "[]"),
            "then add lunch with Tom, 12:30",
            ("add_event", {"title": "lunch with Tom", "date": "Friday", "time": "12:30"}),
        ),
        (
            Made("read_note", {"id": "n1"}, '{"title": "Shop", "text": "Pads"}'),
            "write that down please",
            ("create_note", {"text": "Shop: Pads"}),
        ),
        (
            Made("add_event", {"title": "haircut", "date": "Friday", "time": "9:00"}, "{}"),
            "so what does that day look like now?",
            ("list_events", {"date": "Friday"}),
        ),
        (
            Made("read_mail", {"id": "m8"}, '{"body": "Your train to Bergen leaves at 7."}'),
            "will it be wet there?",
            ("get_weather", {"city": "Bergen"}),
        ),
        (
            Made("read_mail", {"id": "m7"}, '{"body": "The bridge"}'),
            "and my files, what do they say about that bridge",
            ("read_file", {"path": "work/bridge.txt"}),
        ),
        (
            Made("read_mail", {"id": "m10"}, '{"from": "A", "subject": "B", "body": "C"}'),
            "anything about squeezing oranges?",
            ("read_mail", {"id": "m10"}),
        ),
    ],
)
def test_a_message_goes_on_with_the_one_before(
    planner: Planner, before: Made, message: str, call: tuple[str, dict[str, str]]
) -> None:
    (step,) = planner.plan(message, [before], [])
    assert list(step.calls) == [call]


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Planner]:
    for name, text in (("school.md", "School: gym on Tuesdays"), ("recipe.md", "Stir for 30 seconds")):
        (tmp_path / name).write_text(text)
    with contextlib.closing(PersonalData.open(tmp_path, today=lambda: WEDNESDAY)) as data:
        for title, day, time in (
            ("Emil swimming", "2026-11-26", "17:00"),
            ("Dentist Emil", "2026-11-30", "09:00"),
            ("Dentist Ida", "2026-12-03", "16:00"),
            ("Choir", "2026-11-25", "18:00"),
        ):
            data.calendar.add(title, day, time)
        yield Planner(data, WEDNESDAY)


def _days(planner: Planner, message: str, before: Sequence[Made] = ()) -> list[str]:
    calls = [call for step in planner.plan(message, before, []) for call in step.calls]
    assert {name for name, _ in calls} <= {"list_events"}
    return [given["date"] for _, given in calls]


def test_the_event_with_most_of_the_words_is_meant_and_all_of_that_name(own: Planner) -> None:
    assert _days(own, "When is the dentist for Emil?") == ["2026-11-30"]
    assert _days(own, "When is the dentist?") == ["2026-11-30", "2026-12-03"]
    assert _days(own, "Which week is the dentist?") == ["2026-11-30", "2026-12-03"]


@pytest.mark.parametrize(("hour", "day"), [(17, "2026-11-25"), (19, "2026-11-26")])
def test_the_next_appointment_is_one_that_is_still_ahead(own: Planner, hour: int, day: str) -> None:
    later = replace(own, now=dt.datetime.combine(WEDNESDAY, dt.time(hour)))
    assert _days(later, "when's my next appointment?") == [day]


def test_a_week_and_a_place_go_on_with_the_list_before(own: Planner) -> None:
    listed = Made("list_events", {"date": "Sunday"}, "[]")
    assert _days(own, "Anything the week after?", [listed]) == ["week of 2026-11-30"]
    assert _days(own, "Where's the second one?", [listed]) == ["Sunday"]


def test_of_several_senders_of_a_name_all_are_shown_and_one_is_told_by_its_subject(tmp_path: Path) -> None:
    box = mailbox.mbox(tmp_path / "inbox.mbox")
    for sender, subject in (("Dan Moss", "Kitchen"), ("Dan Reyes", "Swap")):
        mail = EmailMessage()
        mail["From"], mail["Subject"], mail["Date"] = f"{sender} <a@b.c>", subject, formatdate()
        mail.set_content("Hello")
        box.add(mail)
    box.close()
    with contextlib.closing(PersonalData.open(tmp_path, today=lambda: WEDNESDAY)) as data:
        planner = Planner(data, WEDNESDAY)
        (step,) = planner.plan("Any mail from Dan?", [], [])
        assert [*step.calls] == [("search_mail", {"query": "dan"})]
        found = [{"id": each.id, "subject": each.subject} for each in data.mail.search("dan")]
        listed = Made("search_mail", {"query": "dan"}, json.dumps(found))
        (step,) = planner.plan("What does the one about the kitchen say?", [listed], [])
        (kitchen,) = [each["id"] for each in found if each["subject"] == "Kitchen"]
        assert [*step.calls] == [("read_mail", {"id": kitchen})]


def test_the_files_are_looked_at_once_for_a_message(
    planner: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, look = [], Sources._look
    monkeypatch.setattr(Sources, "_look", lambda sources: looks.append(1) or look(sources))
    for count in (1, 2):
        planner.plan("when is the thing with Tom, Hanna and the kayak, and is it in my notes?", [], [])
        assert len(looks) == count


def test_a_text_is_found_by_its_rare_words_and_by_misspelt_ones(planner: Planner) -> None:
    data = planner.data
    assert content_words("Where is Tom's kayak?") == ["tom", "kayak"]
    found = retrieve(["bergen", "platform"], data, ("notes", "mail", "files"))
    assert found is not None
    assert found.call == ("read_mail", {"id": "m8"})
    assert (found.coverage, found.kind) == (1.0, "mail")
    misspelt = retrieve(["lasagna"], data, ("notes",))
    assert misspelt is not None
    assert misspelt.name == "n11"
    assert retrieve(["platform"], data, ("notes", "files")) is None
    half = retrieve(["platform", "unheard"], data, ("mail",))
    assert half is not None
    assert 0.5 < half.coverage < 0.9
    assert retrieve([], data, ("mail",)) is None
    near = retrieve(["tom", "brakse"], data, ("notes", "mail", "files"), near={"m5"})
    assert near is not None
    assert near.name == "m5"


def test_a_word_counts_most_to_the_letter_and_one_that_many_have_tells_nothing(tmp_path: Path) -> None:
    for name, text in (
        ("A", "Parking fees: see the desk"),
        ("B", "Parked: see the desk"),
        ("C", "See the desk"),
    ):
        (tmp_path / f"{name}.md").write_text(text)
    with contextlib.closing(PersonalData.open(tmp_path)) as data:
        found = retrieve(["parked"], data, ("notes",))
        assert found is not None
        assert found.name == "n2"
        asked = ["desk", "zebra"]
        by_chance = retrieve(asked, data, ("notes",))
        assert by_chance is not None
        assert by_chance.is_by_chance(asked)
        assert not by_chance.is_by_chance(["desk"])
        rare = retrieve(["fees", "zebra"], data, ("notes",))
        assert rare is not None
        assert not rare.is_by_chance(["fees", "zebra"])
        assert not rare.is_sure(["fees", "zebra"])


def test_a_text_is_found_by_the_title_of_the_event_that_is_meant(tmp_path: Path) -> None:
    (tmp_path / "cat.txt").write_text("Mitzi: the clinic costs 40 euros")
    (tmp_path / "gym.txt").write_text("The gym costs 30 euros a month")
    with contextlib.closing(PersonalData.open(tmp_path, today=lambda: WEDNESDAY)) as data:
        planner = Planner(data, WEDNESDAY)
        asked = "what does the checkup cost?"
        (step,) = planner.plan(asked, [], [])
        assert ("read_file", {"path": "cat.txt"}) not in step.calls or step.is_closest
        data.calendar.add("Checkup Mitzi", "Friday", "10:00")
        (step,) = planner.plan(asked, [], [])
        assert [*step.calls] == [("read_file", {"path": "cat.txt"})]
