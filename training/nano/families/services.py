"""Tools of first programs and public services: sums, dice, flights, units, news, shops."""

from .family import QUERY_NAMES, Parameter, family

_NUMBERS = (
    Parameter("a", "number", "number", aliases=("x", "first", "left", "number1")),
    Parameter("b", "number2", "number", aliases=("y", "second", "right", "number2")),
)

SERVICES = (
    family(
        "add",
        names="add add_numbers sum plus addition math.add",
        held_out_names="adder sum_up add_two",
        descriptions="""
            Add two numbers
            Add a and b
            Return the sum of two numbers
            Sum of two numbers
            Adds a and b.
            """,
        parameters=_NUMBERS,
        requests="""
            [add|sum] {number} and {number2}
            add {number2} to {number}
            [what is|what's|how much is|calculate|compute|tell me] {number} [plus|+|and] {number2}?
            {number} [plus|+] {number2}
            {number} + {number2} = ?
            [what is|what's|give me|calculate] the sum of {number} and {number2}
            sum of {number} and {number2}
            [I want|I need] to add {number} and {number2}
            if I add {number} and {number2}, what do I get?
            """,
        held_out="""
            put {number} and {number2} together
            what does {number} plus {number2} make?
            """,
        nouns="sum addition",
    ),
    family(
        "multiply",
        names="multiply multiply_numbers product times multiplication math.multiply mul",
        held_out_names="multiplier multiply_two",
        descriptions="""
            Multiply two numbers
            Multiply a and b
            Return the product of two numbers
            Product of two numbers
            Multiplies a by b.
            """,
        parameters=_NUMBERS,
        requests="""
            multiply {number} [and|by|with|times] {number2}
            [what is|what's|how much is|calculate|compute|tell me] {number} [times|x|*|multiplied by] {number2}?
            {number} [times|x|*] {number2}
            {number} * {number2} = ?
            [what is|what's|give me|calculate] the product of {number} and {number2}
            product of {number} and {number2}
            if I multiply {number} by {number2}, what do I get?
            """,
        held_out="""
            what does {number} times {number2} make?
            """,
        nouns="product multiplication",
    ),
    family(
        "subtract",
        names="subtract subtract_numbers minus difference math.subtract sub",
        held_out_names="subtractor take_away",
        descriptions="""
            Subtract b from a
            Subtract two numbers
            Difference of two numbers
            """,
        parameters=_NUMBERS,
        requests="""
            subtract {number2} from {number}
            [what is|what's|how much is|calculate|compute] {number} [minus|-|less] {number2}?
            {number} [minus|-] {number2}
            take {number2} [away|] from {number}
            the difference [of|between] {number} and {number2}
            """,
        held_out="""
            what is left of {number} without {number2}?
            """,
        nouns="difference",
    ),
    family(
        "divide",
        names="divide divide_numbers quotient division math.divide div",
        held_out_names="divider split_number",
        descriptions="""
            Divide a by b
            Divide two numbers
            Quotient of two numbers
            """,
        parameters=_NUMBERS,
        requests="""
            divide {number} by {number2}
            [what is|what's|how much is|calculate|compute] {number} [divided by|/|over] {number2}?
            {number} [divided by|/] {number2}
            the quotient of {number} and {number2}
            """,
        held_out="""
            what does {number} divided by {number2} make?
            """,
        nouns="quotient",
    ),
    family(
        "roll_dice",
        names="roll_dice roll_die dice throw_dice roll dice.roll",
        held_out_names="dice_roller cast_dice",
        descriptions="""
            Roll a die
            Roll a dice with a number of sides
            Throw a die
            """,
        parameters=(Parameter("sides", "sides", "integer", aliases=("n", "faces", "max")),),
        requests="""
            [roll|throw] a [die|dice] with {sides} sides
            [roll|throw] a {sides}-sided [die|dice]
            [roll|throw] a {sides} sided [die|dice]
            roll a d{sides}
            [I need|give me] a roll of a {sides}-sided die
            [could|can] you roll a {sides}-sided die?
            """,
        held_out="""
            let a {sides}-sided die roll
            """,
        nouns="dice die",
    ),
    family(
        "find_flights",
        names="find_flights search_flights flight_search flights get_flights book_flight flights.search",
        held_out_names="flight_finder look_for_flights",
        descriptions="""
            Find flights between two cities on a date
            Search flights
            Flight search
            Book a flight
            """,
        parameters=(
            Parameter("from", "city", aliases=("origin", "departure", "from_city", "start")),
            Parameter("to", "city2", aliases=("destination", "arrival", "to_city", "end")),
            Parameter("date", "date", aliases=("day", "when", "departure_date")),
        ),
        requests="""
            [find|search|show me|look for|get|list] [flights|a flight|the flights|me a flight|cheap flights] from {city} to {city2} [on|for|] {date}
            [book|reserve] [a|me a|my] flight from {city} to {city2} [on|for|] {date}
            [is there|are there] [a flight|flights] from {city} to {city2} [on|] {date}?
            I [want|need|would like] to fly from {city} to {city2} [on|] {date}
            I [want|need] a flight from {city} to {city2} [on|] {date}
            [what|which] flights [go|leave|are there] from {city} to {city2} [on|] {date}?
            flights {city} to {city2} {date}
            [on|] {date} I fly from {city} to {city2}, find [me|] a flight
            how can I fly from {city} to {city2} [on|] {date}?
            """,
        held_out="""
            get me on a plane from {city} to {city2} {date}
            """,
        nouns="flight flights",
    ),
    family(
        "book_hotel",
        names="book_hotel reserve_hotel hotel_booking find_hotel search_hotels hotels.book",
        held_out_names="hotel_finder get_room",
        descriptions="""
            Book a hotel room
            Find a hotel in a city
            Reserve a hotel for a night
            """,
        parameters=(
            Parameter("city", "city", aliases=("location", "place", "where")),
            Parameter("date", "date", aliases=("day", "check_in", "arrival", "when")),
        ),
        requests="""
            [book|reserve|find|get] [me|] a [hotel|hotel room|room] in {city} [on|for|from|] {date}
            [find|search|show me|list] hotels in {city} [on|for|from|] {date}
            I [want|need|would like] a [hotel|room|hotel room] in {city} [on|for|from|] {date}
            [is there|are there] a [free|] [hotel|room] in {city} [on|for|] {date}?
            I stay in {city} [on|from|] {date}, [book|find] a hotel
            hotel in {city}, {date}
            """,
        held_out="""
            where can I sleep in {city} on {date}?
            """,
        nouns="hotel room",
    ),
    family(
        "convert_units",
        names="convert_units unit_converter units convert unit_convert units.convert",
        held_out_names="change_units unit_change",
        descriptions="""
            Convert a value between units
            Unit converter
            Convert units of measure
            """,
        parameters=(
            Parameter("value", "number", "number", aliases=("amount", "quantity", "number")),
            Parameter("from", "unit", aliases=("from_unit", "source", "unit_from")),
            Parameter("to", "unit2", aliases=("to_unit", "target", "unit_to")),
        ),
        requests="""
            convert {number} {unit} [to|into] {unit2}
            [how many|how much] {unit2} [are|is|in] {number} {unit}?
            [what is|what's|what are|how much is] {number} {unit} in {unit2}?
            {number} {unit} [in|to|into] {unit2}
            [change|turn|express] {number} {unit} [to|into|in] {unit2}
            """,
        held_out="""
            {number} {unit} make how many {unit2}?
            """,
        nouns="units",
    ),
    family(
        "get_news",
        names="get_news news news_search latest_news headlines news.get",
        held_out_names="news_lookup whats_new",
        descriptions="""
            Get the news about a topic
            Latest headlines
            News about a topic
            """,
        parameters=(Parameter("topic", "topic", aliases=("query", "subject", "category", "q")),),
        requests="""
            [what is|what's] [the news|the latest|in the news|new] [about|on|with] {topic}?
            [get|show me|find|give me|tell me|read me] [the|the latest|today's|some] [news|headlines] [about|on] {topic}
            [any|is there|are there] [news|headlines] [about|on] {topic}?
            [news|headlines] [about|on] {topic}
            {topic} news
            what do the papers say about {topic}?
            """,
        held_out="""
            what is being reported about {topic}?
            """,
        nouns="news headlines",
    ),
    family(
        "search_products",
        names="search_products product_search find_products shop_search catalog.search search_shop",
        held_out_names="products_find browse_shop",
        descriptions="""
            Search the shop's products
            Find products by name
            Search the catalogue
            """,
        parameters=(Parameter("query", "topic", aliases=QUERY_NAMES),),
        requests="""
            [find|search for|look for|show me|list] [products|articles|items|offers] [for|like|named|matching] {topic}
            [do you|does the shop|do they] [have|sell|stock] {topic}?
            search the [shop|store|catalogue|products] for {topic}
            [is|are] {topic} [in stock|in the shop|on sale]?
            I want to buy {topic}, [what is there|what do you have|search the shop]?
            products: {topic}
            """,
        held_out="""
            what does the shop offer for {topic}?
            """,
        nouns="products shop",
    ),
    family(
        "get_air_quality",
        names="get_air_quality air_quality air_index pollution aqi",
        held_out_names="air_check smog_level",
        descriptions="""
            Get the air quality of a city
            Air quality in a city
            Air pollution index of a place
            """,
        parameters=(Parameter("city", "city", aliases=("location", "place", "town")),),
        requests="""
            [what is|what's|how is|how's] the air [quality|] in {city}?
            [get|check|show me|tell me] the air quality [in|of|for] {city}
            how [clean|dirty|bad|good] is the air in {city}?
            air quality [in|] {city}
            how much [smog|pollution] is there in {city}?
            {city} air quality
            """,
        held_out="""
            can one breathe in {city}?
            """,
        nouns="air pollution",
    ),
    family(
        "get_sun_times",
        names="get_sun_times sunrise sunset sun_times get_sunrise get_sunset",
        held_out_names="sun_clock daylight",
        descriptions="""
            Sunrise and sunset in a city
            Get the times of sunrise and sunset
            When the sun rises and sets in a city
            """,
        parameters=(Parameter("city", "city", aliases=("location", "place", "town")),),
        requests="""
            when [does the sun|will the sun] [rise|set|come up|go down] in {city}?
            [when|what time] is [sunrise|sunset] in {city}?
            [sunrise|sunset] in {city}
            [get|tell me|show me] the [sunrise|sunset|time of sunset|time of sunrise] [in|for] {city}
            until when is it [light|dark] in {city}?
            """,
        held_out="""
            when does it get dark in {city}?
            """,
        nouns="sun sunrise sunset",
    ),
    family(
        "get_country",
        names="get_country country_info country country_facts countries.get",
        held_out_names="nation_info land_facts",
        descriptions="""
            Get facts about a country
            Information about a country: capital, population, currency
            Country facts
            """,
        parameters=(Parameter("country", "country", aliases=("name", "country_name", "nation")),),
        requests="""
            [what is|what's|tell me|get] the [capital|population|currency|area|language] of {country}
            how many people live in {country}?
            [tell me|show me] [about|facts about|something about] {country}
            [what is|what's|which is] the capital of {country}?
            [facts|information] [about|on] {country}
            how big is {country}?
            """,
        held_out="""
            what do you know about {country}?
            """,
        nouns="country",
    ),
)
