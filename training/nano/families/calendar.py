"""Tools for time: events, tasks, reminders, timers."""

from .family import Parameter, family

CALENDAR = (
    family(
        "list_events",
        names="list_events list_calendar get_calendar calendar_list get_events calendar.list listEvents check_calendar",
        held_out_names="show_calendar calendar_events events_on",
        descriptions="""
            List calendar events for a date
            List events on a day
            Show calendar
            List the events on a date
            List the user's calendar events for a day
            Get the events of a day
            What is on the calendar
            """,
        parameters=(Parameter("date", "date", aliases=("day", "when", "on", "date_text"), default="today"),),
        requests="""
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
            {date}: what [is|do I have] on?
            what [are|were] my [plans|appointments|meetings|events] [for|on|] {date}?
            my [day|appointments|meetings|plans|events] [for|on|] {date}
            I [need|want] [my|the] [calendar|schedule|agenda|appointments] [for|on|] {date}
            anything [on|] {date}?
            do I have to be anywhere [on|] {date}?
            which [events|appointments] does my calendar have [for|on|] {date}?
            [fetch|read|print] [my|the] [agenda|schedule|events] [of|for] {date}
            what's up [on|] {date}?
            [is|was] there a meeting [on|] {date}?
            what should I do [on|] {date} according to my calendar?
            have I got time [on|] {date}?
            what's [planned|scheduled|going on|happening|waiting for me|due] [on|for|] {date}?
            what [are|is] [my|the] [commitments|engagements|schedule|agenda|program|to-dos|timetable] [for|on|] {date}?
            what [comes|is coming] up [on|] {date}?
            what [meetings|appointments|events|plans] do I have [on|for|] {date}?
            which meetings are [on|] {date}?
            which appointments have I got [on|] {date}?
            who do I meet [on|] {date}?
            who am I meeting [on|] {date}?
            when do I [have to|need to] be somewhere [on|] {date}?
            where do I have to be [on|] {date}?
            how [full|packed|free|crowded] is [my day|my calendar|my schedule|it] [on|] {date}?
            how many [meetings|appointments|events] do I have [on|] {date}?
            do I have [time|free time|a free slot|an appointment|appointments|events|work|any calls] [on|] {date}?
            do I need to [be|go] [anywhere|somewhere] [on|] {date}?
            have I [got|] [anything|something|any meetings|plans|any events] [planned|scheduled|on|] [for|on|] {date}?
            is {date} [free|busy|full|open|available]?
            is my [calendar|agenda|schedule|diary] [full|free|busy|clear|open] [on|for|] {date}?
            is [there nothing|nothing] in my [calendar|agenda|diary] [on|for|] {date}?
            is [my day|my diary] [free|full|open] [on|] {date}?
            is something [on|planned|happening] [on|] {date}?
            [are there|is there] [any|] [events|appointments|meetings|an event|an appointment] [on|for|] {date}?
            are there events in my calendar [on|for|] {date}?
            can I [take|get] {date} off?
            could I meet someone [on|] {date}?
            does my calendar [show|say|have] anything [on|for|] {date}?
            [give|read|send|hand] me [my|the] [agenda|schedule|appointments|events|plans|program] [for|of|on|] {date}
            [look|check] [in|at|into] my [calendar|diary|agenda|schedule] [for|on|] {date}
            [look up|find|see|review|summarise|present|go over] [my|the] [events|appointments|meetings|schedule|plans|agenda] [for|of|on|] {date}
            [open|bring|print] my [calendar|diary|planner] [on|for|at|] {date}
            [let's|let us] [see|check|look at] [my|the] [calendar|schedule|agenda|plans] [for|on|] {date}
            [list|show|name] [what I have|what is planned|what happens|all that happens|everything planned] [on|for|] {date}
            I [want|need|would like] to [know|see|hear] [my plans|my schedule|what I have|what is planned|what I am doing|what is on] [on|for|] {date}
            I'd like to see my [calendar|schedule|agenda] [for|on|] {date}
            [prepare|plan] me for {date}
            [calendar|schedule|agenda|events|appointments|meetings|plans] [for|on|of] {date}
            [and|what about|how about] {date}?
            [calendar|agenda], {date}
            {date}: [my schedule|my agenda|my plans|my events|am I free]?
            {date}'s [events|meetings|schedule|agenda|appointments]
            [what's|what is] [on|in] my calendar?
            [show|open|check|read me] my [calendar|schedule|agenda]
            what do I have on?
            what's next on my [calendar|schedule|agenda]?
            [list|show] my [events|appointments|meetings]
            am I busy?
            [any|are there any] [meetings|appointments|events] on my [calendar|agenda] {date}?
            {date}, what [have I got|do I have|is] on?
            [agenda|calendar|schedule|plans] {date}
            [run|walk|talk] me through my [schedule|agenda|calendar|plans] [for|on|] {date}
            """,
        held_out="""
            look at my agenda and tell me about {date}
            run me through my day {date}
            is my calendar empty {date}?
            what have I got on {date}?
            what does my day look like {date}?
            """,
        nouns="calendar events agenda schedule",
    ),
    family(
        "add_event",
        names="add_event create_event calendar_add schedule_event book_event calendar.add createEvent",
        held_out_names="new_event event_create put_event",
        descriptions="""
            Add a calendar event
            Create an event
            Schedule an event
            Add an event to the calendar
            Put an event on the calendar
            Create a calendar entry
            """,
        parameters=(
            Parameter("title", "title", aliases=("name", "event", "summary", "what")),
            Parameter("date", "date", aliases=("day", "when", "on")),
            Parameter("time", "time", aliases=("at", "start", "hour", "start_time")),
        ),
        requests="""
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
            {title}, {date}, {time}: put it in my calendar
            there is {title} [on|] {date} at {time}, please add it
            I'll have {title} [on|] {date} at {time}, [note it in|write it in|add it to] my calendar
            please [note|enter|save] {title} for {date} at {time} in my [calendar|agenda|diary]
            my calendar needs {title} [on|] {date} at {time}
            make {date} at {time} the time for {title}
            [fix|organise|reserve] {title} [on|for] {date} at {time}
            remember {title} [on|] {date} at {time} in my calendar
            for {date} at {time} plan {title}
            [could|can] you [add|put|schedule|book] {title} [on|for|] {date} at {time}?
            [please|] make [sure|certain] {title} is [in|on] my calendar [on|for|] {date} at {time}
            [add|insert|register|save|log|file|drop] {title} [to|in|into] [the|my] [calendar|planner|diary|agenda] [on|for|at|] {date} at {time}
            [add|insert|register|log|save|drop] [an event|an appointment|an entry|a meeting] {title} [on|for|] {date} at {time}
            [enter|write|note|save] {title} [on|under|for] {date} at {time}
            [enter|write|put|add] {title} [at|for] {time} [on|] {date} [in|into|to] my [calendar|diary|planner]
            [book|hold|free|save] {date} {time} for {title}
            [book|schedule|plan] [me|us] [in|] for {title} [on|] {date} at {time}
            [book|schedule|plan|arrange|organise] {title}, {date}, {time}
            [schedule|plan|fix] {title} [to|for] {date}, {time}
            {title} [on|] {date} at {time}
            {title} [is|takes place|happens|starts|begins|will be] [on|] {date} at {time}, [add it|put it in my calendar|write it down in my calendar|schedule it|save it to my calendar]
            {title} [is|takes place|starts] {date} at {time}, please [add|schedule|save] [it|that]
            {date} at {time}: {title}
            {date}, {time}, {title}: [add it|put it in|schedule it|into the calendar]
            at {time} [on|] {date} I have {title}, [please add it|add it to the calendar|save it]
            at {time} [on|] {date} [add|schedule|put] {title} [in|on] my calendar
            I [have|got|have got|'ve got] {title} [on|] {date} at {time}
            I [need|want] [an event|an entry|an appointment] [for|called] {title} [on|] {date} at {time}
            I [need|want|have] to [plan|schedule|add|book] {title} [on|for|] {date} at {time}
            I'd like to [add|schedule|book|plan] {title} [on|for|] {date} at {time}
            [we have|there's|there will be] {title} [on|] {date} at {time}, [put it in|add it to|note it in] [the|my] [calendar|agenda|schedule]
            [let's|let us] [plan|schedule|do|have|meet for] {title} [on|] {date} at {time}
            [I'm|I am] [going to|having|attending] {title} [on|] {date} at {time}, add [it|that]
            [calendar|event|new entry|appointment|new appointment|new meeting]: {title}, {date}, {time}
            [calendar|event|new entry|appointment|new appointment|new meeting]: {title} [on|] {date} at {time}
            [add|create|make|schedule] [a|an] [calendar item|calendar event|calendar entry|event|appointment|meeting] [on|for] {date}, {time}: {title}
            [move|put] {title} into my calendar, {date} at {time}
            mark {date} at {time} for {title} in my [calendar|diary|agenda]
            mark {date}, {time}, as {title}
            [book|schedule|plan|add|put in] [a|an|the|my|our] {title} [on|for|] {date} at {time}
            [could|can|would] you [book|schedule|plan|add] [a|an|the|my|our] {title} [on|for] {date} at {time}?
            [add|put] [a|an|the|my|our] {title} [in|on|to|into] my calendar. It's on {date} at {time}.
            at {time} on {date} I'm having [a|an|the|] {title}. [Add it|Add that|Put it in|Put that in my calendar].
            [please|] [pencil|squeeze] in {title} [on|for|] {date} at {time}
            [have|get] {title} [added|scheduled|booked|planned] [on|for|] {date} at {time}
            {title} {date} {time}, [add it|put it in the calendar|put it in my calendar|schedule it]
            {title}, {date} {time}, [add it|put it in the calendar|schedule it]
            {title}, {date}, {time} - [add it|put it in the calendar|note it in my calendar|into the calendar]
            [calendar|event|new event|schedule|appointment]: {title} {date} {time}
            [put|add|enter|write] {title} [in|into|on|to] [my|the] calendar for {date}, {time}
            [put|add|schedule|book|enter] {title} [on|for|] {date}, {time}
            [put|add|schedule|book|enter] {title} {date} {time}
            [book|reserve|free] {date} at {time} for {title}
            [could|can] you [book|add|schedule] {title} for {date} at {time}?
            I'd like [an event|an entry|an appointment] for {date}, {time}, [titled|called|named] {title}
            [add|make|create] [an event|an entry] [on|for|] {date}, {time}, [titled|called|named] {title}
            {date} at {time}: {title}. [Add it|Add that|Put it in|Put that in my calendar].
            {date}, {time}: {title}. [Add it|Add that|Put it in|Put that in my calendar].
            [add|put] {title} on my calendar, {date} at {time}
            """,
        held_out="""
            block {date} at {time} for {title}
            mark {title} in my calendar for {date} at {time}
            set {title} down for {date} at {time}
            """,
        nouns="event calendar appointment",
    ),
    family(
        "add_todo",
        names="add_todo create_todo todo_add add_task create_task tasks.add new_task",
        held_out_names="todo_create append_todo",
        descriptions="""
            Add a todo item
            Add a task to the todo list
            Create a task
            Add an item to the list of tasks
            """,
        parameters=(Parameter("item", "task", aliases=("task", "text", "title", "todo", "description")),),
        requests="""
            [add|put] {task} [to|on] [my|the] [todo list|to-do list|list of tasks|tasks|task list|todos]
            [add|create|make] a [task|todo|new task]: {task}
            [add|create] a [task|todo] to {task}
            add the [todo|task] {task}
            new [task|todo]: {task}
            I [have to|need to|must] {task}, add it to my [todos|tasks|todo list]
            [could|can] you add {task} to my [todos|tasks|todo list]?
            [don't let me forget|I must not forget|I should remember] to {task}, add it to my [list|tasks|todos]
            [write|enter|save|note] {task} [on|in|to] my [todo list|task list|list of todos|tasks]
            [write|enter|save|note] the [task|todo]: {task}
            [task|todo|to do|to-do|another task|another todo]: {task}
            my next [task|todo]: {task}
            my [task|todo] is to {task}
            I have a new [task|todo]: {task}
            I [still|] [have|need] to {task}, [make|create] a [task|todo]
            [on|to] my todo list: {task}
            [include|append|insert] {task} in my [tasks|todos|task list]
            [create|open|file] a [task|todo] called {task}
            give me a new [task|todo]: {task}
            {task} [goes|should go|belongs] on my [todo list|task list]
            """,
        held_out="""
            put down a task to {task}
            my todo list needs this: {task}
            """,
        nouns="todo task",
    ),
    family(
        "set_reminder",
        names="set_reminder remind create_reminder add_reminder reminder_set reminders.add remind_me",
        held_out_names="reminder_create new_reminder",
        descriptions="""
            Set a reminder
            Remind the user of something
            Create a reminder at a time
            Remind me
            """,
        parameters=(
            Parameter("text", "task", aliases=("what", "message", "about", "title")),
            Parameter("time", "time", aliases=("when", "at", "hour")),
        ),
        requests="""
            remind me to {task} at {time}
            remind me at {time} to {task}
            [set|create|add] a reminder [to|for] {task} at {time}
            [set|create|add] a reminder for {time}: {task}
            at {time} remind me to {task}
            I want to be reminded to {task} at {time}
            [could|can] you remind me to {task} at {time}?
            [I need|give me|make|schedule|put] a reminder for {time} to {task}
            [I need|make|schedule] a reminder to {task} at {time}
            [don't let me forget|help me remember] to {task} at {time}
            {time}: remind me to {task}
            reminder at {time}: {task}
            reminder: {task} at {time}
            when it is {time}, remind me to {task}
            [please|] tell me to {task} at {time}
            [alert|notify|nudge|ping] me at {time} to {task}
            [alert|notify|nudge|ping] me to {task} at {time}
            I [must|have to|need to|should] {task} at {time}, remind me
            I [must|have to|need to|should] {task} at {time}, [set|create] a reminder
            [I'd like|I want] a reminder at {time}: {task}
            """,
        held_out="""
            make sure I {task} at {time}
            give me a reminder at {time} to {task}
            """,
        nouns="reminder",
    ),
    family(
        "set_timer",
        names="set_timer start_timer timer timer_set timers.start create_timer",
        held_out_names="timer_start new_timer",
        descriptions="""
            Set a timer
            Start a timer
            Start a countdown
            Set a kitchen timer
            Run a timer for some minutes
            """,
        parameters=(
            Parameter(
                "minutes", "minutes", "integer", aliases=("duration", "duration_minutes", "mins", "length")
            ),
            Parameter("label", "noun", aliases=("name", "title", "what", "purpose")),
        ),
        requests="""
            [set|start|run] a timer for {minutes} minutes [for|called|named|labelled] {noun}
            [set|start|run] a {minutes} minute timer [for|called|named] {noun}
            [set|start|run] a {noun} timer [for|of] {minutes} minutes
            I need a {minutes} minute timer for {noun}
            I need a {noun} timer for {minutes} minutes
            time {minutes} minutes for {noun}
            count down {minutes} minutes for {noun}
            [begin|launch|create|make|give me] a {minutes} minute timer [for|called|named] {noun}
            [begin|launch|create|make|give me] a timer [of|for|over|with] {minutes} minutes [for|called|named] {noun}
            {minutes} minutes [timer|] for {noun}[, please|]
            timer: {minutes} minutes, {noun}
            [the|my] {noun} [needs|takes|wants] {minutes} minutes, [set|start] a timer
            [wake|call|ring|alert|beep] me in {minutes} minutes for {noun}
            in {minutes} minutes [ring|beep] for {noun}
            [could|can] you time {minutes} minutes for {noun}?
            [I'd like|I want] a timer [of|for] {minutes} minutes called {noun}
            a {noun} timer, {minutes} minutes
            [measure|clock] {minutes} minutes for {noun}
            tell me when {minutes} minutes are over for {noun}
            {noun} timer [of|for] {minutes} minutes
            """,
        held_out="""
            put {minutes} minutes on a timer for {noun}
            let a timer called {noun} run for {minutes} minutes
            """,
        nouns="timer countdown",
    ),
)
