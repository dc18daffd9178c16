"""The words that synthetic dialogues are made of: known ones, names, and pieces of invented ones."""

from __future__ import annotations

NOUNS = """
account address album alarm album anchor ankle apple apron archive arm article attic aunt autumn award axe baby
backpack badge bag bakery balcony ball balloon banana band bank banner barn basket bath battery beach bead bean bear bed
bee bell belt bench bicycle bike bill bird birthday biscuit blanket blender blog board boat boiler bolt bone bonus book
boot bottle bowl box bracelet branch brand brass bread breakfast brick bridge broom brother brush bucket budget bug
building bulb bus bush business butter button cabin cabinet cable cactus cake calendar camera camp candle canoe canvas car
carbon card career cargo carpet carrot cart cartoon castle cat cattle ceiling cellar cello cement census chain chair chalk
channel chapter charger chart cheese chef cherry chess chicken chimney chocolate choir church cinema circle circuit
citizen clay cleaning clinic clock cloth cloud club coach coal coast coat code coffee coin collar college colour column
comb comet committee compass compost computer concert conference contract cookie copper cord corn corner cottage cotton
couch course court cousin cow crane crayon cream credit crew cricket crop crown cup curtain cushion customer cycle dairy
dance data daughter deadline deal deck delivery dentist deposit desert desk dessert diary diet dinner diploma direction
dish doctor document dog doll dolphin donation door dragon drain drawer drawing dress drill drink driver drum duck duty
eagle earring east editor egg elbow election elephant email engine envelope estate evening exam exercise exhibition
expense eye fabric factory fair family fan farm farmer father feather fee feedback fence fern ferry festival field film
filter finance finger fire fireplace firewall fish flag flame flat flight flood floor flour flower flute folder food
football forest fork form fountain fox frame freezer friend frog fruit fuel fund furniture galaxy gallery game garage
garden garlic gas gate gift giraffe glacier glass glove glue goal goat gold golf grain grandfather grandmother grant grape
graph grass gravel grid grocery group guest guide guitar gym hail hair hall hammer hammock handle harbour harvest hat
hedge heater helmet herb highway hike hill history hobby holiday honey hood hook horse hose hospital hostel hotel house
hybrid ice idea igloo index ink insurance interview invitation invoice iron island ivy jacket jam jar jazz jeans jewel
job joint journal judge juice jumper jungle kayak kettle key keyboard kitchen kite kitten knee knife knot ladder lake
lamb lamp language laptop laser laundry lawn lawyer leaf league lease leather lecture lemon lens letter lettuce library
licence lighthouse lion list litter loan lobby lock log lunch machine magazine magnet mail manager mango manual map
marathon marble market marketing mask mattress meadow meal meat mechanic medal medicine meeting melon member menu merger
metal meter milestone milk mill mineral mirror model module moon mortgage mosaic mother motor mountain mouse movie mug
museum mushroom music nail napkin needle neighbour nephew nest network newsletter niece north notebook novel nurse nut
oak oat ocean office oil olive onion opera orange orchard orchestra order organ oven owl owner paddle padlock paint palace
palm pan panda paper parade parcel parent park parking parrot partner party passport password pasta patch path patient
pavement payment payroll peach peanut pear pearl pencil penguin pension pepper permit petition phone photo piano picnic
picture pie pig pillow pilot pine pipe pizza plan planet plant plaster plate platform player plum plumber poem poet police
policy pond pony pool porch portrait postcard poster potato pottery presentation printer prize product profile program
project proposal protein pudding pump pumpkin puppet puppy purse puzzle quarter queen quilt quiz rabbit race radiator
radio raft railway rain rainbow ranch raspberry receipt recipe record recycling refund register rehearsal release renovation
rent repair report research reservation restaurant review reward rice ring river road robot rocket roof room rope rose
router rug ruler sail sailor salad salary salmon salt sand sandal sandwich sauce sauna saw scarf schedule school science
scissors scooter screen screw script sculpture sea season seat seed seminar server sewing shampoo shark shed sheep shelf
shell shift ship shirt shoe shop shoulder shovel shower sign silk silver singer sink sister skate skirt sky sled sleeve
smoke snack snail snow soap soccer sock sofa software soil soldier song soup south spade speaker spice spider spinach
spoon sponge spring squirrel stable stadium staff stage stairs stamp star station statue steel stew stone storage store
storm story stove straw strawberry stream street student studio subscription subway sugar suit suitcase summary summer
sunset supper supplier surfboard survey swan sweater swing sword syrup table tailor tank tape target tax taxi tea teacher
team telescope temple tenant tennis tent terrace textbook theatre thesis thread ticket tiger tile timber timetable tire
tissue toast toaster toilet tomato tool tooth torch tournament towel tower town toy tractor trail train training trip
trophy truck trumpet trunk tulip tunnel turkey turtle tutor umbrella uncle uniform upgrade vaccine vacation valley van
vase vegetable vehicle vendor veranda vest vet video village vineyard violin visa visitor voice volcano volunteer voucher
wage wagon waiter walk wall wallet walnut wardrobe warehouse warranty washer watch waterfall wave wax wedding wheat wheel
whistle wife wind window wine winter wire wolf wood wool workshop yacht yard yarn yoga yogurt zebra zipper zoo
ability access accident advice agency agenda agreement aircraft allergy allowance analysis answer antenna appeal
appliance approval argument army arrival aspect assembly assignment assistant athlete audience audit author authority
average background balance bargain barrier basement battle benefit blood bottom brain brake breath budget campaign
capacity capital carbonara caution ceremony champion chance change charity checklist chess childcare choice citizen claim
classroom climate closet colleague collection combination comment commission community commute comparison complaint
concept condition confirmation connection construction consultant consumption contact content contest context
conversation cooking copy council counter country couple coverage crime crisis culture cupboard cure curriculum
currency cycling damage danger database debate debt decision decoration deduction definition degree demand department
departure description design detail detergent development device dialogue difference difficulty dinosaur disaster discount
discovery discussion disease distance division document domain draft dream driving duration earthquake economy edge
education effect efficiency effort electricity element emergency emotion employee employer encounter energy engineer
entrance environment episode equipment error essay estimate evaluation evidence example exchange exit expansion
experience expert explanation export exposure expression extension factor failure faith fashion fault feature festival
fiction figure finding fitness flavour flexibility fraud freedom frequency fridge function funeral future gardening
gesture goodbye government graduation growth guarantee guideline guilt habit handbook happiness harbour hardware headache
headline health heart heating height heritage highlight hiking holiday homework housing humour hunting hypothesis
identity illness image impact improvement incident income increase independence industry infection inflation influence
information initiative injury innovation inspection inspiration installation institution instruction instrument
intention interest internet introduction invention inventory investment investor item itinerary jewellery journey
justice keynote kindness knowledge label landlord landscape launch laundry leader leadership leak learning legend leisure
length liability license lifestyle lifetime limit link liquid literature location logic logo loss luck luggage lunchbox
maintenance majority manufacturer marriage master match material math maximum measure mechanism media membership memory
message method migration mileage mission mistake mixture mobile mood morning motion motivation movement mystery narrative
nation nature negotiation network noise notice notification nutrition objective obligation observation obstacle offer
offsite onboarding opening operation opinion opponent opportunity option organisation orientation origin outage outcome
outfit outline outlook output overtime ownership package pain pair panic paragraph partnership passenger passion pasta
pattern peace penalty perception performance period permission perspective philosophy phrase physics playlist pleasure
pocket podcast point poison policy pollution population portfolio position possibility post potential poverty practice
pregnancy preparation presence pressure principle priority privacy problem procedure process production profession
profit progress promise promotion property prospect protection protocol provider psychology publication purchase purpose
quality quantity question quote radar range ranking rate ratio reaction reader reality reason recognition
recommendation recovery reduction reference reflection regulation relation relationship relief religion reminder
reputation request requirement rescue reservation resolution resort resource response responsibility result retention
retirement revenue revolution reward rhythm risk ritual role roommate rotation round route routine rule safety sale sample
satisfaction scale scan scandal scene scholarship science score scratch search secret section sector security selection
sensor sentence sequence series session setting settlement shape shock shopping shortage side sight signal signature
silence similarity situation size skill sleep smell society solution source space species speech speed spirit sport spot
spreadsheet stability standard status step stock strategy stress structure struggle style subject success suggestion
summit supply support surface surgery surprise survival suspect symptom system talent target task taste technique
technology temperature tendency tension term territory test theme theory therapy thought threat title tone topic total
touch tourism tradition traffic transaction transfer transition translation transport trend trial trick trouble trust
truth tuition turn type understanding union unit university update usage user value variety vehicle version victory
view violence virus vision visit vitamin volume vote warning warmth waste weakness wealth weapon weather website weight
welcome wellness width wisdom witness wonder word worker workout worry youth zone
"""
ADJECTIVES = """
old new big small red blue green white black yellow broken quick slow warm cold fresh dry wet local annual monthly weekly
daily final first second third quarterly early late open closed free private public secret simple spare used digital
modern wooden plastic electric wild sweet sour salty spicy vegan gluten-free low-fat half-price long-term last-minute
northern southern eastern western upper lower front back heavy light narrow wide quiet loud happy lucky urgent
"""
FIRST_NAMES = """
Ada Adam Agnes Ahmed Aiko Alan Albert Alice Amara Amir Amy Ana Anders Andrea Anika Anna Anton Arjun Astrid Aya Beatriz Ben
Bianca Bo Boris Bruno Camille Carl Carla Carlos Cecilia Chen Chloe Chris Clara Daniel David Diana Diego Dina Dora Edgar
Elena Eli Elif Emil Emma Enzo Erik Esther Eva Fatima Felix Fiona Frank Frida Gabriel George Gina Greta Gustav Hana Hans
Hassan Heidi Helen Henry Hugo Ida Igor Ines Ingrid Irina Isaac Ivan Jack Jacob Jana Jasper Javier Jean Jin Joel Johan John
Jonas Jorge Julia Kai Karim Karl Kate Keiko Ken Kira Kofi Lara Lars Laura Leah Leila Lena Leo Liam Lin Lisa Lola Louis
Lucas Lucia Lukas Luna Magnus Malik Marco Maria Marie Mark Marta Martin Mateo Max Maya Mei Mia Miguel Mila Mina Mohammed
Nadia Naomi Nils Nina Noah Nora Olga Oliver Omar Oscar Otto Pablo Paul Paula Pedro Peter Petra Piotr Priya Rafael Rania
Ravi Rita Robert Rosa Ruth Sadia Sam Samuel Sara Sean Silvia Simon Sofia Stefan Sven Tara Theo Thomas Tim Tina Tom Uma
Vera Victor Viktor Wei Will Xavier Yara Yuki Yusuf Zara Zoe
"""
SURNAMES = """
Abbott Adler Ahmed Almeida Andersen Bauer Becker Berg Bianchi Blanc Bond Brandt Brown Carter Castro Chan Chavez Chen
Clark Costa Cruz Dahl Davies Diaz Dubois Duran Eriksen Evans Falk Farah Ferrari Fischer Flores Fuentes Garcia Gill Gomez
Gray Green Gupta Haas Hahn Hall Hansen Harris Hill Hoffman Horvat Hughes Ito Ivanov Jansen Jensen Jones Kaya Keller Khan
Kim King Klein Koch Kovacs Kowalski Kumar Lang Larsen Lee Lehmann Lewis Lima Lopez Lund Mann Marin Martin Mehta Meyer
Mills Moore Moreau Morgan Moretti Murphy Nagy Nguyen Nielsen Novak Obi Okafor Okonkwo Olsen Ortiz Park Patel Perez Petrov
Price Quinn Ramos Rao Reed Reyes Ricci Rivera Rossi Russo Sato Schmidt Shah Silva Singh Smith Soto Stein Stone Suzuki
Tanaka Taylor Torres Tran Turner Vega Vogel Wagner Walker Wang Weber White Wolf Wood Wright Yamada Yilmaz Young Zhang
"""
CITIES = """
Aachen Accra Adelaide Algiers Almaty Amman Amsterdam Ankara Antwerp Athens Atlanta Auckland Austin Baku Bangkok Barcelona
Basel Beijing Beirut Belfast Belgrade Bergen Berlin Bern Bilbao Bogota Bologna Bombay Boston Bratislava Bremen Brighton
Brisbane Bristol Brno Brussels Bucharest Budapest Cairo Calgary Cardiff Chicago Cologne Copenhagen Cordoba Cork Cracow
Cusco Dakar Dallas Damascus Delhi Denver Detroit Doha Dresden Dubai Dublin Durban Edinburgh Florence Fukuoka Galway
Geneva Genoa Ghent Glasgow Gothenburg Granada Graz Hamburg Hanoi Harare Havana Helsinki Houston Innsbruck Istanbul Izmir
Jakarta Jerusalem Kampala Karachi Kathmandu Kiel Kigali Kyiv Kyoto Lagos Lahore Lausanne Leeds Leipzig Lima Linz Lisbon
Liverpool Ljubljana London Lusaka Luxembourg Lviv Lyon Madrid Malaga Malmo Manchester Manila Maputo Marseille Melbourne
Memphis Mexico Miami Milan Minsk Montreal Moscow Mumbai Munich Muscat Nairobi Nantes Naples Nice Nicosia Odessa Osaka
Oslo Ottawa Oxford Palermo Panama Paris Perth Porto Prague Pretoria Quito Rabat Reykjavik Riga Rome Rotterdam Salzburg
Santiago Sarajevo Seattle Seoul Seville Shanghai Singapore Sofia Split Stockholm Strasbourg Stuttgart Sydney Taipei
Tallinn Tampere Tartu Tbilisi Tehran Tokyo Toledo Toronto Toulouse Trieste Tripoli Tromso Tunis Turin Utrecht Valencia
Vancouver Venice Verona Vienna Vilnius Warsaw Wellington Winnipeg Yerevan York Zagreb Zaragoza Zurich
"""
ONSETS = "b c d f g h j k l m n p r s t v w z br ch cl cr dr fl fr gl gr kl kr pl pr qu sc sh sk sl sp st str sw th tr tw".split()
NUCLEI = "a e i o u a e i o u ai au ea ee ei ia ie io oa oo ou ui y".split()
CODAS = [
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "b",
    "ck",
    "d",
    "f",
    "g",
    "l",
    "ll",
    "m",
    "n",
    "nd",
    "ng",
    "nk",
    "nt",
    "p",
    "r",
    "rd",
    "rk",
    "rt",
    "s",
    "sh",
    "ss",
    "st",
    "t",
    "th",
    "x",
    "z",
]
ACCENTED = {
    "a": "áàâäãå",
    "e": "éèêë",
    "i": "íìîï",
    "o": "óòôöõø",
    "u": "úùûü",
    "c": "çčć",
    "s": "šśş",
    "z": "žźż",
    "n": "ñń",
    "l": "ł",
    "r": "ř",
    "y": "ý",
    "g": "ğ",
}
MONTHS = "January February March April May June July August September October November December".split()
WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
SHORT_MONTHS = "Jan Feb Mar Apr Jun Jul Aug Sept Sep Oct Nov Dec".split()
HOURS = "one two three four five six seven eight nine ten eleven twelve".split()
DAY_PARTS = ("morning", "afternoon", "evening", "night", "noon")
SPOKEN_DAYS = (
    "today;today;tonight;tomorrow;tomorrow;tomorrow;yesterday;this weekend;next weekend;the weekend;this week;next week;"
    "the day after tomorrow;the day before yesterday;next month;this month;this morning;this afternoon;this evening;"
    "later today;in a week;in two weeks;in three days;a week from now;the first of the month;Christmas;New Year's Eve;"
    "my birthday;Easter Monday;Mon;Tue;Wed;Thu;Fri;Sat;Sun"
).split(";")
EXTENSIONS = "txt md csv pdf json py log docx xlsx html yaml ini sh tex odt rst png jpg pptx toml js rtf xml cfg".split()
SKIES = (
    "rain;light rain;heavy rain;sun;sunny;clouds;cloudy;light clouds;snow;light snow;fog;wind;clear sky;thunder;"
    "drizzle;hail;a clear sky;strong wind;scattered clouds;overcast;showers;mist;sleet;storms;partly cloudy"
).split(";")
TEMPERATURE_KEYS = (
    "temperature",
    "temperature",
    "temperature",
    "temperature",
    "temp",
    "celsius",
    "degrees",
    "temp_c",
    "temperature_c",
)
SKY_KEYS = ("sky", "sky", "sky", "sky", "conditions", "condition", "weather", "description", "summary")
UNITS = "C F % km m cm mm kg g t l ml km/h m/s mph hPa EUR USD GBP degrees minutes hours days years GB MB ms s W kWh V °C °F € $".split()
VALUE_KEYS = (
    "name value price level answer date total code state distance owner phone time title text type kind size "
    "count amount currency unit id number email address city country street zip url link path file created_at "
    "updated_at due_date start end from to author rating score stock quantity color weight height width age "
    "gender role team manager company department salary balance rate tax discount category tags labels items "
    "priority assignee status_code version language humidity wind wind_speed pressure feels_like high low "
    "min max average mean sum median percent progress duration minutes hours seconds latitude longitude "
    "population capital currency_code symbol change open close volume market_cap isbn pages publisher year "
    "month day hour genre artist album track ingredients servings calories steps origin destination departure "
    "arrival gate seat airline flight carrier eta tracking_number delivered in_stock available enabled active "
    "is_open verified premium admin username user_id first_name last_name nickname note comment summary "
    "subject body sender recipient content heading snippet source battery signal temperature_f sunrise sunset "
    "tide moon speed altitude heading depth expires_at valid_until remaining limit used free load memory cpu "
    "uptime host port ip region zone cluster nodes replicas branch commit author_name merged_at"
).split()
"""Keys that the objects of usual tools have."""
COMMON_WORDS = """
a about above across after again against ago all almost along already also although always am among an and another any
anybody anyone anything are around as ask asked asks at away back be became because become been before began begin behind
being below beside besides best better between both bring brought build built but by call called came can cannot carry
caught cause change come comes could cut did different do does doing done down draw drive drop during each early eat
either else end enough even ever every everybody everything except fall far fast feel fell felt few find finish first
follow for forget forty found four free from full further gave get gets give given gives go goes going gone good got grow
had half happen happens has have having he hear heard held help her here hers him himself his hold home hope how however
hundred hurt hurts I if in inside instead into is it its itself just keep keeps kept kind knew know known last late later
laugh lead least leave leaves left less let lets like likes little live long look looks lose lost made make makes many may
maybe me mean means meet met might mine more most move much must my myself near nearly need needs never new next nine no
nobody none nor not nothing now of off often on once one only onto open or other others our out outside over own part past
pay people perhaps place play please put quite rather read ready real remember right rise run said same sat saw say says
see seem seems seen sell send sent set seven several shall she should show shows side since sing sit six sleep slept slow
slowly small so some somebody something sometimes soon stand start starts stay stays still stood stop stops such sure take
taken takes talk tell ten than that the their them themselves then there these they thing things think this those though
thought three through till to today together told too took toward tried tries true try turn twenty twice two under until
up upon us use used very wait walk want wanted wants was wash watch way we weak well went were what whatever when where
whether which while who whole whose why will with within without wonder work works would write wrote year yes yet you
young your yours
"""
"""Words that any English sentence is made of."""
