"""Tools for files."""

from .family import QUERY_NAMES, Parameter, family

FILES = (
    family(
        "search_files",
        names="search_files find_files file_search lookup_files search_documents files.search searchFiles find_file",
        held_out_names="query_files files_find locate_files",
        descriptions="""
            Search the files
            Find files by keyword
            Search files by name or text
            Find documents
            Search the folder
            Search the user's files for a phrase
            Find files that mention a word
            """,
        parameters=(Parameter("query", "topic", aliases=QUERY_NAMES),),
        requests="""
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
            {topic}: any file?
            my [files|documents] [on|about] {topic}[, please|]
            [anything|something] [on|about] {topic} in my [files|documents|folder]?
            I [am looking|look] for [a file|a document|files|documents] [about|on] {topic}
            I [need|want|would like] [the|all] [files|documents] [about|on] {topic}
            in my [files|documents], [look|search] for {topic}
            does any [file|document] [talk about|contain|mention] {topic}?
            [fetch|view] [the|all] [files|documents] [about|on] {topic}
            which [file|document] [has|says something about] {topic}?
            did I [save|store] [a file|a document|something] [about|on] {topic}?
            do my [files|documents] [say|contain|mention|have] [anything|something|] [about|on] {topic}?
            have a look [in|at|through] my [files|documents|folder] for {topic}
            I [have|saved|wrote|made] [a|some] [file|document|files|documents] [about|on] {topic}, where [is it|are they]?
            I [can't|cannot] [find|remember] [my|the] [file|document] [about|on|with] {topic}
            I lost the [file|document] [about|on|with] {topic}
            where are [my|the] [files|documents] [about|on|for|with] {topic}?
            where's [my|the] [file|document] [about|on|for] {topic}?
            which [file|document] is [about|on|for] {topic}?
            which [files|documents] are [about|on|for] {topic}?
            which [files|documents] have {topic} [in them|in the text]?
            in which [file|document] [is|do I find|did I write about] {topic}?
            [any|some|more] [files|documents|docs] [about|on|for] {topic}?
            [is there|are there] [a file|files|any file|some files|a document|documents] [that mentions|mentioning|that mention|with|on] {topic}?
            [got|have you got|have I got] [any|some|a] [file|files|document|documents] [about|on] {topic}?
            [what|which] [files|documents] [did I make|did I save|have I made|have I got|are there|do I have] [about|on|for] {topic}?
            what is there in my [files|documents|folder] [about|on] {topic}?
            [query|filter|sift through|examine|explore|review] [my|the] [files|documents|folder] [for|by] {topic}
            [hunt|rummage] [through|in] my [files|documents|folder] for {topic}
            [locate|retrieve|collect|gather|present|provide] [my|the|all|any|all my] [files|documents|docs] [about|on|mentioning|for] {topic}
            [run|do|make|start] a [file search|search of my files|document search] [for|on] {topic}
            [use|try] the file search for {topic}
            I [need|want] to [find|see|check|know] [what files|which files|which documents] I have [about|on] {topic}
            I'd like to see [my|all|the] [files|documents] [about|on] {topic}
            {topic} - [which|what] [files|documents] [do I have|are there]?
            {topic} in my [files|documents|folder]
            {topic} [files|documents]
            [files|documents] [on|for|mentioning|containing] {topic}
            [file|document] [about|on] {topic}
            my {bare_topic} [files|documents|document|file]
            [is|was] there [something|anything] [on|about] {topic} [among|within] my [files|documents]?
            [find|show|list|get] [me|] [any|all|] [files|documents] [that deal with|dealing with|to do with] {topic}
            [find|search for|list] [files|documents] with the [word|words|phrase] {topic}
            [did|have] I [ever|] [save|saved|store|stored] [a file|a document|something] [about|on] {topic}?
            where [on my computer|on this computer|on the disk] is the [file|document] [about|on|for|with] {topic}?
            where on my computer is the {bare_topic} [file|document]?
            [find|locate|look for|show] the {bare_topic} [file|document|files|documents]
            [find|locate|show] the [file|document] with {topic} [in it|]
            look in my files for [anything|something|] [about|on|] {topic}
            [any|are there] files [about|on] {topic} [on here|on this computer|on my disk|here]?
            [see|check] [if|whether] there's a [file|document] [called|about|on|for|with] {topic}
            [do I have|is there] a file [called|named|for|on] {topic}?
            [file|files|document] search: {topic}
            [hunt|track] down the {bare_topic} [file|document] [on this computer|on here|]
            """,
        held_out="""
            go through my documents and find {topic}
            pull up files about {topic}
            is there a file that talks about {topic}?
            """,
        nouns="files documents folder",
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
            I [want|need|would like] to [read|see] the [file|document] [about|on] {topic}
            [fetch|get|print|view] the [file|document] [about|on] {topic} and [read|show] it [to me|]
            the text of the [file|document] [about|on] {topic}
            look for the [file|document] [about|on] {topic}, then read it
            what [does|did] the [file|document] [about|on] {topic} [contain|tell]?
            remind me what is in the [file|document] [about|on] {topic}
            [show|give|get] me the [text|content|contents] of the [file|document] [about|on] {topic}
            [find|get|locate|open|take] [my|the] [file|document] [about|on|for] {topic} and [read it aloud|show me the text|show what it says|read it out|print it|read it to me|give me its text]
            read [out|aloud|me] [my|the] [file|document] [about|on|for] {topic}
            what's in [my|the] [file|document] [about|on|for] {topic}?
            what's in [my|the] {bare_topic} [file|document]?
            what does it say in [my|the] [file|document] [about|on] {topic}?
            what does [my|the] {bare_topic} [file|document] [say|contain]?
            what [stands|is] in [my|the] {bare_topic} [file|document]?
            [can|could] you [read|open] [me|] [my|the] [file|document] [about|on|for] {topic}?
            I [want|need|would like] to [know|hear|see] what the [file|document] [about|on] {topic} says
            [remind me|refresh my memory on] what the [file|document] [about|on] {topic} says
            let's [read|open] [my|the] [file|document] [about|on] {topic}
            there is a [file|document] about {topic}: [read it|what does it say]
            {topic}: what does the [file|document] say?
            {topic}: read [me|] the [file|document]
            [find|get|locate|look up|track down] [my|the] [file|document|doc] [about|on|for] {topic} and [let me know what is in it|tell me the text|tell me what is inside|say what stands there|let me read it|let me see it|give me the gist|say what is in it|repeat it|quote it|put it on the screen|read me every word]
            [go to|jump to|turn to|take out] [my|the] [file|document|doc] [about|on|for] {topic} [and read it|and show it to me|]
            I [have|had|need|ought] to [see|read|check|look at] [my|the] [file|document|doc] [about|on|for] {topic}
            I [must|should|may|will] [read|check|see|hear|study] [my|the] [file|document|doc] [about|on|for] {topic}
            I [want|wish|would love|was hoping|am trying] to [open|have|study|check|look at|go over|go through|get] [my|the] [file|document|doc] [about|on|for] {topic}
            I'd [love|like|be glad] to [have|check|study|hear|look at|go over|open] [my|the] [file|document|doc] [about|on|for] {topic}
            let me [see|read|have|hear|look at|check] [my|the] [file|document|doc] [about|on|for] {topic}
            [may|can|could|might] I [see|read|have|hear|look at] [my|the] [file|document|doc] [about|on|for] {topic}?
            [could|would|can] you [show|read|give|recite|display] [me|] [my|the] [file|document|doc] [about|on|for] {topic}?
            [display|present|recite|bring up|load|unfold] [my|the] [file|document|doc] [about|on|for] {topic}
            what [information|details|news|facts] [is there|are there|do I find] in [my|the] [file|document|doc] [about|on|for] {topic}?
            what [all|else|things] [is|stands] in [my|the] [file|document|doc] [about|on|for] {topic}?
            what is [there|noted|printed|said] in [my|the] [file|document|doc] [about|on|for] {topic}?
            what [was|got] written [down|] in [my|the] [file|document|doc] [about|on|for] {topic}?
            [look at|look into|check|consult|take] [my|the] [file|document|doc] [about|on|for] {topic} and [quote|read|repeat|recite] it
            [tell|read|give|show] me [everything|all|whatever] that [my|the] [file|document|doc] [about|on|for] {topic} [says|contains|holds]
            I wonder what [is in|stands in] [my|the] [file|document|doc] [about|on|for] {topic}
            I [have forgotten|no longer know|do not know] what [is in|stands in] [my|the] [file|document|doc] [about|on|for] {topic}
            what [my|the] [file|document|doc] [about|on|for] {topic} says, [read it to me|please|I need it]
            [there is|there was|I have|I remember|I saw] a [file|document|doc] [about|on|for] {topic}: [let me see it|open it|show it|read it out|what is in it?]
            [the|that] [file|document|doc] [about|on|for] {topic}, [read it to me|open it|show me|what is in it?|I want to see it|let me read it]
            about {topic}: [open|read|show] [my|the] [file|document|doc]
            [search|look] for [my|the] [file|document|doc] [about|on|for] {topic}, [open it and read it|and read what you find|then open it|then let me read it|and show me the text]
            [where is|is there] [my|the] [file|document|doc] [about|on|for] {topic}? [Read it to me|Open it|Show me what is in it]
            [full|complete|whole] [text|contents] of [my|the] [file|document|doc] [about|on|for] {topic}
            """,
        chain_held_out="""
            find the document about {topic} and tell me what it says
            what is written in the file about {topic}?
            """,
    ),
    family(
        "read_file",
        names="read_file open_file file_read get_file cat_file files.read readFile read_document",
        held_out_names="load_file show_file view_file",
        descriptions="""
            Read a text file
            Read a file
            Return file contents
            Read one file
            Open a file by path
            Get the text of a file
            Show the contents of a file
            """,
        parameters=(
            Parameter(
                "path", "path", aliases=("file", "filename", "file_name", "name", "file_path", "document")
            ),
        ),
        requests="""
            [read|open|print|show|show me|display|view|load] {path}
            [read|open|show|display|print|show me] the [file|document] {path}
            [show|show me|display|get|print|read|give me|read me] the [contents|content|text] of [the file|] {path}
            [what is|what's] in [the file|] {path}?
            what does [the file|] {path} [say|contain]?
            [tell me|show me] what [is in|] {path} [says|contains|]
            open {path} and [tell me|show me] what it says
            {path}, please
            the [text|contents] of {path}
            I [want|need|would like] to [read|see] {path}
            [fetch|view|load] the [file|document|text] {path}
            tell me what {path} [says|is about]
            [there's|there is|I have] a file [called|named] {path}. [Open it|Read it|Show it to me].
            what's [written|] in {path}?
            read out {path}
            what [stands|can I find] in {path}?
            [can|could] you [read|open|show] [me|] {path}?
            [can|could] you [read|open|show] [me|] the file {path}?
            [I need|I want|I'd like] [the file|] {path}
            [I need|I want] the [text|content|contents] of {path}
            what's in the file {path}?
            what's {path} about?
            what is {path} about?
            [take|look at|have a look at|look into|go to|check|inspect|present|retrieve|cat|examine] {path}
            [take|look at|have a look at|look into|go to|check|inspect|present|retrieve|cat] the file {path}
            [read|recite|tell] me [what is in|what's in|] {path}
            [read|print|dump|output] the whole [file|document] {path}
            [read|print] all of {path}
            file {path}
            [the|] file {path}: what does it say?
            {path}: what is in it?
            {path}: [read it|show it|open it]
            [and|now] {path}?
            [see|check] what {path} says
            what did I [write|save|put] in {path}?
            what do I have in {path}?
            which text is in {path}?
            can I see {path}?
            may I see the file {path}?
            how does {path} [go|begin|look]?
            {path}
            {path}, what does it say?
            {path}: what's inside?
            does {path} [have|contain|mention|say anything about] {topic}?
            what [settings|numbers|names|lines] are in {path}?
            """,
        held_out="""
            open up {path}
            let me see {path}
            what is written in {path}?
            """,
        nouns="file document",
    ),
)
