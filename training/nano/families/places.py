"""Tools for places: weather, time, routes, restaurants."""

from .family import Parameter, family

PLACES = (
    family(
        "get_weather",
        names="get_weather weather check_weather weather_lookup current_weather weather.get getWeather weather_forecast",
        held_out_names="weather_now city_weather fetch_weather",
        descriptions="""
            Get the weather for a city
            Current weather
            Weather forecast
            Get the weather in a city
            Current weather in a city
            Look up the weather
            Report the weather of a place
            """,
        parameters=(Parameter("city", "city", aliases=("location", "place", "town", "where", "city_name")),),
        requests="""
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
            {city}: what is the weather?
            the weather [in|for] {city}[, please|]
            I [need|want|would like] the [weather|forecast] [for|in] {city}
            [any|is there] [rain|snow|sun|wind|fog] in {city}?
            [rain|sun|snow] in {city}?
            how many degrees does {city} have?
            what temperature [does|has] {city} [have|]?
            is the weather [good|bad|nice] in {city}?
            [fetch|read] the forecast [for|of] {city}
            I'm in {city}, [what is|how is] the weather?
            we travel to {city}: [how warm is it|is it cold|does it rain] there?
            in {city}, is it [raining|warm|cold|sunny]?
            how [hot|cold|warm] does it get in {city}?
            what's [it|the weather] like [outside|] in {city}?
            what's it like outside in {city}?
            what's the [temperature|forecast|sky] [like|] [in|for|over] {city}?
            what [weather|temperature|temperatures|climate] [do they have|is there|can I expect|should I expect|is it] in {city}?
            what [kind|type] of weather [is there|do they have|is it] in {city}?
            what does the sky [look like|do] [in|over] {city}?
            what [should I|do I|can I] wear in {city}?
            how [are|is] the [temperatures|sky|weather conditions|wind|climate] in {city}?
            how is it outside in {city}?
            how's it [looking|outside] in {city}?
            how's {city} [today|weather-wise|for weather]?
            how [rainy|sunny|cloudy|freezing|hot|humid|mild|wet|dry|chilly] is [it in|] {city}?
            is it [cold|warm|hot|wet|dry|freezing|mild|chilly|pleasant] [outside|] in {city}?
            is {city} [sunny|rainy|cold|warm|hot|windy|cloudy|foggy] [today|now|right now|]?
            is [there|it] [rain|raining|snow|snowing|fog|wind|thunder|a storm|sun] in {city}?
            is it [good|bad|nice|terrible] weather in {city}?
            is it [umbrella|beach|t-shirt|coat|jacket] weather in {city}?
            does it [rain|snow] [now|today|a lot|] in {city}?
            did it [rain|snow] in {city}?
            will [it rain|it snow|there be rain|there be snow|there be sun|I get wet|I need a coat|I need an umbrella] in {city}?
            can I [go out|go swimming|go for a walk|wear shorts|leave my coat at home] in {city}?
            do people need [an umbrella|a coat|a scarf] in {city}?
            should I [expect|prepare for] [rain|snow|sun] in {city}?
            do they have [sun|rain|snow|good weather] in {city}?
            [find|get|fetch|look up|report|read|check|see|give me] [the|today's|current] [weather|forecast|temperature|temperatures|weather report|weather conditions] [in|for|of|from|at] {city}
            [tell me|find out|see|check] [whether|if] it [rains|snows|is raining|is cold|is warm|is sunny|will rain] in {city}
            [tell me|say] how [warm|cold|hot|the weather] [is|it is] in {city}
            tell me about the weather in {city}
            I [want|need|would like] to know [the weather|how warm it is|how the weather is|the temperature|if it rains] in {city}
            I'd like to [see|know|hear|have] the [weather|weather forecast|forecast|temperature] [for|in] {city}
            I [plan|want] to [go to|visit|travel to|see] {city}, [how is the weather|what is the weather like|will it rain|is it warm] [there|]?
            I [live|am|stay] in {city}, [will it rain|what's the weather|do I need an umbrella|how cold is it]?
            [my|the] flight goes to {city}: how is the weather?
            [temperature|forecast|weather forecast|weather report|current weather] [in|for|of] {city}
            {city}: [weather|forecast|temperature|rain or sun|how warm is it|is it raining]?
            [and|what about|how about] the weather in {city}?
            [and|what about|how about] {city}'s weather?
            {city}'s [weather|forecast|temperature]
            {city}: [cold or not|warm or cold|rain or no rain|umbrella or not|sun or clouds]?
            is {city} [cold|warm|sunny|rainy|hot|windy|cloudy] [at the moment|just now|these days|]?
            [packing for|travelling to|flying to|off to|on my way to] {city}: what's the weather there?
            [packing for|travelling to|flying to|off to] {city}, [what's the weather there|will it rain|is it cold]?
            I'm [heading out|going out|walking|cycling] in {city}, [should I wear a jacket|do I need a coat|will it rain]?
            [any|is there any] chance of [rain|snow|sun|storms] in {city} [today|tonight|]?
            [temp|temps|temperature|forecast] [in|for] {city}
            [temp|temperature|weather] {city}
            """,
        held_out="""
            let me know the weather in {city}
            what sort of weather does {city} have?
            is the sun shining in {city}?
            what are the conditions in {city}?
            how does the weather look in {city}?
            """,
        nouns="weather forecast",
    ),
    family(
        "get_time",
        names="get_time current_time time_in world_clock clock.now what_time",
        held_out_names="local_time time_lookup",
        descriptions="""
            Get the current time in a city
            Current time of a place
            World clock
            Tell the time in a city
            """,
        parameters=(Parameter("city", "city", aliases=("place", "location", "timezone", "zone")),),
        requests="""
            what time is it in {city}?
            [tell me|get|show me|give me] the [time|current time|local time] in {city}
            [what is|what's] the [time|local time|current time] in {city}?
            how late is it in {city}?
            time in {city}
            what's the time in {city}?
            what time is it [now|right now|] in {city}?
            [what|which] [hour|time] [is it|do they have] [now|] in {city}?
            [do you know|can you tell me] [what time it is|the time] in {city}?
            [tell|show|give] me what time it is in {city}
            [see|look up|find|find out] the [time|current time|local time|hour] [in|of|for] {city}
            [local|current] time [in|of|for] {city}
            the time in {city}[, please|]
            {city}: what time is it?
            {city} time
            is it [already|still] [morning|evening|night|late|early|noon] in {city}?
            how [late|early] is it [now|] in {city}?
            I need the time in {city}
            I want to know [what time it is|the time|how late it is] in {city}
            I want to call someone in {city}, what time is it there?
            """,
        held_out="""
            what does the clock say in {city}?
            check the time in {city}
            """,
        nouns="time clock",
    ),
    family(
        "get_route",
        names="get_route directions get_directions route_planner navigate maps.route find_route",
        held_out_names="plan_route route_find",
        descriptions="""
            Get directions between two places
            Plan a route
            Find the way from one place to another
            """,
        parameters=(
            Parameter("from", "city", aliases=("origin", "start", "source")),
            Parameter("to", "city2", aliases=("destination", "end", "target")),
        ),
        requests="""
            [how do I get|how do I drive|how do I travel|how can I get] from {city} to {city2}?
            [get|show me|give me|find] [directions|the way|a route|the route] from {city} to {city2}
            [plan|find] a [route|trip] from {city} to {city2}
            navigate from {city} to {city2}
            what is the [best|fastest|shortest] [way|route] from {city} to {city2}?
            [could|can] you [show|tell|find|give] me [the way|directions|the route] from {city} to {city2}?
            [how|where] do I [go|walk|cycle|travel] from {city} to {city2}?
            how [far|long] is it from {city} to {city2}?
            how can I [reach|travel to|go to] {city2} from {city}?
            how do I get to {city2} from {city}?
            [what|which] is the way from {city} to {city2}?
            what's the [way|route|best way|quickest way] from {city} to {city2}?
            which [route|way] should I take from {city} to {city2}?
            [route|directions|way|trip|drive] from {city} to {city2}
            [calculate|compute|look up|prepare|draw|map] [the|a] [route|way|trip|drive] from {city} to {city2}
            I [want|need|have] to [go|drive|travel|get] from {city} to {city2}
            I'm in {city} and [want|need|have] to [go|get|drive] to {city2}
            [take|bring|lead|send] me from {city} to {city2}
            we [drive|travel|go] from {city} to {city2}, [which way|what is the route]?
            {city} to {city2}
            from {city} to {city2}[, please|]
            start in {city}, end in {city2}: [which route|what is the way]?
            """,
        held_out="""
            guide me from {city} to {city2}
            which road goes from {city} to {city2}?
            """,
        nouns="route directions",
    ),
    family(
        "find_restaurant",
        names="find_restaurant restaurant_search search_restaurants restaurants places_to_eat dining.find",
        held_out_names="restaurant_find eat_out",
        descriptions="""
            Find a restaurant in a city
            Search restaurants by cuisine
            Find places to eat
            """,
        parameters=(
            Parameter("city", "city", aliases=("location", "place", "where")),
            Parameter("cuisine", "cuisine", aliases=("food", "kind", "type")),
        ),
        requests="""
            [find|show me|look for|search for] [a|an|some|] {cuisine} [restaurant|restaurants|place|food] in {city}
            where can I [eat|get|find] {cuisine} [food|] in {city}?
            I want to eat {cuisine} [food|] in {city}
            [could|can] you [find|recommend|suggest|name] [a|some|] {cuisine} [restaurant|restaurants|place] in {city}?
            [is there|are there|do you know] [a|any|good|some|a good] {cuisine} [restaurant|restaurants|place|places|food] in {city}?
            [which|what] {cuisine} [restaurants|places] [are there|do you know] in {city}?
            [where|in which place] [is|do they have|do they serve] [good|] {cuisine} food in {city}?
            where in {city} can I [eat|get|have|find] {cuisine} food?
            I [am|'m] hungry for {cuisine} food in {city}
            I'm in {city} and want {cuisine} food
            I'd like [to eat|to have|some] {cuisine} food in {city}
            [search|look] [in|around|through] {city} for {cuisine} [restaurants|food]
            [good|best|nice|] {cuisine} [restaurants|restaurant|food] in {city}
            {cuisine} [dinner|lunch|food] in {city}
            [recommend|list|name|locate|pick|choose] [a|some|good|] {cuisine} [restaurant|restaurants|places] in {city}
            we want {cuisine} food in {city}, [where|where to go]?
            {city}, {cuisine} [restaurant|food]
            """,
        held_out="""
            suggest {cuisine} restaurants in {city}
            """,
        nouns="restaurant food",
    ),
)
