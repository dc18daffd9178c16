"""Tools for mail, messages and contacts."""

from .family import QUERY_NAMES, Parameter, family

MAIL = (
    family(
        "search_mail",
        names="search_mail search_email find_email email_search search_emails mail_search search_inbox mail.search searchMail",
        held_out_names="query_email mail_find find_mail email_lookup",
        descriptions="""
            Search the email inbox
            Search emails
            Find mail
            Search the mail
            Search the user's mail
            Find emails by keyword
            Search the mailbox for a phrase
            Find messages in the inbox
            """,
        parameters=(Parameter("query", "mail_topic", aliases=QUERY_NAMES),),
        requests="""
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
            {mail_topic}: any mail?
            my [mail|mails|emails] [on|about] {mail_topic}[, please|]
            [anything|something] [on|about|from] {mail_topic} in my [inbox|mail|mailbox]?
            I [am looking|look] for [a mail|an email|mails] [about|on|from] {mail_topic}
            I [need|want|would like] [the|all] [emails|mails|messages] [about|on] {mail_topic}
            which [mail|email|message] [mentions|is about] {mail_topic}?
            what [mail|mails|emails|messages] [did I get|came|do I have] [from|about] {mail_topic}?
            in my [mail|inbox], [look|search] for {mail_topic}
            does any [mail|email] [talk about|contain|mention] {mail_topic}?
            [fetch|list|view] [the|all] [mails|emails] [from|about] {mail_topic}
            are there [mails|messages|emails] [from|about] {mail_topic}?
            did [I|we] get [a|an|any|the] [email|mail|reply|answer|message|letter] [about|on|from|regarding] {mail_topic}?
            did [anyone|someone|anybody] [write|mail|email|message] [me|] about {mail_topic}?
            did [anything|something] [about|on|from] {mail_topic} [arrive|come|come in|come by mail]?
            has [anyone|someone] [written|emailed|mailed] [me|] about {mail_topic}?
            has [anything|something|a mail|an email|a reply] [about|from|on] {mail_topic} [arrived|come]?
            have I [got|gotten] [mail|an email|emails|a message|a reply|an answer] [from|about] {mail_topic}?
            is there [a|an|any|some|new] [mail|email|message|reply|news] [in my inbox|in my mail|waiting|] [from|about|on|regarding] {mail_topic}?
            are there [any|some|new] [mails|emails|messages] [from|about|on|regarding|concerning|mentioning] {mail_topic}?
            [any|some] [news|word|reply|answer|letters|post|mail|mails|email|message|messages] from {person_topic}?
            [any|some|more] [emails|mails|messages|mail] [about|regarding|on|concerning] {mail_topic}?
            who [sent|wrote] [me|] [mail|mails|emails|a mail|an email|something] about {mail_topic}?
            where is the [email|mail|message] [about|from|on] {mail_topic}?
            where's the [email|mail] [about|from|on] {mail_topic}?
            which [mails|emails|messages] [are about|mention|talk about|did I get about|came from|are from] {mail_topic}?
            what [has|did] {person_topic} [sent|send|mailed|mail|emailed|email] [me|]?
            what mail is there [about|from|on] {mail_topic}?
            what's in my [inbox|mail|mailbox] [about|from|on] {mail_topic}?
            [query|filter|examine|explore|review|sift through] my [mail|inbox|emails|mailbox] [for|by] {mail_topic}
            [hunt|rummage|have a look] [through|in] my [mail|inbox|emails|mailbox] for {mail_topic}
            [locate|retrieve|collect|gather|present|provide|list] [the|all|any|all the] [emails|mails|messages] [about|on|from|mentioning] {mail_topic}
            [run|do|make|start] a [mail search|search of my mail|search in my inbox] for {mail_topic}
            [use|try] the mail search for {mail_topic}
            [show|list|find] [me|] [everything|all|anything|what] {person_topic} [sent|wrote|mailed|emailed] [me|]
            [show|find|get] [me|] {person_topic}'s [emails|mails|messages]
            [show|find|get] [me|] the {bare_topic} [emails|mails|messages]
            I [wait|am waiting] for [mail|an email|a message|news] from {person_topic}, [is it there|did it come]?
            I [can't|cannot] find the [mail|email|message] [about|from] {mail_topic}
            I [got|received|had] [a|an] [mail|email|message] [about|from] {mail_topic}, [find it|where is it]?
            I [need|want|would like] to [find|see] the [mails|emails|messages] [about|from|on] {mail_topic}
            I'd like to see [all|the|any] [mails|emails] [about|from] {mail_topic}
            [mails|mail|emails|email|messages|inbox] [from|about|on|regarding] {mail_topic}
            {mail_topic} in my [mail|inbox|mailbox|emails]
            {mail_topic} [mails|emails|messages]
            {mail_topic} - [any mail|any emails|did they write|in my inbox]?
            [look|check] [for|if there is] [mail|email|an email|a message] [from|about|on] {mail_topic}
            [look|check] my [mail|inbox|mailbox|email] [for|and find] [mails|messages|emails|something] [from|about|on] {mail_topic}
            [has|did] {person_topic} [emailed|mailed|written to|email|mail|write to] me [lately|recently|already|yet|]?
            [see|check] [if|whether] {person_topic} [sent|wrote|has sent|has written] [me|] [a mail|an email|a message|something|anything]
            [could|can] you [see|check] [if|whether] {person_topic} [sent|wrote] [me|] [a mail|an email|a message]?
            [mail|mails|email|emails] re: {mail_topic}
            [mail|email] search: {mail_topic}
            [find|search for|list] [mails|emails|messages] with the [word|words|phrase] {mail_topic_only}
            where's the [mail|email|message] with {mail_topic}?
            [find|show|locate] the [mail|email|message] with {mail_topic} [in it|]
            there [is|should be|was] a [mail|an email] [about|from|with] {mail_topic}, [find it|where is it|please find it]
            is there [a mail|an email] [about|from|on] {mail_topic} in my [mailbox|inbox|mail]?
            """,
        held_out="""
            comb my email for {mail_topic}
            go through my inbox and find {mail_topic}
            have I received emails about {mail_topic}?
            is there anything in my inbox about {mail_topic}?
            """,
        nouns="mail email inbox messages",
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
            I [want|need|would like] to [read|see] the [mail|email|message] [about|on|from] {mail_topic}
            [fetch|get|print|view] the [mail|email] [about|from] {mail_topic} and [read|show] it [to me|]
            the text of the [mail|email|message] [about|from] {mail_topic}
            what [has|had] {person_topic} [written|said] [to me|in the mail|]?
            what [is|was] the [mail|email] [about|from] {mail_topic} saying?
            remind me what {person_topic} wrote
            look for the [mail|email] [about|on] {mail_topic}, then read it
            what news [is|was] in the [mail|email] [about|from] {mail_topic}?
            [show|give|get] me the [text|content|contents|body] of the [mail|email|message] [about|from|on] {mail_topic}
            [find|get|locate|open|take] the [mail|email|message] [about|from|on] {mail_topic} and [read it aloud|show me the text|show what it says|read it out|print it|read it to me|give me its text]
            [find|get|locate] {person_topic}'s [mail|email|message] and [read|open|show] it
            read [out|aloud|me] [my|the] [mail|email|message] [about|from|on] {mail_topic}
            [read|open] the [newest|latest|last|recent] [mail|email|message] [about|from|on] {mail_topic}
            [read|open] [me|] what {person_topic} [wrote|sent|said]
            [what|what exactly] [does|did] {person_topic} [write|say|want|tell me|ask] [about|regarding] {mail_topic_only}?
            what [exactly|] [does|did] {person_topic} [want from me|tell me|ask me|need|answer|reply|mean|suggest|think]?
            what's {person_topic} [saying|writing|asking] [in the mail|by mail|in the email|]?
            what's in the [mail|email|message] [about|from|on] {mail_topic}?
            what [stands|is] in the {bare_topic} [mail|email|message]?
            what does it say in the [mail|email] [about|from] {mail_topic}?
            what is the [mail|email|message] [from|about] {mail_topic} about?
            what was {person_topic}'s [mail|email|message] about?
            what was the {bare_topic} [mail|email] about?
            what does the {bare_topic} [mail|email|message] [say|tell]?
            what is {person_topic} [writing|asking|saying] about {mail_topic_only}?
            [can|could] you [read|open] [me|] the [mail|email|message] [about|from|on] {mail_topic}?
            I [forgot|don't remember|can't recall] what {person_topic} [wrote|said|wanted]
            I [want|need|would like] to [know|hear|see|read] what {person_topic} [wrote|said|wants|sent]
            I [want|need|would like] to know what the [mail|email] [about|from] {mail_topic} says
            [remind me|refresh my memory on] what the [mail|email] [about|from] {mail_topic} [says|said]
            let's [read|open] the [mail|email|message] [about|from] {mail_topic}
            there is [a|an] [mail|email|message] [about|from] {mail_topic}: [read it|what does it say]
            why did {person_topic} [write|mail|email] [me|to me|]?
            {mail_topic}: what does the [mail|email] say?
            {mail_topic}: read [me|] the [mail|email]
            [find|get|locate|look up|track down] [the|my] [mail|email|message|e-mail] [about|on|from|regarding] {mail_topic} and [let me know what is in it|tell me the text|tell me what is inside|say what stands there|let me read it|let me see it|give me the gist|say what is in it|repeat it|quote it|put it on the screen|read me every word]
            [go to|jump to|turn to|take out] [the|my] [mail|email|message|e-mail] [about|on|from|regarding] {mail_topic} [and read it|and show it to me|]
            I [have|had|need|ought] to [see|read|check|look at] [the|my] [mail|email|message|e-mail] [about|on|from|regarding] {mail_topic}
            I [must|should|may|will] [read|check|see|hear|study] [the|my] [mail|email|message|e-mail] [about|on|from|regarding] {mail_topic}
            I [want|wish|would love|was hoping|am trying] to [open|have|study|check|look at|go over|go through|get] [the|my] [mail|email|message|e-mail] [about|on|from|regarding] {mail_topic}
            I'd [love|like|be glad] to [have|check|study|hear|look at|go over|open] [the|my] [mail|email|message|e-mail] [about|on|from|regarding] {mail_topic}
            let me [see|read|have|hear|look at|check] [the|my] [mail|email|message|e-mail] [about|on|from|regarding] {mail_topic}
            [may|can|could|might] I [see|read|have|hear|look at] [the|my] [mail|email|message|e-mail] [about|on|from|regarding] {mail_topic}?
            [could|would|can] you [show|read|give|recite|display] [me|] [the|my] [mail|email|message|e-mail] [about|on|from|regarding] {mail_topic}?
            [display|present|recite|bring up|load|unfold] [the|my] [mail|email|message|e-mail] [about|on|from|regarding] {mail_topic}
            what [information|details|news|facts] [is there|are there|do I find] in [the|my] [mail|email|message|e-mail] [about|on|from|regarding] {mail_topic}?
            what [all|else|things] [is|stands] in [the|my] [mail|email|message|e-mail] [about|on|from|regarding] {mail_topic}?
            what is [there|noted|printed|said] in [the|my] [mail|email|message|e-mail] [about|on|from|regarding] {mail_topic}?
            what [was|got] written [down|] in [the|my] [mail|email|message|e-mail] [about|on|from|regarding] {mail_topic}?
            [look at|look into|check|consult|take] [the|my] [mail|email|message|e-mail] [about|on|from|regarding] {mail_topic} and [quote|read|repeat|recite] it
            [tell|read|give|show] me [everything|all|whatever] that [the|my] [mail|email|message|e-mail] [about|on|from|regarding] {mail_topic} [says|contains|holds]
            I wonder what [is in|stands in] [the|my] [mail|email|message|e-mail] [about|on|from|regarding] {mail_topic}
            I [have forgotten|no longer know|do not know] what [is in|stands in] [the|my] [mail|email|message|e-mail] [about|on|from|regarding] {mail_topic}
            what [the|my] [mail|email|message|e-mail] [about|on|from|regarding] {mail_topic} says, [read it to me|please|I need it]
            [there is|there was|I have|I remember|I saw] a [mail|email|message|e-mail] [about|on|from|regarding] {mail_topic}: [let me see it|open it|show it|read it out|what is in it?]
            [the|that] [mail|email|message|e-mail] [about|on|from|regarding] {mail_topic}, [read it to me|open it|show me|what is in it?|I want to see it|let me read it]
            about {mail_topic}: [open|read|show] [the|my] [mail|email|message|e-mail]
            [search|look] for [the|my] [mail|email|message|e-mail] [about|on|from|regarding] {mail_topic}, [open it and read it|and read what you find|then open it|then let me read it|and show me the text]
            [where is|is there] [the|my] [mail|email|message|e-mail] [about|on|from|regarding] {mail_topic}? [Read it to me|Open it|Show me what is in it]
            [full|complete|whole] [text|contents] of [the|my] [mail|email|message|e-mail] [about|on|from|regarding] {mail_topic}
            """,
        chain_held_out="""
            find the email about {mail_topic} and tell me what it says
            what did the mail about {mail_topic} say?
            I want to hear the message about {mail_topic}
            """,
    ),
    family(
        "read_mail",
        names="read_mail read_email open_email email_read get_email open_mail mail.get readMail get_message",
        held_out_names="show_email fetch_email mail_open",
        descriptions="""
            Read an email by id
            Read one email
            Open a mail by id
            Read one mail
            Get the text of a mail
            Return one message
            Show an email
            """,
        parameters=(
            Parameter(
                "id",
                "id",
                aliases=(
                    "mail_id",
                    "email_id",
                    "message_id",
                    "message",
                    "id_",
                    "identifier",
                    "ref",
                    "key",
                    "number",
                ),
            ),
        ),
        requests="""
            [read|open|show|get|show me|display|give me] [email|mail|message|the mail|the email] {id}
            [read|open|show] the [email|mail|message] with [id|the id] {id}
            what does [email|mail|message|the mail] {id} say?
            what is in [email|mail|message] {id}?
            who [sent|wrote] [mail|message|email] {id}?
            mail {id}, please
            the text of [mail|message|email] {id}
            I [want|need|would like] to [read|see] [mail|message|email] {id}
            [fetch|load|print|view] [mail|message|email] {id}
            tell me what [mail|message|email] {id} [says|is about]
            what's [written|] in [mail|message] {id}?
            read out [mail|email] {id}
            [can|could] you [read|open|show] [me|] [mail|email|message] {id}?
            [I need|I want|I'd like] [mail|email|message] {id}
            [I need|I want|give me] the [text|content|contents|body] of [mail|email|message] {id}
            what's in [mail|email|message] {id}?
            what's [mail|email|message] {id} about?
            what is [mail|email|message] {id} about?
            [take|look at|have a look at|go to|jump to|check|inspect|present|retrieve] [mail|email|message] {id}
            [read|recite|tell] me [what is in|what's in|] [mail|email|message] {id}
            [read|show] [mail|email|message] number {id}
            [mail|email|message] {id}
            [mail|email|message] {id}: what does it say?
            [and|now] [mail|email|message] {id}?
            [see|check] what [mail|email|message] {id} says
            the [mail|email|message] {id}, [please|read it]
            who is [mail|email|message] {id} from?
            which text is in [mail|email|message] {id}?
            can I see [mail|email|message] {id}?
            may I see [mail|email|message] {id}?
            [read|open|show|display|view|get|see|fetch] {mail_id}
            [read|open|show] me {mail_id}
            [read|open|show] {mail_id} [to me|please|]
            read out {mail_id}
            {mail_id}
            {mail_id}, please
            what does {mail_id} say?
            what's in {mail_id}?
            what is written in {mail_id}?
            {mail_id}: what does it say?
            {mail_id} - [what does that mail say|read it|open that mail]
            [the text|the content] of {mail_id}
            I [haven't read|have not seen|missed] {mail_id} [yet|], [show it|open it|read it]
            [does|has] [mail|email|message] {id} [have|contain|mention] {topic}?
            [read|open|show] the [mail|email|message] [numbered|number|no.|with number] {id}
            """,
        held_out="""
            bring up message {id}
            let me see mail {id}
            what is written in email {id}?
            """,
        nouns="email mail message",
    ),
    family(
        "send_mail",
        names="send_mail send_email email_send mail_send write_email mail.send compose_email",
        held_out_names="dispatch_mail email_compose",
        descriptions="""
            Send an email
            Write and send an email
            Send a mail to a person
            Compose an email
            """,
        parameters=(
            Parameter("to", "person", aliases=("recipient", "address")),
            Parameter("subject", "title", aliases=("title", "topic")),
            Parameter("body", "short", aliases=("text", "content", "message")),
        ),
        requests="""
            [send|write] an email to {person} [about|with the subject|with subject] {title}: {short}
            [send|write] {person} [an email|a mail] [about|with the subject|on] {title} [saying|that says] {short}
            email {person} about {title}: {short}
            mail {person} with subject {title} and text {short}
            [send|write] [a mail|an email|an e-mail] to {person}, subject {title}: {short}
            [send|write] [a mail|an email|an e-mail] to {person}, subject {title}, text {short}
            [send|write] [a mail|an email] [about|on] {title} to {person}: {short}
            [send|write] {person} [a mail|an email] titled {title}: {short}
            [mail|email] to {person}, subject {title}: {short}
            [mail|email] {person}, subject {title}: {short}
            [mail|email] {person} about {title} and [say|write] {short}
            [mail|email] {person} [under|with] the [title|subject] {title}: {short}
            new [mail|email] to {person} about {title}: {short}
            I want to [mail|email] {person} about {title}: {short}
            [could|can] you [mail|email] {person} about {title}: {short}?
            [draft|prepare|type] [a mail|an email] for {person} about {title}: {short}
            [send|write] {short} to {person} by [mail|email], subject {title}
            """,
        held_out="""
            compose a mail to {person} on {title}: {short}
            """,
        nouns="email mail",
    ),
    family(
        "send_message",
        names="send_message message_send send_sms text_message messages.send send_text sms",
        held_out_names="message_person dispatch_message",
        descriptions="""
            Send a message to a person
            Send a text message
            Send an SMS
            Message someone
            """,
        parameters=(
            Parameter("to", "person", aliases=("recipient", "person", "contact", "name")),
            Parameter("text", "short", aliases=("message", "body", "content")),
        ),
        requests="""
            [send|write] a message to {person}: {short}
            [send|text|message|write] {person}: {short}
            [tell|text] {person} that {short}
            [send|write] {person} a [message|text]: {short}
            [send|write] a message to {person} [saying|that says] {short}
            let {person} know that {short}
            send {short} to {person}
            [could|can] you [text|message|tell] {person}: {short}?
            [send|shoot|write|type] {person} [this|a note|a line|the following]: {short}
            [send|write] [this|the following] to {person}: {short}
            [send|write] a [text|sms|text message|short message] to {person}: {short}
            [message|sms|text|ping|notify] {person}: {short}
            [message|tell|text|notify] {person}, {short}
            [a|new] message [for|to] {person}: {short}
            message to {person}: {short}
            [tell|remind|ask] {person}: {short}
            say to {person}: {short}
            [answer|reply to] {person}: {short}
            I want to [tell|text|message|write] {person}: {short}
            {person} should [know|hear|be told]: {short}
            {person} should know that {short}
            [pass|forward] {short} on to {person}
            """,
        held_out="""
            drop {person} a line: {short}
            inform {person} that {short}
            """,
        nouns="message sms text",
    ),
    family(
        "get_contact",
        names="get_contact find_contact contact_lookup lookup_contact search_contacts contacts.get phone_book",
        held_out_names="contact_get show_contact phone_lookup",
        descriptions="""
            Look up a contact
            Find the phone number of a contact
            Get a contact
            Find a person in the contacts
            Get contact details of a person
            """,
        parameters=(Parameter("name", "person", aliases=("person", "contact", "who", "contact_name")),),
        requests="""
            [find|get|give me|look up|tell me|show me] the [phone number|number|contact|email address|address|phone|contact details] [of|for] {person}
            [look up|find|show] {person} in my [contacts|address book|phone book]
            [show|open|get] [the|] contact {person}
            what is the [phone number|number|address|email address] [of|for] {person}?
            what is {person}'s [number|phone number|address]?
            how [can|do] I [reach|contact|call] {person}?
            I need [the number|the phone number|the address] of {person}
            [do you have|do I have|have I got] the [number|phone number|address|email] of {person}?
            [do you have|have I got] {person}'s [number|phone number|address|email]?
            [what's|what is] {person}'s [phone|telephone number|mobile number|email|contact]?
            [where|how] do I find {person}'s [number|address|contact]?
            [get|find|give me|show me|look up|tell me] {person}'s [number|phone number|contact|address|email address|details]
            [search|check|scan] my [contacts|address book|phone book] for {person}
            [is|do I have] {person} in my [contacts|address book|phone book]?
            [contact|number|phone number|address|contact details] of {person}
            I [want|have] to [call|reach|phone|ring] {person}, what is the number?
            I [want|need] {person}'s [number|phone number|address|contact]
            under which number [is|can I reach] {person}?
            which [number|address|phone number] does {person} [use|own|list]?
            who is {person} in my contacts?
            how to [reach|contact] {person}?
            """,
        held_out="""
            find the contact {person}
            what number does {person} have?
            """,
        nouns="contact contacts phone",
    ),
)
