"""The English phrases by which a message is planned, as patterns."""

from __future__ import annotations

import re
from typing import Final


def one_of(lines: str) -> str:
    """Return a pattern for one of the alternatives in ``lines``, which ", " or line ends separate."""
    alternatives = (each.strip() for each in re.split(r", |\n", lines))
    return f"(?:{'|'.join(filter(None, alternatives))})"


def any_case(pattern: str) -> re.Pattern[str]:
    """Compile the ``pattern`` of something that people say."""
    return re.compile(pattern, re.IGNORECASE)


def _with(lines: str) -> re.Pattern[str]:
    """Return a pattern that finds one of the alternatives anywhere, as whole words."""
    return any_case(rf"\b{one_of(lines)}\b")


_POLITE_WORDS: Final = one_of(
    r"""
    c[an]{2} (?:you|ya|yous|u), could (?:ya|yous), would (?:ya|yous), alright, all right, perfect, sweet
    i gotta, gotta, righto, mate
    you know what, fwiw, fyi, i should like (?:you )?to
    you should, can u, could u, would you mind, would you ever, will you ever, i need you to
    in its place, anyway, so anyway, first of all, first, secondly, finally, lastly, i wanna, i wanted to
    i would love to, i(?:'d| would) love you to
    please, kindly, pls, hey, hi, ok, okay, now, and, then, also, so, oh, right, can you, could you, would you
    do(?! (?:i|we|you|they|my|the|any|not|it|this|that)\b), will you
    i want you to, i(?:'d| would) like you to, i want to, i(?:'d| would) like to, i need to, let's
    go ahead and, just, you can, you may, pray
    """
)
POLITE: Final = rf"(?:{_POLITE_WORDS}[, ]+)*(?:(?:kindly|please|also|just) )?(?:to )?"
"""What may stand before a request, as a part of a pattern."""
FILLER: Final = r"(?:oh|och|right|ok(?:ay)?|yes|yeah|sure|sorry|hm+|a+h+|ar*gh|ugh|um|uh|er|well)"
"""What is said before anything, as a part of a pattern."""
CORRECTION: Final = (
    r"(?:no(?:pe)?|na[hw]?|oops|whoops|sorry|wait|hang on|ac+tual+y|scrap that|scratch that|i meant?"
    r"|(?:or )?rather|on second thoughts?)"
)
"""What is said before what is meant instead."""
CORRECTS: Final = any_case(rf"\W*{CORRECTION}\b")
"""How a sentence begins that corrects the one before it."""
IS_MOVED: Final = (
    r"(?:has|have|had|is|are|was|were|got|gets|been)(?: now| just| been| being)* (?:(?:re-?)?scheduled|moved"
    r"|shifted|postponed|bumped|delayed|changed|pushed(?: back)?|put (?:off|back)|brought forward)"
)
"""That something begins at another time than before, as a part of a pattern."""
CALENDARS: Final = r"(?:calend[ae]r|cal|diary|agenda|schedule)"
REASON: Final = any_case(
    r"(?s)(?:[,;.] *(?!i mean )(?:as |so |since |because |for )?(?:(?:i|we|he|she|they|it|there)(?:'\w+)?|my)"
    r"|[,;.] *(?:(?-i:[A-Z][\w'\u2019-]+)|the \w+|our \w+) (?:has|have|had|is|are|was|were|can'?t|cannot"
    r"|won'?t|isn'?t|aren'?t|got|needs?|will|broke|fell|doesn'?t|didn'?t)"
    r"|,? (?:because|since|so that|(?:i )?(?:don'?t|do not|no longer) need (?:it|that|them))"
    r"| (?:i'll|i'm|she's|he's|they're|we're))\b.*?(?=, I mean |$)"
)
"""Behind a request, why it is made."""
QUESTION_WORDS: Final = "what|who|whom|whose|how|when|where|which|why"
_PREPOSITION: Final = "(?:about|at|by|for|from|in|of|on|since|till|to|until|with)"
PREPOSED: Final = rf"{_PREPOSITION} (?:{QUESTION_WORDS})"
_STARTS: Final = (
    rf"(?:{PREPOSED}|"
    + one_of(
        """
        what, who, whom, whose, when, where, which, how, why, is, are, do, does, did, am, can, could, will
        would, should, have, has, was, were, tell, say, read, show, list, check, find, look, search, give
        add, put, enter, write, jot, note, make, create, take, compare, summari[sz]e, delete, send, remind
        open, schedule, stick, pop, pencil, move, cancel, scrap, bin, shift, push, bump, remove, trash
        toss, chuck, ditch, price, (?:the )?weather
        the (?:price|name|time|date|number|address|password|code)
        """
    )
    + r"(?:'?s)?)\b"
)
LETTER: Final = any_case(
    r"^\W*(?:my )?dear(?:est)? [\w ]{1,30}[,!:] *|(?<=[.?!]) +(?:(?:yours?|your \w+|respectfully|cordially"
    r"|sincerely|faithfully|regards|best|love|many thanks|much obliged|i thank you"
    r"|with (?:\w+ ){0,3}(?:\w+))\b[\w ]{0,20}, *\w+(?: \w+)?|(?:with (?:\w+ ){0,2}|kind |best "
    r"|warm )(?:regards|wishes|thanks)|yours? (?:\w+ )?[A-Z]\w+|(?-i:[A-Z]\w+))\W*$"
)
"""How a letter begins and ends."""
COUNTED: Final = any_case(
    r"^\W*(?:i have |i've got )?(?:\d|two|three|a couple of) (?:quick |short )?(?:things|requests|questions"
    r"|jobs)(?: if (?:i|you) may)?(?: (?:about|for|on) [\w ]{1,20})? ?[:,.-]+ *"
)
"""How a message begins that has several requests."""
AFORESAID: Final = any_case(r"\bthe (?:aforementioned|aforesaid|said|above(?:-mentioned)?) \w+")
COURTESY: Final = any_case(
    r"(?:^\W*|(?<=[.!?;] ))(?:(?:i|we)(?: would|'d| should)(?: really)? (?:be (?:\w+ ){1,2}"
    r"|appreciate(?: it)? )if you(?: could| would| can)?|(?:i|we) (?:would |must )?(?:beg|pray"
    r"|ask)(?: of)? you,?(?: kindly)?(?: to)?|lest i forget(?: it)?,|(?:please )?be so (?:kind|good) (?:as to"
    r"|and)|(?:would|could) you be (?:so (?:kind|good)|(?:kind|good) enough) (?:as to|and|to)"
    r"|would it be (?:possible|ok(?:ay)?) (?:for you )?to|(?:would|will) you please|(?:pardon|excuse) me,?"
    r"|may i trouble you to|would you be able to) (?P<verb>\w+)|(?P<if>(?<=\w),? (?:would|will|could|can"
    r"|won'?t) (?:you|ya|u)(?: please)?(?=\W*$)|,? if (?:you (?:please|like|wish|don'?t mind|(?:would|could"
    r"|can)(?: be so (?:good|kind))?|would be so (?:good|kind))|i may(?: ask)?|(?:it|that)(?:'s| is) (?:ok"
    r"|okay|alright|all right|possible|not too much trouble))(?=\W*$|: ))"
)
"""A wordy please, with the verb of the request, or behind it."""
PRESENT: Final = {
    "added": "add", "cancelled": "cancel", "checked": "check", "deleted": "delete", "entered": "enter",
    "found": "find", "gave": "give", "kept": "keep", "looked": "look", "made": "make", "moved": "move",
    "noted": "note", "saved": "save", "told": "tell", "wrote": "write",
}  # fmt: skip
"""Of verbs behind "if you"."""
CANNOT: Final = any_case(
    r"^\W*(?:(?:please|hey|hi|ok|so|and|also|now)[, ]+)*(?:(?:can|could|would|will) (?:you|u|ya|yous)"
    r"|i(?:'d like| would like| need| want) you to)(?:[, ]+(?:please|kindly|just|also|perhaps|maybe))*"
    r"[, ]+(?!"
    + one_of(
        """
        also, just, please, kindly, perhaps, maybe
        tell, say, read, show, list, check, find, look, search, give, see, fetch, dig, sum, summari[sz]e
        recap, count, compare, confirm, repeat, explain, describe, remember, recall, help, hear, believe
        imagine, understand, speak, talk, think, guess, recommend, suggest, do, be, have, know, want, like
        mind, ever, rather, let me, try, open, make a list, take a look, (?:pull|bring) up
        remind (?:me|us) (?:again|what|how|who|whom|whose|when|where|which|why|of|about)
        (?:go|run|walk|talk)(?: me)? (?:over|through), get (?:me )?(?:the|my|at)
        """
    )
    + r"\b)[a-z]+\b"
)
"""How a request begins for what no tool does, if it is for no event, no note and no change."""
REQUEST: Final = any_case(rf"^\W*{POLITE}{_STARTS}")
"""How a request begins."""
FINDS: Final = any_case(rf"^\W*{POLITE}(?:find|search|look (?:up|for))\b(?! out\b)")
"""How a request begins for something that was not shown yet."""
OPENS: Final = any_case(rf"^\W*{POLITE}(?:open|launch|start|run|close|quit|stop)\b")
"""How a request begins that is for a program, if it is for none of the user's texts."""
REQUEST_ENDS: Final = any_case(
    rf"(?<=[.!?;])(?<!\bProf\.)(?<!\bDr\.)(?<!\bMr\.)(?<!\bMrs\.)(?<!\bMs\.)\s+|\n+|(?<=\?)(?=\w)"
    rf"|[,;]?\s+(?:oh and|and then|and also|and|n|(?<!you )also|then|plus|so),?\s+(?={POLITE}{_STARTS})"
    rf"|,?\s+and\s+(?=(?:save|keep|store|copy|jot) (?:it|that|this|them)\b)"
    rf"|\s*[\u2600-\u27bf\U0001f300-\U0001faff]+\s*(?={POLITE}{_STARTS})|\s*[&+]\s*(?={_STARTS})"
    rf"|(?<!\balso),\s+(?=(?:then|also) {_STARTS}"
    r"|(?:what|who|when|where|how|which)\b(?!,| i (?:wish|want|need|would)))"
    rf"|,? (?:and|&) (?=my (?:appointments|events|plans|calendar|schedule|agenda)\b)|,? and (?=(?:the"
    r"|my) [\w' ]{3,40}\b(?:can|may) (?:go|be (?:deleted|removed|cancelled))\b)"
    r"|\s+(?=just (?:tell|show) (?:me|us)\b)|,?\s+and also\s+(?=(?:the|my|our) )"
    r"|,?\s+and\s+(?=(?:whether|if) (?:i(?:'?m| am)|we(?:'?re| are)|there(?:'?s| is| are)) )"
    rf"|\s+(?=\d\) )|,?\s+and\s+(?={_PREPOSITION} (?:what|which|whom|whose|where)\b)"
)
"""What separates the requests of a message."""
ENUMERATED: Final = re.compile(r"^\d\) ")
"""Before each request of a list."""
_CLAUSE_WITHOUT: Final = r"^(?!.*\b(?:what|who|whom|whose|when|where|which|how|why)\b)"
STATEMENT: Final = any_case(
    r"^\W*"
    + one_of(
        r"""
        i, i'm, i've, i'd, we, we're, my, our, you, they, he, she, it, her, his, their
        it's, there, this, that, im, ive
        not that, feels, looks like, seems, sounds, one of my, some of my, feeling, not feeling
        just \w+ing, don'?t, do not, never, no need, not much, nothing (?:much|new|beats|like)
        been (?:an?|so|such|quite|very)
        so (?:bored|tired|happy|sad|many|much), honestly, frankly, apparently, nowadays, in (?:my|those) days?
        since, because, before, once, after, although, when (?!do|does|did|is|are|was|were|will|can|should)
        """
    )
    + rf"\b|{_CLAUSE_WITHOUT}.*(?<!that )(?<!which )(?<!who )\b(?:was|were|gave|had|went|came|took|saw|felt"
    r"|said|met|lost|won|broke|passed|fell|learn(?:ed|t)|bought|caught|forgot|is|are|am|could|would"
    r"|should|might|must|ma[kd]es?|keeps?|gets?|got me|looks?|seems?|sounds?"
    r"|feels?)\b"
)
"""A sentence that says why something is asked, tells what happened, or just talks."""
WISH: Final = any_case(
    r"\b(?:(?:can'?t|cannot|couldn'?t) (?:find|remember|recall)|(?:need|want|like|love) to (?:know|see|hear)"
    r"|looking for|(?:forg[eo]t\w*|wonder\w*|remember|recall|know|idea)\b.{0,20}\b(?:what|which|who|whom"
    r"|whose|when|where|how|why))\b"
)
"""In a sentence that asks in the form of a statement."""
ONE_TEXT: Final = any_case(
    r"\b(?:an?|the|my|that|this|one) (?:[\w']+ ){0,2}(?:note|e-?mail|mail|file|document|message)\b"
)
"""A certain text that is spoken of."""
ELIDED: Final = any_case(
    r"^\W*(?:(?:was|were|been) \w+ing|(?:should|must|might|may|could|will) be (?:in|on|among|one of)"
    r"|had (?:an?|the|my|to)|(?:have|has)(?:n't)? been)\b(?!.*\?)"
)
"""How a sentence begins that tells something of what it leaves out, as a question does: "Was asleep"."""
LEAD_IN: Final = any_case(
    r"^\W*(?:(?:after that|then|next|and|also|oh|ok|so|now|but|please)\b[, ]*)*"
    r"(?:(?:do|would|can|could) you (?:please |happen to |perhaps )*(?:know|tell me|say|remember|recall) "
    rf"(?=(?:{QUESTION_WORDS}|whether|if)\b)|(?:i|we)\b"
    r"(?:(?:'d like| need| want| would like|'m looking for| am looking for) (?=(?:the|my)\b)|[^.?!;]*?"
    r"\b(?:remember|recall|forg[eo]t(?:ten|ting)?|wonder(?:ed|ing)?|know|knew|hear|see|find out|sure|track of"
    rf"|curious)\b[, ]+(?:again |about )?(?=(?:{_PREPOSITION} )?(?:{QUESTION_WORDS}|whether|if)\b)))"
)
"""What stands before a question that is told: "I can't remember what …"."""
NAMED: Final = any_case(
    r"^\W*(?:my|our)\b(?!.*\.$)(?![^,?.]*\b(?:is|are|was|were|ha[sd]|have|will|can|needs?|wants?|got|gets?"
    r"|keeps?|loves?|likes?|said|gave|went|does|did|moved|came|comes|sent|says?|ends?|starts?|began|broke"
    r"|lost|left|took)\b|'s\b)"
)
"""A thing of the user's that is named alone: "my camping list"."""
MINE: Final = any_case(
    rf"^\W*{POLITE}(?:tell me |find out )?(?:what|where|when|who|which|how (?:much|many))\b.*\b(?:my|our)\b"
)
"""A question about the user's things."""
CERTAIN: Final = any_case(
    rf"^\W*{POLITE}(?:tell me )?(?:when|where|which day|what (?:time|day)|how (?:do|can|did) (?:i|we))\b"
    r".*(?:\b(?:the|i|we)\b|\w's\b)"
)
"""A question about something certain, which stands in the user's things or nowhere."""
INTERJECTION: Final = any_case(
    rf"^(?:\W*(?:{FILLER}|"
    + one_of(
        r"""
        mm+, ooh, yum, grand, ta, hi, hello, hey, hiya, yo, good (?:morning|afternoon|evening|night)
        morning, thanks(?: a lot| so much)?, thank you(?: very much| so much)?, thx, cheers, bye, goodbye
        aha, good(?=\W*$), fine, excellent, wonderful, very good, very well, good day, all right, alright
        great, nice, cool, perfect, lovely, awesome, phew, wow, lol, haha+, geez, aww, cheerio
        """
    )
    + r")\b(?! to you\b))+\W*"
)
"""What stands alone, or before anything."""
CHAT: Final = any_case(
    r"^(?!.*\b(?:calend[ae]r|diary|agenda|schedule|appointments?|meetings?|events?|planned|my|our|(?:any"
    r"|some)thing|notes?|e-?mails?|mails?|files?)\b)\W*(?:(?:so|and|well|right|me again)\W*)*"
    + one_of(
        r"""
        ha(?: ?ha)*, (?:good|nice|great) (?:one|stuff|job), fair enough, no (?:worries|rush|problem)
        yeah nah, that'?ll do, (?:i )?reckon .* (?:better|nicer) than
        never ?mind(?! .*\b(?:cancel|delete|remove|move)\b), which do you, would you know an?
        (?:right|well)\W+i shall leave, what'?(?:ll| will) (?:i|we) call, what (?:do|should|can|shall) i call
        how (?:are|r|is|was) (?:you|u|we|your|things)\b(?! able), how ya, how is it with you, finally, ur
        how'?s (?:it going|the form|things|yourself|your), you al?l? ?right, (?:just )?finished, you're
        (?:do|did|are|have) you(?! (?:know|have|see|find|remember|got)\b), feels like, coffee's
        who are you, what are you, who would have (?:thought|known), you know what they say
        guess (?:who|what), nice weather(?! (?:in|for|there|tomorrow)\b)
        you (?!got|have|find|know|remember)\w+(?: \w+)*\?
        what do you think, (?:what|which|where) would you, what(?:'s| is|s) your, what(?:'s|s)? up
        how old are you, where are you, tell (?:me|us) (?:an?|another|some), congrat\w*, merry, happy
        see you, have (?:an?|yourself an?) (?:nice|good|great|lovely|wonderful|pleasant), enjoy (?:the|your)
        (?:talk|speak) (?:to you )?(?:tomorrow|later|soon|again), good ?night, sleep (?:well|tight)
        (?:until|till) (?:tomorrow|then|later|next|\w+day\W*$), that's all
        """
    )
    + r"(?!\w)"
)
"""Small talk, whatever day it names."""
PRAISE: Final = any_case(
    r"^\W*(?:you(?:'re| are)|that(?:'s| is| was)) (?:so |really |very |just |such )*(?:an? |the )?(?:\w+ )?"
    r"(?:brilliant|great|amazing|best|star|wonderful|clever|smart|awesome|helpful|kind|legend|genius|perfect)"
    r"(?: help| job| work| assistant)?\W*$"
)
WHO_ARE_YOU: Final = any_case(
    r"^\W*(?:(?:who|what) (?:exactly )?(?:are|r) (?:you|u)(?: exactly| anyway)?"
    r"|are you (?:an? )?(?:real )?(?:person|human|robot|bot|program|machine|ai))\W*$"
)
APOLOGY: Final = any_case(
    r"^\W*(?:(?:i'?m |i am )?(?:so |very )?sorry|i apologi[sz]e|my apologies)\b(?!.*\?)"
)
IS_OFF: Final = any_case(
    rf"^\W*(?:{FILLER}\W+)*(?P<what>[^,;:.?]{{2,60}}?)(?:'s| is| are| was| got| has been| have been)"
    r" (?:off|cancell?ed|called off|not happening)(?: (?:now|again|this week|today|tomorrow))?\W*$"
)
"""A message that tells of an event that it does not take place."""
THE_ONE: Final = any_case(r"\b(?:the )?one (?:about|on|with|from|for|of)\b")
"""Of several that were listed."""
LIKES: Final = any_case(
    r"^\W*(?:i|we) (?:really |just |so |do )*(?:love|hate|adore|enjoy|miss)\b"
    r"(?!.*(?:\?|\b(?:find|show|read|tell|add|put|delete|cancel|note)\b))"
)
"""What pleases or not."""
GENERAL: Final = any_case(
    rf"{LIKES.pattern}|^\W*(?:tell (?:me|us) .*\byourself\b|what(?:'s| is)? ?\d+ ?(?:%|percent) of"
    r"|wh\w+\b.*\b(?:i|we) (?:just )?(?:ask|tell|told|say|said)\w* (?:to )?you\b)"
    r"|^\W*(?:so |and |but )?(?:what(?:'s| is| are| exactly is)?(?: exactly)? an?\b|is an?\b|how (?:do"
    r"|does) (?:one|they|people)\b|how many \w+ (?:has|does|do|have|are in|are there in) an?\b|what(?:'s| is"
    r"|s) the (?:capital|population|(?:larg|bigg|tall|long|high|small|old|fast|deep)est)\b|\w+ or \w+\W*$"
    r"|why (?:do|does|is|are)\b|who (?:invented|painted|discovered|wrote the)\b|which (?:one )?is (?:bigger"
    r"|faster|older)\b|\d+ ?(?:times|plus|minus|x|\*|\+|/) ?\d+)|.*,? (?:is it|are they) made (?:by|of)\b"
    r"|.*\b(?:don'?t|what do) you think\b|.*\bwould you rather\b"
)
"""A question about the world, not about the user's things."""
WEATHER: Final = _with(
    r"""
    weather, forecast, umbrella, brolly, raining, snowing, sunny, it like outside, it like in
    nice out, (?:jacket|coat|umbrella) or no
    we(?:ather|ahter|ater|ther), wheather
    how (?:warm|cold|hot)(?! (?:shoul?d|must|does|do|has|is (?:the|my))\b)
    what'?s it like out
    (?:will|does|is) it (?:going to |gonna )?(?:rain|snow), going to (?:rain|snow)
    """
)
PERHAPS_WEATHER: Final = _with(
    "temperature, degrees, (?:warm|cold|wind|wett?|dri?)(?:er|y)?, hot(?:ter)?, rain, rainy, snow, dry"
    ", storm, fog, mittens, gloves, scarf, sunscreen, sunglasses, wellies, washing out"
    ", jacket, coat, outside"
)
"""Where a city is named."""
_NAME: Final = r"[A-Z\u00c0-\u00de][\w'\u2019-]+"
_NAMES: Final = rf"({_NAME}(?: {_NAME})*)"
CITIES: Final = re.compile(
    rf"(?<=\bin ){_NAMES}|(?<=\b(?:or|of|to|at) ){_NAMES}|(?<=\b(?:for|and) ){_NAMES}|(?<=, ){_NAMES}"
    rf"|{_NAMES}(?=(?:'s)? (?:weather|forecast))|(?<=weather ){_NAMES}"
)
_SMALL_NAME: Final = r"[a-z\u00df-\u00ff][\w-]{2,}"
_SMALL_NAMES: Final = rf"{_SMALL_NAME}(?: {_SMALL_NAME})?"
SMALL_CITIES: Final = re.compile(
    rf"\b(?:in|for|of|at) ({_SMALL_NAMES}(?:(?:, ?| and | or ){_SMALL_NAMES})*)"
    rf"|({_SMALL_NAME})(?= (?:weather|forecast))|(?<=\bweather )({_SMALL_NAMES})"
)
"""Cities that are written small."""
NO_CITY: Final = frozenset(
    """
    the my our this that next today tomorrow tonight now here there week weekend morning afternoon evening
    night january february march april may june july august september october november december monday
    tuesday wednesday thursday friday saturday sunday weather forecast what whats how is and local current
    please right like going get will later soon outside tell also then
    """.split()  # noqa: SIM905
)
CALENDAR: Final = _with(
    """
    calendar, diary, agenda, schedule, appointments?, meetings?, events?, free, busy, available, planned
    plans?, going on, happening, anything on, something on, (?:what's|what is|whats) (?:on(?! it\b)|up|next)
    on my plate, my day, my week, squeeze in, coming up
    """
)
MY_CALENDAR: Final = any_case(rf"\b{CALENDARS}\b")
WHEN: Final = _with(
    """
    when'?s?, what (?:time|hour), (?:start|end|finish|departure|arrival)(?:ing)? time, which day, what day
    which date, which (?:week|month), how late, how long, (?:un)?till (?:when|what time)
    """
)
LAST_TIME: Final = any_case(r"\b(?:was|were|did)\b.*\blast\b")
RATE: Final = any_case(r"\b(?:per|an?|each|every|once|twice|which|what) $")
"""Before "week" where no certain one is meant."""
THERE: Final = _with("there")
WHICH_DATE: Final = any_case(
    rf"^\W*{POLITE}(?:tell me )?(?:what|which) (?:date|day|weekday)(?: of the (?:week|month))?"
    r"(?:'s| is| will| does| do)?(?: it)?(?: be| fall)?(?: on)? "
)
"""How a question begins for the date of a day that is named."""
WHERE: Final = any_case(rf"^\W*{POLITE}(?:tell me )?where(?:'?s| is| are| will)\b")
SAID: Final = _with("say, says, said, told, wants? me")
THE_PLAN: Final = _with("the plan (?:for|of|on)")
"""Which may stand in a text."""
THE_REST: Final = _with("the (?:rest|others?|other ones)(?! of)")
WHATS_NEW: Final = any_case(
    rf"^\W*{POLITE}(?:(?:so )?what(?:'s| is|s) new|(?:is there )?any(?:thing new| news)|catch me up"
    r"|what did i miss)(?: (?:today|here|for me))?\W*$"
)
DID: Final = any_case(
    r"^\W*(?:so |and )?(?:what|where|who|how)\b.*\bdid (?:\w+ and )?(?:i|we) (?:do|have|go|see|meet)\b"
)
DID_YOU: Final = any_case(
    r"^\W*(?:(?:so|and|but|wait|ok)\b\W*)*(?:(?:what )?(?:did|have) you|(?:is|was|did|has) (?:it|that))"
    r"(?: (?:really|now|just|already|been|get))* (?:add|sav|writ|wrot|noted?\b|creat|delet|remov|mov|cancel"
    r"|put|do|chang)\w*(?: (?:it|that|this|them|(?:any|some)thing|the (?:note|event)))?"
    r"(?: (?:now|yet|down|in|there|today|for me"
    r"|(?:in|to|into) (?:my|the) calendar))*\W*$"
)
"""A question whether what was to be written was."""
WEEK_AFTER: Final = _with("(?:the )?(?:week after(?: (?:that|this|it))?|following week)(?! next| \\w+day)")
"""A week that is counted from a day that was spoken of."""
NEXT_EVENT: Final = any_case(
    rf"^\W*{POLITE}(?:tell me )?(?:when|what)(?:'?s| is| are)? (?:my |the |our )?(?:very )?next"
    r" (?:appointment|event|meeting|thing (?:on|in) (?:my|the) (?:calendar|diary|agenda))\b\W*$"
)
NEXT_DAY: Final = _with(
    "(?<!tomorrow )(?:the )?(?:day after|next day|following day|day (?:which|that) (?:comes"
    "|follows))(?! tomorrow)"
)
DAY_AFTER_THAT: Final = any_case(
    r"\b(?P<day>mon|tues|wednes|thurs|fri|satur|sun)day (?:after|following|behind)(?: (?:that|this|it"
    r"|next))?\b"
)
"""A day of the week that is counted from one that was spoken of."""
OF_THAT_WEEK: Final = any_case(
    r"\b(?P<day>mon|tues|wednes|thurs|fri|satur|sun)day (?:of|in) (?:that|the)(?: same)? week\b"
)
SAME_DAY: Final = _with("same day, that day, after that, before that, then")
IN_PLACE: Final = _with("there(?! (?:is|are)), in its place, instead, that same day")
"""What refers to the request before."""
HALVES: Final = any_case(r"\band(?: also)?\b|[,&+;]")
MAIL: Final = _with(
    r"""
    e-?mails?, mails?, e-?mailed, mailed, inbox, mailbox, messages? from, (?:unread|new|any) messages
    (?:got|have|is there|was there) (?:any|some)thing from
    (?:wrote|writes|written|write) (?:to )?me, heard? from, in touch, sent me
    (?:what|when|where|has|did|does) (?:did |has )?(?!i |we )\w+ (?:written|wrote|write|send|sent)
    """
)
NOTES: Final = _with("notes?, noted, jotted, (?:wrote|written|write) (?:it |that )?down")
FOLDER: Final = _with("folders?, director(?:y|ies)")
FILES: Final = any_case(r"\b(?:files?|documents?|docs?|folders?)\b|\w\.(?:txt|md|csv)\b")
LISTED: Final = _with(
    "all, list, new, newest, latest, recent(?:ly)?, unread, last, any, every, which, what, inbox, got, have"
    ", came in, come in, arrived, received, how many, show, my (?:notes|e-?mails?|mails?)"
)
THE_NEWEST: Final = _with(r"(?:latest|newest|last|most recent) (?:e-?mail|mail|message)")
NEWEST: Final = _with("new, newest, latest, last, recent(?:ly)?, unread, inbox, very")
WEB_WORDS: Final = frozenset({"web", "internet", "net", "online", "google"})
WEB: Final = _with(
    r"""
    (?:on|in|from|search) the (?:web|internet|net), the web, google
    (?:look|search|find|check|see|anything|something)\b.*\bonline
    """
)
IF: Final = _with("if, unless, only (?:if|when), whether, in case")
PRONOUN: Final = _with("it, that, they, them, he, she")
ABOUT_IT: Final = _with("(?:about|on|for|with) (?:it|that|this|them)")
PERSON: Final = _with("he, she, they, him, her, them")
ID: Final = any_case(r"\b[nm]\d{1,6}\b")
"""Of a note or a mail."""
ANY: Final = any_case(
    rf"^\W*{POLITE}(?:tell me |show me )?(?:do i have|have i got|which|what|list|show(?: me)?|are there|any"
    rf"|got any)\b[^,]*\b(?:files|notes|mails|e-?mails|documents)\b"
)
"""How a question begins for a list of what there is about something."""
ACCORDING: Final = any_case(
    r"\b(?:in|from|according to) (?:my|the|our) (?:notes|files|documents|mails?|e-?mails?|inbox)\b"
)
"""Of a question whose answer stands there."""
READ: Final = _with("read, open, says?, summari[sz]e, about")
FOLLOWS: Final = any_case(
    r"^\W*(?:and|or|what about|how about|also|then|same for)\b|^\W*(?:(?:in|on|for) )?\w+(?: \w+)?\W*$"
)
"""A message that goes on with the question before it."""
FOLLOWING: Final = any_case(
    r"^\W*(?:(?:and|or|what about|how about|also|then|same for|ok|the weather|weather|in|for|of)\b\W*)+"
)
"""What stands in it before what is new."""
