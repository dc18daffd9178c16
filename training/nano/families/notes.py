"""Tools for notes."""

from .family import QUERY_NAMES, Parameter, family

NOTES = (
    family(
        "search_notes",
        names="search_notes find_notes notes_search lookup_notes search_note list_notes notes.search searchNotes",
        held_out_names="search_my_notes notes_find query_notes findNotes",
        descriptions="""
            Search the notes
            Search notes by keyword
            Find notes
            Search the user's notes for a phrase
            Find notes that mention a word
            Search my notes by text
            Look for notes about a topic
            Search the user's notes
            """,
        parameters=(Parameter("query", "topic", aliases=QUERY_NAMES),),
        requests="""
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
            {topic}: [anything|something] in my notes?
            my notes [on|about] {topic}[, please|]
            [anything|something] [on|about] {topic} in [the|my] notes?
            I [am looking|look|was looking] for [a note|notes|my notes] [about|on] {topic}
            I [need|want|would like] [my|the|all] notes [about|on] {topic}
            which note [has|mentions|is about] {topic}?
            did I [ever|] note [down|] {topic}?
            [can|could] my notes tell [me|] anything about {topic}?
            are {topic} [somewhere|anywhere] in my notes?
            [let me have|hand me|fetch] the notes [about|on] {topic}
            in my notes, [look|search] for {topic}
            does any note [talk about|speak of|contain] {topic}?
            do my notes [say|contain|mention|have] [anything|something|a word|] [about|on] {topic}?
            have a look [in|at|through] my notes for {topic}
            I [think|believe|know] I wrote [something|a note] about {topic}, [find it|can you find it|where is it]?
            I [wrote|made|saved|took] [a note|notes|something] [about|on] {topic}, where [is it|are they]?
            I [can't|cannot] [find|remember] [my|the] [note|notes] [about|on] {topic}
            I lost my [note|notes] [about|on] {topic}
            where are my [notes|jottings|memos] [about|on] {topic}?
            where's my note [about|on] {topic}?
            which notes [talk|speak|tell me] about {topic}?
            which notes are [about|on] {topic}?
            [any|some|more] notes [about|on] {topic}?
            [any|all] notes with {topic} [in them|in the text|in the title|]?
            [is there|are there] [a note|notes|any note|some notes] [that mentions|mentioning|that mention|with|on] {topic}?
            [got|have you got|have I got] [any|some|a] [note|notes] [about|on] {topic}?
            [what|which] notes [did I make|did I take|did I save|have I made|have I got|are there] [about|on|for] {topic}?
            what [do|did] I have [written down|noted] [about|on] {topic}?
            what is there [in my notes|among my notes] [about|on] {topic}?
            [query|filter|sift through|examine|explore|review] [my|the] notes [for|by] {topic}
            [hunt|rummage] [through|in] my notes for {topic}
            [locate|retrieve|collect|gather|present|provide] [my|the|all|any|all my] notes [about|on|mentioning] {topic}
            [run|do|make|start] a [search|note search|quick search] [for|on] {topic} in my notes
            [use|try] the notes [to find|for] {topic}
            I [need|want] to [find|see|check|know] [what notes|which notes] I have [about|on] {topic}
            I'd like to see [my|all|the] notes [about|on] {topic}
            {topic} - [which|what] notes [do I have|are there]?
            {topic} in my notes
            {topic} notes
            notes [on|for|mentioning|containing] {topic}
            note [about|on] {topic}
            my {bare_topic} notes
            show my {bare_topic} notes
            [what about|and] my notes [about|on] {topic}?
            [who|what|when] [is|was] {topic} [in|according to] my notes?
            [did|have] I [ever|] [mention|mentioned|write about|written about] {topic} [in my notes|in a note|somewhere]?
            there's a note [somewhere|] [about|on] {topic}, [can you find it|find it|where is it]?
            there [is|should be|must be] a note [about|on] {topic} [somewhere|], [find it|please find it|can you find it]
            I wrote [a note|something] about {topic} [a while ago|last week|some time ago|once], [find it|can you find it|please find it]
            [find|locate|show] [me|] the note that [covers|has|deals with|describes|lists] {topic}
            [find|locate|show] [me|] the note with {topic} [in it|]
            where's [that|the] note [with|about|on] {topic}?
            [find|look for|search for|check for] {topic} [among|within] [my|the] notes
            [what|which] notes do you [have|find|see] [about|on|for] {topic}?
            [note|notes] search: {topic}
            search: notes about {topic}
            [see|look] what my notes say about {topic}
            remind me what my notes say [about|on] {topic}
            """,
        held_out="""
            go through my notes and find {topic}
            pull up my notes about {topic}
            dig out the notes on {topic}
            is {topic} mentioned in my notes?
            what notes exist about {topic}?
            """,
        nouns="notes note",
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
            I [want|need|would like] to [read|see] my note [about|on] {topic}
            what [have|had] I [written|noted] [about|on] {topic}?
            [fetch|get|print|view] the note [about|on] {topic} and [read|show] it [to me|]
            the text of my note [about|on] {topic}
            remind me what I wrote [about|on] {topic}
            what [is|was] my note [about|on] {topic}?
            according to my notes, what [is|about] {topic}?
            look for the note [about|on] {topic}, then read it
            [show|give|get|bring] me the [text|content|contents|whole text] of my note [about|on] {topic}
            [find|get|locate|open|take] my note [about|on] {topic} and [read it aloud|show me the text|show what it says|read it out|print it|read it to me|give me its text]
            [read|open|show|display] [me|] whatever I [wrote|noted] [about|on] {topic}
            read [out|aloud|me] [my|the] [note|memo] [about|on|called|titled] {topic}
            [read|recite] [to me|] my {bare_topic} note
            what [exactly|] did I [note|write|put] in [my|the] note [about|on] {topic}?
            what [stands|is|was] in [my|the] {bare_topic} note?
            what does it say in my note [about|on] {topic}?
            what do I say in my note [about|on] {topic}?
            what's in [my|the] note [about|on|called|titled] {topic}?
            what's my note [about|on] {topic} [say|about]?
            [can|could] you [read|open] [me|] [my|the] note [about|on] {topic}?
            [could|can] you look up what I [wrote|noted] [about|on] {topic}?
            I [forgot|don't remember|can't recall] what I [wrote|noted] [about|on] {topic}
            I [want|need|would like] to [know|hear|see|read] what I [wrote|noted] [about|on] {topic}
            [remind me|refresh my memory on] what my [note|notes] [on|about] {topic} [says|say]
            [open|read] my note [titled|called|named] {topic}
            how did my note [on|about] {topic} go?
            let's [read|open] [my|the] note [about|on] {topic}
            there is a note about {topic}: [read it|what does it say]
            {topic}: what did I write?
            {topic}: read [me|] [the|my] note
            [could|can] you [read|show] me what I [wrote|noted] [about|on] {topic}?
            [there is|I have] a note [about|on] {topic}, [read it to me|what does it say|open it]
            I'd like [to hear|to read|to see] my note [about|on] {topic}
            [find|get|locate|look up|track down] [my|the] [note|note|memo] [about|on|for|called] {topic} and [let me know what is in it|tell me the text|tell me what is inside|say what stands there|let me read it|let me see it|give me the gist|say what is in it|repeat it|quote it|put it on the screen|read me every word]
            [go to|jump to|turn to|take out] [my|the] [note|note|memo] [about|on|for|called] {topic} [and read it|and show it to me|]
            I [have|had|need|ought] to [see|read|check|look at] [my|the] [note|note|memo] [about|on|for|called] {topic}
            I [must|should|may|will] [read|check|see|hear|study] [my|the] [note|note|memo] [about|on|for|called] {topic}
            I [want|wish|would love|was hoping|am trying] to [open|have|study|check|look at|go over|go through|get] [my|the] [note|note|memo] [about|on|for|called] {topic}
            I'd [love|like|be glad] to [have|check|study|hear|look at|go over|open] [my|the] [note|note|memo] [about|on|for|called] {topic}
            let me [see|read|have|hear|look at|check] [my|the] [note|note|memo] [about|on|for|called] {topic}
            [may|can|could|might] I [see|read|have|hear|look at] [my|the] [note|note|memo] [about|on|for|called] {topic}?
            [could|would|can] you [show|read|give|recite|display] [me|] [my|the] [note|note|memo] [about|on|for|called] {topic}?
            [display|present|recite|bring up|load|unfold] [my|the] [note|note|memo] [about|on|for|called] {topic}
            what [information|details|news|facts] [is there|are there|do I find] in [my|the] [note|note|memo] [about|on|for|called] {topic}?
            what [all|else|things] [is|stands] in [my|the] [note|note|memo] [about|on|for|called] {topic}?
            what is [there|noted|printed|said] in [my|the] [note|note|memo] [about|on|for|called] {topic}?
            what [was|got] written [down|] in [my|the] [note|note|memo] [about|on|for|called] {topic}?
            [look at|look into|check|consult|take] [my|the] [note|note|memo] [about|on|for|called] {topic} and [quote|read|repeat|recite] it
            [tell|read|give|show] me [everything|all|whatever] that [my|the] [note|note|memo] [about|on|for|called] {topic} [says|contains|holds]
            I wonder what [is in|stands in] [my|the] [note|note|memo] [about|on|for|called] {topic}
            I [have forgotten|no longer know|do not know] what [is in|stands in] [my|the] [note|note|memo] [about|on|for|called] {topic}
            what [my|the] [note|note|memo] [about|on|for|called] {topic} says, [read it to me|please|I need it]
            [there is|there was|I have|I remember|I saw] a [note|note|memo] [about|on|for|called] {topic}: [let me see it|open it|show it|read it out|what is in it?]
            [the|that] [note|note|memo] [about|on|for|called] {topic}, [read it to me|open it|show me|what is in it?|I want to see it|let me read it]
            about {topic}: [open|read|show] [my|the] [note|note|memo]
            [search|look] for [my|the] [note|note|memo] [about|on|for|called] {topic}, [open it and read it|and read what you find|then open it|then let me read it|and show me the text]
            [where is|is there] [my|the] [note|note|memo] [about|on|for|called] {topic}? [Read it to me|Open it|Show me what is in it]
            [full|complete|whole] [text|contents] of [my|the] [note|note|memo] [about|on|for|called] {topic}
            """,
        chain_held_out="""
            find my note about {topic} and tell me what it says
            what is written in the note about {topic}?
            I want to know what my note on {topic} says
            """,
    ),
    family(
        "read_note",
        names="read_note open_note get_note note_read show_note notes.get readNote",
        held_out_names="note_open fetch_note display_note",
        descriptions="""
            Read a note by id
            Read one note
            Open a note by its id
            Get the text of a note
            Return one note
            Show a note
            """,
        parameters=(
            Parameter("id", "id", aliases=("note_id", "note", "id_", "identifier", "ref", "key", "number")),
        ),
        requests="""
            [read|open|show|get|show me|display|give me] [note|the note|my note] {id}
            [read|open|show] the note with [id|the id] {id}
            what [does|is in|did I write in] note {id} [say|]?
            what is in note {id}?
            what does note {id} say?
            note {id}, please
            the text of note {id}
            I [want|need|would like] to [read|see] note {id}
            [fetch|load|print|view] note {id}
            tell me what note {id} [says|is about]
            what's [written|] in note {id}?
            read out note {id}
            [can|could] you [read|open|show] [me|] note {id}?
            [I need|I want|I'd like] note {id}
            [I need|I want|give me] the [text|content|contents] of note {id}
            what's in note {id}?
            what's note {id} about?
            what is note {id} about?
            [take|look at|have a look at|go to|jump to|check|inspect|present|retrieve] note {id}
            [read|recite|tell] me [what is in|what's in|] note {id}
            [read|show] note number {id}
            note {id}
            note {id}: what does it say?
            [and|now] note {id}?
            [see|check] what note {id} says
            the note {id}, [please|read it]
            how does note {id} go?
            which text is in note {id}?
            can I see note {id}?
            may I see note {id}?
            show what I wrote in note {id}
            [read|open|show|display|view|get|see|fetch] {note_id}
            [read|open|show] me {note_id}
            [read|open|show] {note_id} [to me|please|]
            read out {note_id}
            {note_id}
            {note_id}, please
            what does {note_id} say?
            what's in {note_id}?
            what is written in {note_id}?
            {note_id}: what does it say?
            {note_id} - [what does that note say|read it|open that note]
            [look at|let me look at|I want to see|give me] {note_id}, [that note|the note]
            [does|has] note {id} [have|contain|mention] {topic}?
            [read|open|show] the note [numbered|number|no.|called|with number] {id}
            """,
        held_out="""
            bring up note {id}
            let me see note {id}
            what is written in note {id}?
            """,
        nouns="note",
    ),
    family(
        "create_note",
        names="create_note add_note write_note note_create make_note notes.add createNote",
        held_out_names="save_note new_note note_add",
        descriptions="""
            Create a note
            Write a new note
            Save a note
            Add a note
            Store a new note
            Take a note
            Write down a note
            """,
        parameters=(Parameter("text", "prose", aliases=("content", "note", "body", "note_text")),),
        requests="""
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
            I [want|need] a note [that says|saying]: {prose}
            don't let me forget: {prose}
            for my notes: {prose}
            note: {prose}
            add to my notes that {prose}
            [write|add|make] a note, {prose}
            I [want|need|would like] to [keep|have|make] a note. It should [say|be]: {prose}
            [start|begin] a [new|] note for me: {prose}
            [write|create|make|add] a [new|] note: {prose}[. Thanks!|, thanks|. Thank you!]
            record this: {prose}
            [can|could] you note [down|] that {prose}?
            a new note, please: {prose}
            write this into my notes: {prose}
            please write down the following: {prose}
            [write|type|put|enter] [this|the following] [down|in a note|into a note]: {prose}
            [please|] note the following: {prose}
            [a|quick|short] note: {prose}
            [make|take] [a quick|a short|another] note: {prose}
            [I'd like|I want] to [note|write down|save] [that|] {prose}
            [I'd like|I want] to [make|take|write|add] a note: {prose}
            [log|file|capture|register|pin|drop] a note: {prose}
            [log|file|capture|register] this as a note: {prose}
            [add|append|attach] [this|the following] to my notes: {prose}
            [add|write] a note that {prose}
            [add|write] a note with [this|the following] [text|content]: {prose}
            [please|] [remember|memorise] that {prose}
            [remember|memorise] for me: {prose}
            for later: {prose}
            for the record: {prose}
            I must not forget: {prose}
            I should not forget this: {prose}
            [help me remember|so I don't forget|so that I remember it]: {prose}
            write: {prose}
            write in my notes that {prose}
            write in my notes: {prose}
            into my notes: {prose}
            [let me|I need to] [jot|write|note] [this|something] down: {prose}
            [open|begin|start] a [new|fresh] note with {prose}
            [turn|make] this into a note: {prose}
            my new note: {prose}
            new note saying {prose}
            new note with the text {prose}
            here is a note to [save|add|write]: {prose}
            [save|add] the text {prose} [as a note|to my notes]
            [save|write] that {prose}
            the note should say: {prose}
            [add|make|take|write] a note - {prose}
            note to self: {prose}
            [quick note|short note|memo|note for me|for my notes] - {prose}
            [memo|remember]: {prose}
            [could|can] you note down: {prose}
            [record|register] a note that {prose}
            [get|put] this into a note: {prose}
            put this in [my|the] notes: {prose}
            [reminder|reminder to self|note to myself|self note|to remember|for my memory]: {prose}
            add to my notes that {prose}
            [write|make|take|add|leave] [me|] a note, {prose}
            new note - {prose}
            [new note|note|memo], {prose}
            [remember|keep|store|hold] this in a note: {prose}
            I [want|need|would like] to [make|add|leave] a note. [It says|It reads|The text is|Text]: {prose}
            [make|start|add] a [new|fresh|] note [for me|for later|about this|]: {prose}
            [keep|hold on to|store] this [for me|for later|]: {prose}
            [begin|start|open] a [new|] note that says {prose}
            I [want to|wanna|need to|'d like to] save a note: {prose}
            save the following as a note: {prose}
            """,
        held_out="""
            keep a note: {prose}
            store a note saying {prose}
            put this down in my notes: {prose}
            """,
        nouns="note",
    ),
    family(
        "delete_note",
        names="delete_note remove_note note_delete notes.delete erase_note",
        held_out_names="drop_note note_remove",
        descriptions="""
            Delete a note by id
            Remove a note
            Delete one note
            """,
        parameters=(
            Parameter("id", "id", aliases=("note_id", "note", "id_", "identifier", "ref", "key", "number")),
        ),
        requests="""
            [delete|remove|erase|throw away] [note|the note|my note] {id}
            [delete|remove] the note with [id|the id] {id}
            [could|can] you [delete|remove|erase] note {id}?
            [cancel|drop|discard|kill|trash|destroy|wipe|bin|scrap] [note|the note|my note] {id}
            [put|throw] note {id} [in the bin|away|in the trash]
            note {id} can [go|be deleted|be removed]
            [I don't need|I no longer need|I am done with] note {id}
            note {id}: [delete it|remove it|away with it]
            [take|clear] note {id} [away|out]
            I want [to delete|to remove|to erase] note {id}
            I want note {id} [gone|deleted|removed]
            [delete|remove|erase] my note number {id}
            """,
        held_out="""
            get rid of note {id}
            """,
        nouns="note",
    ),
)
