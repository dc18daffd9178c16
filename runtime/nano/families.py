"""Tool families: what a tool is called, how it is described, and how people ask for it.

Requests are written in a small grammar: ``[a|b]`` chooses one alternative (it may be empty, and nests),
``{slot}`` is filled with an entity. Lines under ``held_out`` are never used in training: evaluation asks
through them. Imperative lines start with a verb and are wrapped in politeness; a line that ends in ``?``
is a question and stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

ArgumentType = str
"""The JSON schema type shown to the model: "string", "integer", "number", or alternatives such as "on|off"."""


@dataclass(frozen=True)
class Parameter:
    """One parameter: its usual name, what it is filled with, and other names it may go by."""

    name: str
    slot: str
    type: ArgumentType = "string"
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Family:
    """One kind of tool. ``names[0]`` is the usual name; ``held_out_names`` appear in evaluation only."""

    key: str
    names: tuple[str, ...]
    held_out_names: tuple[str, ...]
    descriptions: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    requests: tuple[str, ...]
    held_out: tuple[str, ...]
    nouns: tuple[str, ...]
    chain_to: str = ""
    chain_requests: tuple[str, ...] = ()
    chain_held_out: tuple[str, ...] = ()


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.strip().splitlines() if line.strip())


def _family(
    key: str,
    names: str,
    held_out_names: str,
    descriptions: str,
    parameters: tuple[Parameter, ...],
    requests: str,
    held_out: str,
    nouns: str,
    chain_to: str = "",
    chain_requests: str = "",
    chain_held_out: str = "",
) -> Family:
    return Family(
        key,
        tuple(names.split()),
        tuple(held_out_names.split()),
        tuple(description.strip() for description in descriptions.split(";")),
        parameters,
        _lines(requests),
        _lines(held_out),
        tuple(nouns.split()),
        chain_to,
        _lines(chain_requests),
        _lines(chain_held_out),
    )


_QUERY = Parameter(
    "query", "topic", aliases=("q", "text", "keywords", "search", "term", "phrase", "words", "search_query")
)
_ID = ("id_", "identifier", "ref", "key", "number")


FAMILIES: dict[str, Family] = {
    family.key: family
    for family in (
        _family(
            "search_notes",
            "search_notes find_notes notes_search lookup_notes search_note list_notes notes.search searchNotes",
            "search_my_notes notes_find query_notes findNotes",
            "Search the notes;Search notes by keyword;Find notes;Search the user's notes for a phrase;Find notes that mention a word;Search my notes by text;Look for notes about a topic;Search the user's notes",
            (_QUERY,),
            """
            [search|check|look through|scan|browse] [my|the|our|all my] notes [for|about|on] {topic}
            [find|show|get|show me|find me|get me|list|give me|bring up] [my|the|all|all my|any|] notes [about|on|for|that mention|mentioning|with|related to|regarding|containing] {topic}
            [look for|look up|find|search for|search] {topic} in [my|the] notes
            find [the|a|my] note [on|about|for|that mentions|called|titled] {topic}
            [find|where is] my {bare_topic} note
            search notes: {topic}
            search [for notes|for a note|notes|my notes] [about|on|for] {topic}
            [do|did] I have [any|some|a] [note|notes] [about|on|for|regarding] {topic}?
            do I have notes [about|on] {topic}?
            [have I|did I] [written|noted|write|note] [anything|something] [about|on] {topic}?
            [are there|is there] [any notes|a note|anything in my notes|something in my notes] [about|on] {topic}?
            which [of my notes|notes] [mention|are about|talk about|contain] {topic}?
            where did I write [about|down] {topic}?
            notes about {topic}
            which notes do I have [about|on] {topic}?
            [see|check] [if|whether] I have [a note|notes|any notes] [about|on] {topic}
            """,
            """
            go through my notes and find {topic}
            pull up my notes about {topic}
            dig out the notes on {topic}
            is {topic} mentioned in my notes?
            what notes exist about {topic}?
            """,
            "notes note",
            chain_to="read_note",
            chain_requests="""
            [read|open|show] [me|] the note [about|on|for|called] {topic}
            [read|open|show me|read me] my {bare_topic} note
            what is in my {bare_topic} note?
            what does my {bare_topic} note say?
            [find|search] [the|my] note [about|on] {topic} and [read|open|show] [it|it to me]
            [read|open] [me|] my note [about|on|for] {topic}
            what does [my|the] note [about|on|for|called] {topic} say?
            what [is|did I write|did I note|do I have] in [my|the] note [about|on|for] {topic}?
            what do my notes say [about|on] {topic}?
            what did I write [about|down about|on] {topic}?
            what did I note [about|on|down about] {topic}?
            [tell me|show me] what [my|the] note [about|on] {topic} says
            [look up|find] {topic} in my notes and [read|open] [it|the note]
            search my notes for {topic} and [read|open] the [first|first one|note|best one]
            """,
            chain_held_out="""
            find my note about {topic} and tell me what it says
            what is written in the note about {topic}?
            I want to know what my note on {topic} says
            """,
        ),
        _family(
            "read_note",
            "read_note open_note get_note note_read show_note notes.get readNote",
            "note_open fetch_note display_note",
            "Read a note by id;Read one note;Open a note by its id;Get the text of a note;Return one note;Show a note",
            (Parameter("id", "id", aliases=("note_id", "note", *_ID)),),
            """
            [read|open|show|get|show me|display|give me] [note|the note|my note] {id}
            [read|open|show] the note with [id|the id] {id}
            what [does|is in|did I write in] note {id} [say|]?
            what is in note {id}?
            what does note {id} say?
            """,
            """
            bring up note {id}
            let me see note {id}
            what is written in note {id}?
            """,
            "note",
        ),
        _family(
            "create_note",
            "create_note add_note write_note note_create make_note notes.add createNote",
            "save_note new_note note_add",
            "Create a note;Write a new note;Save a note;Add a note;Store a new note;Take a note;Write down a note",
            (Parameter("text", "prose", aliases=("content", "note", "body", "note_text")),),
            """
            [write|make|create|add|save|take] a [note|new note]: {prose}
            [create|write|make|add|save|take] a note [saying|that says|with the text|that|which says]: {prose}
            [create|write|make|add|save|take] a note [saying|that says|with the text] {prose}
            [note down|write down|jot down|note|note that]: {prose}
            [note down|write down|jot down] that {prose}
            [note down|write down|jot down] {prose}
            add to my notes: {prose}
            add {prose} to my notes
            save this [note|as a note|in my notes]: {prose}
            remember this: {prose}
            new note: {prose}
            put {prose} in my notes
            make a note [of|about] {topic_prose}
            """,
            """
            keep a note: {prose}
            store a note saying {prose}
            put this down in my notes: {prose}
            """,
            "note",
        ),
        _family(
            "list_events",
            "list_events list_calendar get_calendar calendar_list get_events calendar.list listEvents check_calendar",
            "show_calendar calendar_events events_on",
            "List calendar events for a date;List events on a day;Show calendar;List the events on a date;List the user's calendar events for a day;Get the events of a day;What is on the calendar",
            (Parameter("date", "date", aliases=("day", "when", "on", "date_text")),),
            """
            [list|show|get|check|show me|tell me|give me] [my|the|all|all my] [events|appointments|meetings|plans] [for|on|] {date}
            [show|check|open|look at|show me|get|view] [my|the] [calendar|schedule|agenda|diary] [for|on|] {date}
            [tell me|show me] what [is on|I have on] my [calendar|schedule|agenda] [for|on|] {date}
            tell me my [plans|schedule|agenda|appointments] for {date}
            list everything [for|on] {date}
            [what is|what's|what do I have] on my [calendar|schedule|agenda] [on|for|] {date}?
            what do I have [on|planned for|scheduled for|planned|scheduled|] {date}?
            [what's|what is] [planned|scheduled|happening|on|coming up] [for|on|] {date}?
            do I have [anything|any meetings|any appointments|any events|something|a meeting|plans|any plans] [on|for|planned for|] {date}?
            am I [free|busy|available] [on|] {date}?
            [what|which] [meetings|appointments|events|plans] [do I have|are there|are planned] [on|for|] {date}?
            how does {date} look?
            how busy am I [on|] {date}?
            what am I doing [on|] {date}?
            [is there|is] anything [planned|scheduled|on my calendar|on the calendar] [for|on|] {date}?
            my [calendar|schedule|agenda] for {date}
            when is my [first|next] meeting [on|] {date}?
            """,
            """
            look at my agenda and tell me about {date}
            run me through my day {date}
            is my calendar empty {date}?
            what have I got on {date}?
            what does my day look like {date}?
            """,
            "calendar events agenda schedule",
        ),
        _family(
            "add_event",
            "add_event create_event calendar_add schedule_event book_event calendar.add createEvent",
            "new_event event_create put_event",
            "Add a calendar event;Create an event;Schedule an event;Add an event to the calendar;Put an event on the calendar;Create a calendar entry",
            (
                Parameter("title", "title", aliases=("name", "event", "summary", "what")),
                Parameter("date", "date", aliases=("day", "when", "on")),
                Parameter("time", "time", aliases=("at", "start", "hour", "start_time")),
            ),
            """
            [add|put|enter|write] {title} [to|on|in|into] my [calendar|agenda|schedule|diary] [on|for|] {date} at {time}
            [schedule|book|plan|arrange|set up|add|put in] {title} [on|for|] {date} at {time}
            [schedule|book|plan|add|set up] {title} at {time} [on|] {date}
            [schedule|book|plan|add] {title} for {time} [on|] {date}
            [create|add|make] [an event|a calendar entry|an appointment|a new event|an entry] [called|named|for|titled|] {title} [on|for|] {date} at {time}
            [create|add|make] an event [on|for|] {date} at {time} [called|named|for|titled] {title}
            [on|for|] {date} at {time} [add|schedule|book|plan] {title}
            add to my calendar: {title}, {date}, {time}
            add to my calendar: {title} [on|] {date} at {time}
            I have {title} [on|] {date} at {time}, [add it|put it in my calendar|add it to my calendar|schedule it]
            put {title} at {time} [on|] {date} [in|on] my calendar
            new event: {title} [on|] {date} at {time}
            """,
            """
            block {date} at {time} for {title}
            mark {title} in my calendar for {date} at {time}
            set {title} down for {date} at {time}
            """,
            "event calendar appointment",
        ),
        _family(
            "search_mail",
            "search_mail search_email find_email email_search search_emails mail_search search_inbox mail.search searchMail",
            "query_email mail_find find_mail email_lookup",
            "Search the email inbox;Search emails;Find mail;Search the mail;Search the user's mail;Find emails by keyword;Search the mailbox for a phrase;Find messages in the inbox",
            (Parameter("query", "mail_topic", aliases=_QUERY.aliases),),
            """
            [search|check|look through|scan] my [email|mail|inbox|mailbox|emails|mails|e-mail] [for|about] {mail_topic}
            [find|show|get|show me|find me|list|look for] [the|any|all|my|] [emails|mails|email|mail|messages|e-mails] [about|on|regarding|concerning|mentioning] {mail_topic}
            [find|show|get|show me|look for] [the|any|all|] [emails|mails|mail|messages] from {person_topic}
            [find|look for|search for] {mail_topic} in my [mail|email|inbox|mailbox]
            search [mail|email|inbox]: {mail_topic}
            [do I have|did I get|have I got|did I receive|is there] [any|an|] [email|mail|emails|message|mails] [about|on|regarding|concerning] {mail_topic}?
            [do I have|did I get|is there] [any|] [mail|email|messages|news] from {person_topic}?
            did {person_topic} [write|mail|email|send] [me|anything|me anything]?
            has {person_topic} [written|mailed|emailed|replied|answered]?
            who [wrote|mailed|emailed] me about {mail_topic}?
            [any|new] [mail|emails] [about|on] {mail_topic}?
            mails about {mail_topic}
            [see|check] [if|whether] [there is|I have|I got] [mail|an email|a message] [about|on|from] {mail_topic}
            """,
            """
            comb my email for {mail_topic}
            go through my inbox and find {mail_topic}
            have I received emails about {mail_topic}?
            is there anything in my inbox about {mail_topic}?
            """,
            "mail email inbox messages",
            chain_to="read_mail",
            chain_requests="""
            [read|open|show] [me|] the [email|mail|message|e-mail] [about|on|regarding] {mail_topic}
            [read|open|show] [me|] the [email|mail|message|last mail|latest email] from {person_topic}
            [read|open|show me|read me] {person_topic}'s [email|mail|message|last mail|latest mail]
            what does {person_topic}'s [email|mail|message|last mail] say?
            [read|open|show me] the {bare_topic} [email|mail|message]
            [find|search for|look for] [and|] [the|] [email|mail|message] [about|on] {mail_topic} and [read|open|show] it
            [find|find me] the [email|mail|message] [about|on] {mail_topic} and [read|open] [it|it to me]
            search my [email|mail|inbox] for {mail_topic} and [read|open] [it|the first one|the first]
            what does the [email|mail|message] [about|on|from] {mail_topic} say?
            what [is|was] in the [email|mail|message] [about|on|from] {mail_topic}?
            what did {person_topic} [write|say|want|send] [in the mail|in the email|in the message|me|to me|]?
            what did {person_topic} [write|say] [about|in the mail about] {mail_topic_only}?
            what does {person_topic} [want|say|write] [in the mail|in the email|by mail]?
            [tell me|show me] what the [mail|email] [about|from] {mail_topic} says
            """,
            chain_held_out="""
            find the email about {mail_topic} and tell me what it says
            what did the mail about {mail_topic} say?
            I want to hear the message about {mail_topic}
            """,
        ),
        _family(
            "read_mail",
            "read_mail read_email open_email email_read get_email open_mail mail.get readMail get_message",
            "show_email fetch_email mail_open",
            "Read an email by id;Read one email;Open a mail by id;Read one mail;Get the text of a mail;Return one message;Show an email",
            (Parameter("id", "id", aliases=("mail_id", "email_id", "message_id", "message", *_ID)),),
            """
            [read|open|show|get|show me|display|give me] [email|mail|message|the mail|the email] {id}
            [read|open|show] the [email|mail|message] with [id|the id] {id}
            what does [email|mail|message|the mail] {id} say?
            what is in [email|mail|message] {id}?
            who [sent|wrote] [mail|message|email] {id}?
            """,
            """
            bring up message {id}
            let me see mail {id}
            what is written in email {id}?
            """,
            "email mail message",
        ),
        _family(
            "search_files",
            "search_files find_files file_search lookup_files search_documents files.search searchFiles find_file",
            "query_files files_find locate_files",
            "Search the files;Find files by keyword;Search files by name or text;Find documents;Search the folder;Search the user's files for a phrase;Find files that mention a word",
            (Parameter("query", "topic", aliases=_QUERY.aliases),),
            """
            [search|check|look through|scan] [my|the|all] [files|documents|folder|folders|docs] [for|about] {topic}
            [find|show|list|show me|find me|get|look for] [the|my|all|any|] [files|documents|docs] [about|on|mentioning|that mention|with|for|regarding|related to] {topic}
            find [the|a|my] [file|document|doc] [about|on|for|that mentions] {topic}
            [look for|look up|find|search for] {topic} in [my|the] [files|documents|folder|docs]
            search files: {topic}
            search for [files|documents|a file] [about|on] {topic}
            [do I have|is there|are there] [any|a|some|] [files|file|document|documents] [about|on|for] {topic}?
            which [files|documents|file] [mention|are about|contain|mentions|is about|talk about] {topic}?
            where is [the|my] [file|document] [about|on|for|with] {topic}?
            files about {topic}
            """,
            """
            go through my documents and find {topic}
            pull up files about {topic}
            is there a file that talks about {topic}?
            """,
            "files documents folder",
            chain_to="read_file",
            chain_requests="""
            [read|open|show] [me|] the [file|document|doc] [about|on|for] {topic}
            [read|open|show me] the {bare_topic} [file|document]
            what is in the {bare_topic} [file|document]?
            [find|search for|look for] [the|] [file|document] [about|on] {topic} and [read|open|show] it
            what does [my|the] [file|document] [about|on|for] {topic} say?
            what is in [my|the] [file|document] [about|on|for] {topic}?
            search my files for {topic} and [read|open] [it|the first one|the first]
            [tell me|show me] what the [file|document] [about|on] {topic} says
            """,
            chain_held_out="""
            find the document about {topic} and tell me what it says
            what is written in the file about {topic}?
            """,
        ),
        _family(
            "read_file",
            "read_file open_file file_read get_file cat_file files.read readFile read_document",
            "load_file show_file view_file",
            "Read a text file;Read a file;Return file contents;Read one file;Open a file by path;Get the text of a file;Show the contents of a file",
            (
                Parameter(
                    "path", "path", aliases=("file", "filename", "file_name", "name", "file_path", "document")
                ),
            ),
            """
            [read|open|print|show|show me|display|view|load] {path}
            [read|open|show|display|print|show me] the [file|document] {path}
            [show|show me|display|get|print|read|give me|read me] the [contents|content|text] of [the file|] {path}
            [what is|what's] in [the file|] {path}?
            what does [the file|] {path} [say|contain]?
            [tell me|show me] what [is in|] {path} [says|contains|]
            open {path} and [tell me|show me] what it says
            """,
            """
            open up {path}
            let me see {path}
            what is written in {path}?
            """,
            "file document",
        ),
        _family(
            "get_weather",
            "get_weather weather check_weather weather_lookup current_weather weather.get getWeather weather_forecast",
            "weather_now city_weather fetch_weather",
            "Get the weather for a city;Current weather;Weather forecast;Get the weather in a city;Current weather in a city;Look up the weather;Report the weather of a place",
            (Parameter("city", "city", aliases=("location", "place", "town", "where", "city_name")),),
            """
            [get|tell me|check|show|show me|look up|find out|give me] the [weather|current weather|forecast|temperature|weather forecast|weather report] [in|for|at] {city}
            [what is|what's|how is|how's] the [weather|weather like|weather today|current weather|forecast] [in|for|at] {city}?
            what is the weather [like|going to be|doing] in {city}?
            [what is|what's|tell me] the temperature in {city}?
            is it [raining|sunny|cold|warm|snowing|hot|windy|cloudy|nice|foggy|freezing|dry] in {city}?
            [what is|what's|how is|how's] the [weather|forecast|temperature] in {city} [today|right now|now|at the moment|tomorrow|this morning|tonight]?
            is it [raining|sunny|cold|warm|snowing|hot|windy] in {city} [today|right now|now|at the moment]?
            [get|check|tell me|show me] the weather in {city} [today|right now|now|at the moment]
            [will it|is it going to|does it] [rain|snow|be sunny|be warm|be cold] in {city}?
            how [warm|cold|hot|windy|nice] is it in {city}?
            do I need [an umbrella|a coat|a jacket|sunglasses|gloves] in {city}?
            how many degrees [is it|are there] in {city}?
            what will the weather be [like|] in {city}?
            [I am|I'm] [going|travelling|flying] to {city}, [how is|what is] the weather [there|]?
            weather in {city}
            {city} weather
            [should I|do I have to] [take|bring|wear] [an umbrella|a coat|a raincoat] in {city}?
            """,
            """
            let me know the weather in {city}
            what sort of weather does {city} have?
            is the sun shining in {city}?
            what are the conditions in {city}?
            how does the weather look in {city}?
            """,
            "weather forecast",
        ),
        _family(
            "set_timer",
            "set_timer start_timer timer timer_set timers.start create_timer",
            "timer_start new_timer",
            "Set a timer;Start a timer;Start a countdown;Set a kitchen timer;Run a timer for some minutes",
            (
                Parameter(
                    "minutes", "minutes", "integer", ("duration", "duration_minutes", "mins", "length")
                ),
                Parameter("label", "noun", aliases=("name", "title", "what", "purpose")),
            ),
            """
            [set|start|run] a timer for {minutes} minutes [for|called|named|labelled] {noun}
            [set|start|run] a {minutes} minute timer [for|called|named] {noun}
            [set|start|run] a {noun} timer [for|of] {minutes} minutes
            I need a {minutes} minute timer for {noun}
            I need a {noun} timer for {minutes} minutes
            time {minutes} minutes for {noun}
            count down {minutes} minutes for {noun}
            """,
            """
            put {minutes} minutes on a timer for {noun}
            let a timer called {noun} run for {minutes} minutes
            """,
            "timer countdown",
        ),
        _family(
            "calculate",
            "calculate calc calculator compute_expression math_eval evaluate calc.run",
            "do_math calc_eval math",
            "Evaluate an arithmetic expression;Calculator;Do math;Calculate an expression;Compute the value of an expression",
            (
                Parameter(
                    "expression", "expression", aliases=("expr", "formula", "input", "math", "calculation")
                ),
            ),
            """
            [calculate|compute|work out|evaluate|calc|solve] {expression}
            [what is|what's|how much is] {expression}?
            [what do you get for|what is the result of|what is the value of] {expression}?
            [tell me|give me] the [result|value] of {expression}
            {expression} = ?
            """,
            """
            figure out {expression}
            what does {expression} equal?
            """,
            "calc math",
        ),
        _family(
            "get_contact",
            "get_contact find_contact contact_lookup lookup_contact search_contacts contacts.get phone_book",
            "contact_get show_contact phone_lookup",
            "Look up a contact;Find the phone number of a contact;Get a contact;Find a person in the contacts;Get contact details of a person",
            (Parameter("name", "person", aliases=("person", "contact", "who", "contact_name")),),
            """
            [find|get|give me|look up|tell me|show me] the [phone number|number|contact|email address|address|phone|contact details] [of|for] {person}
            [look up|find|show] {person} in my [contacts|address book|phone book]
            [show|open|get] [the|] contact {person}
            what is the [phone number|number|address|email address] [of|for] {person}?
            what is {person}'s [number|phone number|address]?
            how [can|do] I [reach|contact|call] {person}?
            I need [the number|the phone number|the address] of {person}
            """,
            """
            find the contact {person}
            what number does {person} have?
            """,
            "contact contacts phone",
        ),
        _family(
            "add_todo",
            "add_todo create_todo todo_add add_task create_task tasks.add new_task",
            "todo_create append_todo",
            "Add a todo item;Add a task to the todo list;Create a task;Add an item to the list of tasks",
            (Parameter("item", "task", aliases=("task", "text", "title", "todo", "description")),),
            """
            [add|put] {task} [to|on] [my|the] [todo list|to-do list|list of tasks|tasks|task list|todos]
            [add|create|make] a [task|todo|new task]: {task}
            [add|create] a [task|todo] to {task}
            add the [todo|task] {task}
            new [task|todo]: {task}
            I [have to|need to|must] {task}, add it to my [todos|tasks|todo list]
            """,
            """
            put down a task to {task}
            my todo list needs this: {task}
            """,
            "todo task",
        ),
        _family(
            "set_reminder",
            "set_reminder remind create_reminder add_reminder reminder_set reminders.add remind_me",
            "reminder_create new_reminder",
            "Set a reminder;Remind the user of something;Create a reminder at a time;Remind me",
            (
                Parameter("text", "task", aliases=("what", "message", "about", "title")),
                Parameter("time", "time", aliases=("when", "at", "hour")),
            ),
            """
            remind me to {task} at {time}
            remind me at {time} to {task}
            [set|create|add] a reminder [to|for] {task} at {time}
            [set|create|add] a reminder for {time}: {task}
            at {time} remind me to {task}
            I want to be reminded to {task} at {time}
            """,
            """
            make sure I {task} at {time}
            give me a reminder at {time} to {task}
            """,
            "reminder",
        ),
        _family(
            "send_message",
            "send_message message_send send_sms text_message messages.send send_text sms",
            "message_person dispatch_message",
            "Send a message to a person;Send a text message;Send an SMS;Message someone",
            (
                Parameter("to", "person", aliases=("recipient", "person", "contact", "name")),
                Parameter("text", "short", aliases=("message", "body", "content")),
            ),
            """
            [send|write] a message to {person}: {short}
            [send|text|message|write] {person}: {short}
            [tell|text] {person} that {short}
            [send|write] {person} a [message|text]: {short}
            [send|write] a message to {person} [saying|that says] {short}
            let {person} know that {short}
            send {short} to {person}
            """,
            """
            drop {person} a line: {short}
            inform {person} that {short}
            """,
            "message sms text",
        ),
        _family(
            "send_mail",
            "send_mail send_email email_send mail_send write_email mail.send compose_email",
            "dispatch_mail email_compose",
            "Send an email;Write and send an email;Send a mail to a person;Compose an email",
            (
                Parameter("to", "person", aliases=("recipient", "address")),
                Parameter("subject", "title", aliases=("title", "topic")),
                Parameter("body", "short", aliases=("text", "content", "message")),
            ),
            """
            [send|write] an email to {person} [about|with the subject|with subject] {title}: {short}
            [send|write] {person} [an email|a mail] [about|with the subject|on] {title} [saying|that says] {short}
            email {person} about {title}: {short}
            mail {person} with subject {title} and text {short}
            """,
            """
            compose a mail to {person} on {title}: {short}
            """,
            "email mail",
        ),
        _family(
            "translate",
            "translate translate_text translation translator text_translate",
            "lang_translate to_language",
            "Translate text;Translate a text into a language;Translate words to another language",
            (
                Parameter("text", "short", aliases=("input", "phrase", "source")),
                Parameter("language", "language", aliases=("to", "target", "target_language", "lang")),
            ),
            """
            translate {short} [to|into] {language}
            [say|write] {short} in {language}
            how do you say {short} in {language}?
            what is {short} in {language}?
            translate into {language}: {short}
            """,
            """
            give me {short} in {language}
            put {short} into {language}
            """,
            "translation language",
        ),
        _family(
            "convert_currency",
            "convert_currency currency_convert exchange currency exchange_money fx_convert",
            "money_convert change_currency",
            "Convert an amount between currencies;Currency converter;Convert money;Exchange rate calculator",
            (
                Parameter("amount", "number", "number", ("value", "sum")),
                Parameter("from", "currency", aliases=("source", "from_currency")),
                Parameter("to", "currency2", aliases=("target", "to_currency")),
            ),
            """
            convert {number} {currency} [to|into] {currency2}
            [how much is|how much are|what is] {number} {currency} in {currency2}?
            [change|exchange] {number} {currency} [to|into|for] {currency2}
            how many {currency2} [are|is|do I get for] {number} {currency}?
            """,
            """
            turn {number} {currency} into {currency2}
            what are {number} {currency} worth in {currency2}?
            """,
            "currency money",
        ),
        _family(
            "get_time",
            "get_time current_time time_in world_clock clock.now what_time",
            "local_time time_lookup",
            "Get the current time in a city;Current time of a place;World clock;Tell the time in a city",
            (Parameter("city", "city", aliases=("place", "location", "timezone", "zone")),),
            """
            what time is it in {city}?
            [tell me|get|show me|give me] the [time|current time|local time] in {city}
            [what is|what's] the [time|local time|current time] in {city}?
            how late is it in {city}?
            time in {city}
            """,
            """
            what does the clock say in {city}?
            check the time in {city}
            """,
            "time clock",
        ),
        _family(
            "web_search",
            "web_search search_web internet_search browse search_internet google web.search",
            "search_online net_search",
            "Search the web;Search the internet;Look something up online;Web search",
            (Parameter("query", "topic", aliases=_QUERY.aliases),),
            """
            [search|look on|check] [the web|the internet|online] for {topic}
            [look up|search|find|search for] {topic} [online|on the web|on the internet]
            [google|browse] {topic}
            search online for {topic}
            what does the internet say about {topic}?
            """,
            """
            go online and find {topic}
            """,
            "web internet",
        ),
        _family(
            "play_music",
            "play_music play play_song music_play start_music media.play music_player",
            "song_play put_on_music",
            "Play music;Play a song or an artist;Start playing music",
            (Parameter("query", "topic", aliases=("song", "title", "music", "name", "artist")),),
            """
            play {topic}
            play [some|the song|the album|music by|something by|songs by] {topic}
            [put on|start playing] {topic}
            I want to [hear|listen to] {topic}
            """,
            """
            let me hear {topic}
            turn on some {topic} music
            """,
            "music song",
        ),
        _family(
            "set_light",
            "set_light light_switch switch_light lights turn_light lights.set",
            "toggle_light light_control",
            "Turn a light on or off;Switch the light in a room;Control the lights",
            (
                Parameter("room", "room", aliases=("place", "where", "location")),
                Parameter("state", "on_off", "on|off", ("value", "switch", "status")),
            ),
            """
            [turn|switch] {on_off} the [light|lights|lamp] in the {room}
            [turn|switch] the [light|lights|lamp] in the {room} {on_off}
            [turn|switch] the {room} [light|lights|lamp] {on_off}
            [turn|switch] {on_off} the {room} [light|lights|lamp]
            {room} lights {on_off}
            """,
            """
            make the {room} light go {on_off}
            I want the light in the {room} {on_off}
            """,
            "light lights lamp",
        ),
        _family(
            "set_temperature",
            "set_temperature heating set_heating thermostat heat_control thermostat.set",
            "adjust_heating temperature_set",
            "Set the temperature of a room;Control the heating;Set the thermostat",
            (
                Parameter("room", "room", aliases=("place", "where", "zone")),
                Parameter("degrees", "degrees", "integer", ("temperature", "value", "target")),
            ),
            """
            set the [temperature|heating|thermostat] in the {room} to {degrees} [degrees|]
            [set|heat|cool] the {room} to {degrees} degrees
            make the {room} {degrees} degrees
            turn the [heating|heat] in the {room} [up|down|] to {degrees}
            """,
            """
            I would like {degrees} degrees in the {room}
            bring the {room} to {degrees} degrees
            """,
            "heating temperature",
        ),
        _family(
            "get_route",
            "get_route directions get_directions route_planner navigate maps.route find_route",
            "plan_route route_find",
            "Get directions between two places;Plan a route;Find the way from one place to another",
            (
                Parameter("from", "city", aliases=("origin", "start", "source")),
                Parameter("to", "city2", aliases=("destination", "end", "target")),
            ),
            """
            [how do I get|how do I drive|how do I travel|how can I get] from {city} to {city2}?
            [get|show me|give me|find] [directions|the way|a route|the route] from {city} to {city2}
            [plan|find] a [route|trip] from {city} to {city2}
            navigate from {city} to {city2}
            what is the [best|fastest|shortest] [way|route] from {city} to {city2}?
            """,
            """
            guide me from {city} to {city2}
            which road goes from {city} to {city2}?
            """,
            "route directions",
        ),
        _family(
            "get_stock",
            "get_stock stock_price stock_quote quote share_price stocks.get",
            "price_of_stock stock_lookup",
            "Get the price of a stock;Stock quote;Look up a share price",
            (Parameter("symbol", "symbol", aliases=("ticker", "stock", "company")),),
            """
            [what is|what's] the [price|stock price|share price|quote] of {symbol}?
            [get|show me|check|tell me|look up] the [price|stock price|share price|quote] [of|for] {symbol}
            how [is|much is] {symbol} [stock|trading|] [doing|worth|]?
            {symbol} stock price
            """,
            """
            what does a share of {symbol} cost?
            """,
            "stock share price",
        ),
        _family(
            "track_package",
            "track_package track_parcel package_status parcel_tracking track_order shipping.track",
            "locate_package parcel_status",
            "Track a package by number;Get the status of a parcel;Track an order",
            (Parameter("number", "id", aliases=("tracking_number", "id", "code", "package", "order_id")),),
            """
            [track|follow] [my|the|] [package|parcel|order|shipment] {id}
            where is [my|the] [package|parcel|order|shipment] {id}?
            [what is|check|show me] the status of [package|parcel|order|shipment] {id}
            when does [package|parcel|order] {id} arrive?
            """,
            """
            locate parcel {id}
            has order {id} arrived?
            """,
            "package parcel order",
        ),
        _family(
            "define_word",
            "define_word dictionary define word_meaning lookup_word dictionary.get",
            "meaning_of explain_word",
            "Define a word;Look up a word in the dictionary;Get the meaning of a word",
            (Parameter("word", "noun", aliases=("term", "text", "query")),),
            """
            [define|explain] [the word|] {noun}
            what does [the word|] {noun} mean?
            what is the [meaning|definition] of {noun}?
            [look up|find] {noun} in the dictionary
            """,
            """
            what is meant by {noun}?
            """,
            "dictionary definition",
        ),
        _family(
            "delete_note",
            "delete_note remove_note note_delete notes.delete erase_note",
            "drop_note note_remove",
            "Delete a note by id;Remove a note;Delete one note",
            (Parameter("id", "id", aliases=("note_id", "note", *_ID)),),
            """
            [delete|remove|erase|throw away] [note|the note|my note] {id}
            [delete|remove] the note with [id|the id] {id}
            """,
            """
            get rid of note {id}
            """,
            "note",
        ),
        _family(
            "find_restaurant",
            "find_restaurant restaurant_search search_restaurants restaurants places_to_eat dining.find",
            "restaurant_find eat_out",
            "Find a restaurant in a city;Search restaurants by cuisine;Find places to eat",
            (
                Parameter("city", "city", aliases=("location", "place", "where")),
                Parameter("cuisine", "cuisine", aliases=("food", "kind", "type")),
            ),
            """
            [find|show me|look for|search for] [a|an|some|] {cuisine} [restaurant|restaurants|place|food] in {city}
            where can I [eat|get|find] {cuisine} [food|] in {city}?
            I want to eat {cuisine} [food|] in {city}
            """,
            """
            suggest {cuisine} restaurants in {city}
            """,
            "restaurant food",
        ),
    )
}

DEMO_FAMILIES = (
    "search_notes",
    "read_note",
    "create_note",
    "list_events",
    "add_event",
    "search_mail",
    "read_mail",
    "search_files",
    "read_file",
    "get_weather",
)
"""The families behind the personal assistant's tools, under their usual names."""

POLITE_PREFIXES = (
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "please ",
    "Please ",
    "can you ",
    "could you ",
    "hey, ",
    "hi, please ",
    "I need you to ",
    "would you ",
    "ok, ",
    "now ",
    "can you please ",
    "could you please ",
    "hello, ",
    "I want you to ",
    "assistant, ",
    "quickly ",
    "I'd like you to ",
    "hey can you ",
    "go ahead and ",
    "next, ",
    "you should ",
    "and ",
)
HELD_OUT_PREFIXES = ("kindly ", "alright, ", "would you mind, ", "help me and ", "hi there, could you ")
POLITE_SUFFIXES = (
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    " please",
    ", please",
    ", thanks",
    " now",
    " for me",
    " thanks",
    ", will you",
    " again",
)
HELD_OUT_SUFFIXES = (", thank you", " right away", " if you can")
