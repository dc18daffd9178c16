"""Tools that look up or work out facts."""

from .family import QUERY_NAMES, Parameter, family

FACTS = (
    family(
        "calculate",
        names="calculate calc calculator compute_expression math_eval evaluate calc.run",
        held_out_names="do_math calc_eval math",
        descriptions="""
            Evaluate an arithmetic expression
            Calculator
            Do math
            Calculate an expression
            Compute the value of an expression
            """,
        parameters=(
            Parameter(
                "expression", "expression", aliases=("expr", "formula", "input", "math", "calculation")
            ),
        ),
        requests="""
            [calculate|compute|work out|evaluate|calc|solve] {expression}
            [what is|what's|how much is] {expression}?
            [what do you get for|what is the result of|what is the value of] {expression}?
            [tell me|give me] the [result|value] of {expression}
            {expression} = ?
            [do|find|determine|give me] {expression}
            [can|could] you [calculate|compute|solve] {expression}?
            [how much|what] [does|would] {expression} [make|give|come to|be]?
            [how much|what] do I get for {expression}?
            what [number|value] is {expression}?
            I need [the result of|the value of|] {expression}
            [please|] [add up|sum up|crunch] {expression}
            {expression}
            {expression} [equals what|is what|makes what]?
            [the|] [result|value|answer] of {expression}
            help me with {expression}
            use the calculator [for|on] {expression}
            type {expression} into the calculator
            """,
        held_out="""
            figure out {expression}
            what does {expression} equal?
            """,
        nouns="calc math",
    ),
    family(
        "translate",
        names="translate translate_text translation translator text_translate",
        held_out_names="lang_translate to_language",
        descriptions="""
            Translate text
            Translate a text into a language
            Translate words to another language
            """,
        parameters=(
            Parameter("text", "short", aliases=("input", "phrase", "source")),
            Parameter("language", "language", aliases=("to", "target", "target_language", "lang")),
        ),
        requests="""
            translate {short} [to|into] {language}
            [say|write] {short} in {language}
            how do you say {short} in {language}?
            what is {short} in {language}?
            translate into {language}: {short}
            [could|can] you translate {short} [to|into] {language}?
            [how|what] would [you|I] say {short} in {language}?
            [how|what] is {short} [called|said|written] in {language}?
            [how|what] does {short} [sound|read] in {language}?
            what does {short} mean in {language}?
            [translate|turn|convert|render|bring] {short} into {language}
            [translate|say|write] this in {language}: {short}
            [in|into|to] {language}: {short}
            {language} for {short}
            {language} translation of {short}
            {short} in {language}
            {short} in {language}?
            I need {short} in {language}
            I need the {language} [translation of|word for|for] {short}
            [what's|what is] the {language} [word for|for|translation of] {short}?
            which {language} words mean {short}?
            """,
        held_out="""
            give me {short} in {language}
            put {short} into {language}
            """,
        nouns="translation language",
    ),
    family(
        "convert_currency",
        names="convert_currency currency_convert exchange currency exchange_money fx_convert",
        held_out_names="money_convert change_currency",
        descriptions="""
            Convert an amount between currencies
            Currency converter
            Convert money
            Exchange rate calculator
            """,
        parameters=(
            Parameter("amount", "number", "number", aliases=("value", "sum")),
            Parameter("from", "currency", aliases=("source", "from_currency")),
            Parameter("to", "currency2", aliases=("target", "to_currency")),
        ),
        requests="""
            convert {number} {currency} [to|into] {currency2}
            [how much is|how much are|what is] {number} {currency} in {currency2}?
            [change|exchange] {number} {currency} [to|into|for] {currency2}
            how many {currency2} [are|is|do I get for] {number} {currency}?
            {number} {currency} in {currency2}
            {number} {currency} in {currency2}?
            {number} {currency} [to|into] {currency2}
            [what's|what is|what are] {number} {currency} in {currency2}?
            [how much|how many] {currency2} [is|are|for|would be|make] {number} {currency}?
            [how much|what] do I get in {currency2} for {number} {currency}?
            [how much|what] does {number} {currency} make in {currency2}?
            I have {number} {currency}, how much is that in {currency2}?
            I [need|want] to [change|exchange|convert|swap] {number} {currency} [to|into|for] {currency2}
            [swap|trade|switch|calculate|compute] {number} {currency} [to|into|for|in] {currency2}
            [could|can] you [convert|change|exchange] {number} {currency} [to|into] {currency2}?
            [tell|show|give] me {number} {currency} in {currency2}
            [value|price|worth] of {number} {currency} in {currency2}
            it costs {number} {currency}, what is that in {currency2}?
            if I have {number} {currency}, how many {currency2} do I get?
            """,
        held_out="""
            turn {number} {currency} into {currency2}
            what are {number} {currency} worth in {currency2}?
            """,
        nouns="currency money",
    ),
    family(
        "web_search",
        names="web_search search_web internet_search browse search_internet google web.search",
        held_out_names="search_online net_search",
        descriptions="""
            Search the web
            Search the internet
            Look something up online
            Web search
            """,
        parameters=(Parameter("query", "topic", aliases=QUERY_NAMES),),
        requests="""
            [search|look on|check] [the web|the internet|online] for {topic}
            [look up|search|find|search for] {topic} [online|on the web|on the internet]
            [google|browse] {topic}
            search online for {topic}
            what does the internet say about {topic}?
            [search|query|scan|ask] the [web|internet|net] [for|about] {topic}
            [find|get|look for|look up] [me|] [something|information|pages|websites|articles|everything] [about|on] {topic} [online|on the internet|on the web]
            [do|run|make] a [web search|search on the web|search on the internet|google search|online search] for {topic}
            what can you find [online|on the web|on the internet] about {topic}?
            what is [written|said|there] about {topic} [online|on the web|on the internet]?
            [is there|are there] [something|anything|pages|websites] [online|on the web|on the internet] about {topic}?
            [google|browse for|surf for|look online for|check online for] {topic}
            [use|ask|try] [google|the internet|the web] [for|about] {topic}
            web search: {topic}
            {topic} on the [web|internet|net]
            I [want|need|would like] to [search|look up|find] {topic} [online|on the internet|on the web]
            [websites|web pages|pages] about {topic}
            """,
        held_out="""
            go online and find {topic}
            """,
        nouns="web internet",
    ),
    family(
        "get_stock",
        names="get_stock stock_price stock_quote quote share_price stocks.get",
        held_out_names="price_of_stock stock_lookup",
        descriptions="""
            Get the price of a stock
            Stock quote
            Look up a share price
            """,
        parameters=(Parameter("symbol", "symbol", aliases=("ticker", "stock", "company")),),
        requests="""
            [what is|what's] the [price|stock price|share price|quote] of {symbol}?
            [get|show me|check|tell me|look up] the [price|stock price|share price|quote] [of|for] {symbol}
            how [is|much is] {symbol} [stock|trading|] [doing|worth|]?
            {symbol} stock price
            how much [is|does] [a|one] [share|stock] of {symbol} [worth|cost]?
            how much [is|are] {symbol} [shares|stock|] [now|today|worth|]?
            how [is|are|did] {symbol} [shares|stock] [doing|do|standing] [today|now|]?
            how does {symbol} [trade|stand|do] [today|]?
            what's {symbol} [trading at|worth|at]?
            what is {symbol} [trading at|worth|at|'s price]?
            where [is|does] {symbol} [trading|trade|stand]?
            [stock price|share price|quote|price] [of|for] {symbol}
            {symbol} [price|quote|share price|shares]
            {symbol}: [what is the price|how is it trading|stock price]?
            [find|fetch|report|give me|see|read] the [current|latest|] [price|stock price|share price|quote|value] [of|for] {symbol}
            [did|has] {symbol} [gone up|risen|fall|rise|fallen|go up]?
            I [want|need] [to know|] the [price|share price|stock price|quote] of {symbol}
            is {symbol} [up|down|rising|falling] [today|]?
            """,
        held_out="""
            what does a share of {symbol} cost?
            """,
        nouns="stock share price",
    ),
    family(
        "track_package",
        names="track_package track_parcel package_status parcel_tracking track_order shipping.track",
        held_out_names="locate_package parcel_status",
        descriptions="""
            Track a package by number
            Get the status of a parcel
            Track an order
            """,
        parameters=(
            Parameter("number", "id", aliases=("tracking_number", "id", "code", "package", "order_id")),
        ),
        requests="""
            [track|follow] [my|the|] [package|parcel|order|shipment] {id}
            where is [my|the] [package|parcel|order|shipment] {id}?
            [what is|check|show me] the status of [package|parcel|order|shipment] {id}
            when does [package|parcel|order] {id} arrive?
            where's [my|the] [package|parcel|order|shipment|delivery] {id}?
            where is [my|the] delivery {id} [now|]?
            [find|trace|check|look up|follow|monitor] [my|the|] [package|parcel|order|shipment|delivery] {id}
            [find out|tell me|see] where [my|the|] [package|parcel|order|shipment] {id} is
            [status|location|whereabouts] of [package|parcel|order|shipment] {id}
            [when|what day] [will|does|is] [my|the|] [package|parcel|order|shipment|delivery] {id} [come|arrive|be here|delivered|get here]?
            [did|is|was] [my|the|] [package|parcel|order|shipment] {id} [sent|shipped|delivered|on its way|lost|arrive]?
            how far is [my|the|] [package|parcel|order] {id}?
            I [wait|am waiting] for [package|parcel|order|shipment] {id}, where is it?
            what [happened|is happening] [to|with] [package|parcel|order] {id}?
            [package|parcel|order|shipment] {id}
            [package|parcel|order|shipment] {id}: where is it?
            any news [of|about|on] [package|parcel|order|shipment] {id}?
            """,
        held_out="""
            locate parcel {id}
            has order {id} arrived?
            """,
        nouns="package parcel order",
    ),
    family(
        "define_word",
        names="define_word dictionary define word_meaning lookup_word dictionary.get",
        held_out_names="meaning_of explain_word",
        descriptions="""
            Define a word
            Look up a word in the dictionary
            Get the meaning of a word
            """,
        parameters=(Parameter("word", "noun", aliases=("term", "text", "query")),),
        requests="""
            [define|explain] [the word|] {noun}
            what does [the word|] {noun} mean?
            what is the [meaning|definition] of {noun}?
            [look up|find] {noun} in the dictionary
            what's [the meaning|the definition] of [the word|] {noun}?
            what's [a|an|the|] {noun}?
            what is [a|an|] {noun}?
            what do [people|you|they] mean by {noun}?
            [tell|give] me [the meaning|the definition|a definition] of [the word|] {noun}
            [tell|show] me what [the word|] {noun} means
            [meaning|definition] of [the word|] {noun}
            {noun}: [what does it mean|meaning|definition]?
            {noun} definition
            I don't [know|understand] [the word|] {noun}
            I [want|need] to know what {noun} means
            [check|search|consult|open] the dictionary for {noun}
            [could|can] you [define|explain] [the word|] {noun}?
            how [is|would you define|do you define] {noun} [defined|]?
            """,
        held_out="""
            what is meant by {noun}?
            """,
        nouns="dictionary definition",
    ),
)
