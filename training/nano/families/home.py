"""Tools for the home: lights, heating, music."""

from .family import Parameter, family

HOME = (
    family(
        "set_light",
        names="set_light light_switch switch_light lights turn_light lights.set",
        held_out_names="toggle_light light_control",
        descriptions="""
            Turn a light on or off
            Switch the light in a room
            Control the lights
            """,
        parameters=(
            Parameter("room", "room", aliases=("place", "where", "location")),
            Parameter("state", "on_off", "on|off", aliases=("value", "switch", "status")),
        ),
        requests="""
            [turn|switch] {on_off} the [light|lights|lamp] in the {room}
            [turn|switch] the [light|lights|lamp] in the {room} {on_off}
            [turn|switch] the {room} [light|lights|lamp] {on_off}
            [turn|switch] {on_off} the {room} [light|lights|lamp]
            {room} lights {on_off}
            [could|can] you [turn|switch] [the|] {room} [light|lights|lamp] {on_off}?
            [put|set] the [light|lights|lamp] [of|in] the {room} [to|] {on_off}
            [put|set|have|get|flip|click] the {room} [light|lights|lamp] {on_off}
            [light|lights|lamp] {on_off} in the {room}
            [light|lights|lamp] in the {room}: {on_off}
            {room}: [light|lights] {on_off}
            in the {room} [turn|switch] the [light|lights] {on_off}
            in the {room}, [light|lights] {on_off}
            the [light|lights|lamp] in the {room} [should be|must be|has to be|needs to be] {on_off}
            the {room} [light|lights] {on_off}[, please|]
            I [need|want] the {room} [light|lights] {on_off}
            [turn|switch] {on_off} [all|] [the|] [lights|lamps|lighting] in the {room}
            """,
        held_out="""
            make the {room} light go {on_off}
            I want the light in the {room} {on_off}
            """,
        nouns="light lights lamp",
    ),
    family(
        "set_temperature",
        names="set_temperature heating set_heating thermostat heat_control thermostat.set",
        held_out_names="adjust_heating temperature_set",
        descriptions="""
            Set the temperature of a room
            Control the heating
            Set the thermostat
            """,
        parameters=(
            Parameter("room", "room", aliases=("place", "where", "zone")),
            Parameter("degrees", "degrees", "integer", aliases=("temperature", "value", "target")),
        ),
        requests="""
            set the [temperature|heating|thermostat] in the {room} to {degrees} [degrees|]
            [set|heat|cool] the {room} to {degrees} degrees
            make the {room} {degrees} degrees
            turn the [heating|heat] in the {room} [up|down|] to {degrees}
            [could|can] you [heat|set|warm] the {room} to {degrees} degrees?
            [warm|cool|put|get] the {room} [up|down|] to {degrees} degrees
            [warm|cool|heat] the {room} to {degrees}
            {degrees} degrees in the {room}[, please|]
            {room}: {degrees} degrees
            [heating|thermostat|temperature] in the {room} [to|at|on] {degrees} [degrees|]
            [change|adjust|put|raise|lower|turn] the [temperature|heating|thermostat] [in|of] the {room} to {degrees} [degrees|]
            [change|adjust|put|raise|lower|turn] the {room} [temperature|heating|thermostat] to {degrees} [degrees|]
            it should be {degrees} degrees in the {room}
            the {room} should [be|have] {degrees} degrees
            the {room} is [too cold|too warm|cold|chilly], [set|make] it {degrees} degrees
            I [want|need] the {room} at {degrees} degrees
            I [want|need] {degrees} degrees in the {room}
            """,
        held_out="""
            I would like {degrees} degrees in the {room}
            bring the {room} to {degrees} degrees
            """,
        nouns="heating temperature",
    ),
    family(
        "play_music",
        names="play_music play play_song music_play start_music media.play music_player",
        held_out_names="song_play put_on_music",
        descriptions="""
            Play music
            Play a song or an artist
            Start playing music
            """,
        parameters=(Parameter("query", "topic", aliases=("song", "title", "music", "name", "artist")),),
        requests="""
            play {topic}
            play [some|the song|the album|music by|something by|songs by] {topic}
            [put on|start playing] {topic}
            I want to [hear|listen to] {topic}
            [play|put on|start|stream|queue] [me|] [a song|songs|some music|music|an album|a record] [by|from|of] {topic}
            [play|put on|start|stream|queue] [me|] [the|] [track|tune|record|playlist|album|song] {topic}
            [could|can] you play {topic}?
            [could|can] you play [something|a song|music] [by|from] {topic}?
            I [want|would like|'d like|feel like|am in the mood] [to hear|to listen to|hearing] {topic}
            I'd like to hear [something|a song|music|] [by|from] {topic}
            let's [hear|listen to|play] {topic}
            [music|song|songs]: {topic}
            [music|songs|something] [by|from|of] {topic}[, please|]
            {topic}, play it
            start [the|some] {topic} music
            [give me|I need|I want] some {topic} music
            listen to {topic}
            """,
        held_out="""
            let me hear {topic}
            turn on some {topic} music
            """,
        nouns="music song",
    ),
)
