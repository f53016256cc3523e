"""What people confuse: the tables that `mistakes` draws from. Words are lower-case, with a straight apostrophe."""

from __future__ import annotations


def _table(text: str) -> dict[str, tuple[str, ...]]:
    """`right: wrong, wrong` between bars. A wrong word that stands twice is drawn twice as often."""
    pairs = (entry.split(":") for entry in text.replace("\n", " ").split("|"))
    return {right.strip(): tuple(wrong.strip() for wrong in wrongs.split(",")) for right, wrongs in pairs}


def _groups(text: str) -> dict[str, tuple[str, ...]]:
    """Words between bars are confused with each other, in both directions; a word may be in several groups."""
    wrongs: dict[str, tuple[str, ...]] = {}
    for group in text.replace("\n", " ").split("|"):
        members = group.split()
        for word in members:
            wrongs[word] = (*wrongs.get(word, ()), *(other for other in members if other != word))
    return wrongs


def _words(text: str) -> frozenset[str]:
    """For membership alone: the order of a set differs between processes."""
    return frozenset(text.split())


def _sequence(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _splits(text: str) -> dict[str, str]:
    return {word.replace("_", ""): word.replace("_", " ") for word in text.split()}


# -- Classes of words

ARTICLES = _words("a an the")
BE = _words("am is are was were be been being isn't aren't wasn't weren't i'm he's she's it's you're we're they're")
FINITE_BE = _words("am is are was were")
HAVE = _words("have has had having haven't hasn't hadn't i've you've we've they've")
DO = _words("do does did don't doesn't didn't")
MODALS = _words(
    "can could may might must shall should will would cannot can't couldn't mustn't shouldn't won't wouldn't "
    "i'll you'll he'll she'll it'll we'll they'll let's"
)
AUXILIARIES = BE | HAVE | DO | MODALS
SINGULAR_SUBJECTS = _words("he she it this that everyone everybody someone nobody nothing something everything")
PLURAL_SUBJECTS = _words("i you we they these those")
SUBJECTS = _words("i you he she it we they")
PREPOSITIONS = _words(
    "about above across after against along among around at before behind below between by during for from in into of "
    "off on onto over since through to toward towards under until upon with within without"
)
QUESTION_WORDS = _words("what who whom whose which when where why how")
SINGULAR_DETERMINERS = _words("a an one this that each every another")
PLURAL_DETERMINERS = _words(
    "these those many few several both various numerous two three four five six seven eight nine ten dozens hundreds"
)
DETERMINERS = (
    SINGULAR_DETERMINERS
    | PLURAL_DETERMINERS
    | _words("the my your his her its our their no any some which what whose all most such other more enough")
)
PAST_MARKS = _words("was were had did didn't wasn't weren't yesterday ago said went came took made saw got")
UNCOUNTABLE = _words(
    "information advice equipment furniture homework research knowledge luggage evidence software hardware money "
    "progress feedback music traffic weather traveling travel training behavior behaviour health education help "
    "employment pollution water bread garbage rice electricity happiness transportation housework machinery luck fun "
    "news permission violence wealth wildlife accommodation scenery vocabulary poverty grammar"
)
NOT_PLURAL = _words(  # singular words that look plural, units, and words whose singular is as good
    "news series species means percent percents thanks always perhaps economics politics mathematics physics times "
    "dollars pounds days hundreds thousands millions billions others us united others outdoors upstairs yes"
)
# Whose absence is noticed; "that", "not", "also" and their like may be left out of a right sentence.
MISSABLE = _words("and or as than if because which who whose where while so it to of in on for with at from by be")
DOUBLED = _words("the a to of in and is it that for on with be we you i was are have as at this by")
# Left over from another wording, before a word that cannot follow them.
LEFT_OVER_PREPOSITIONS = ("of", "to", "in", "for", "on", "with", "at", "by")
LEFT_OVER_VERBS = ("is", "are", "was", "be", "has", "do", "have")
LEFT_OVER_WORDS = ("the", "a", "more")

FREQUENCY_ADVERBS = _words("always often usually never really still even just also sometimes")
ARTICLE_AFTER = _words("in on at by with from of for about into and or but is are was were has have had be to like")
COMMA_BEFORE = _words("that than because who if when")  # where a comma is wrong, and often set
COMMA_AFTER = _words("that although though because and but such like as if whether including")
TITLES = _words("mr. mrs. ms. dr. st. prof. gen. sen. rep. gov. jr. sr. vs. etc. e.g. i.e. inc. corp. co. al. u.s.")
CAPITALS = _words(  # which are nothing else when they are written small
    "monday tuesday wednesday thursday friday saturday sunday january february april june july august september "
    "october november december english french german spanish chinese japanese italian russian american british "
    "european african indian canadian mexican greek china japan germany france england america europe africa india "
    "canada mexico spain italy russia london paris tokyo christmas easter internet google"
)
COMMON = _words(  # short words that no dictionary of inflected words has
    "the of and a for with from an at but if into than because until every against three during per four five among "
    "website six unless upon towards eight toward although seven nor whereas despite nine ten amid versus onto since "
    "cannot i to in on by my we he she it us me as or so is be am are was do go no up"
)

# -- Words for words

PREPOSITIONS_CONFUSED = _table("""
in: on, on, at, at, to, into, of, for, during | on: in, in, in, at, at, of, for, about | at: in, in, in, on, on, to |
to: for, for, at, in, of, with | for: to, to, of, since, in, about | of: from, from, for, in, on, about |
from: of, of, by, since, to, at | by: with, from, for, in, of | with: by, by, of, to, from, for |
about: of, for, on, at | into: in, in, to | since: from, for, for | during: in, for, while | until: to, by |
between: among, in, from | among: between, in | through: by, in | over: on, above | after: since, behind |
before: until, in front of | against: to, for, with | without: with, no | towards: at, for | around: at, on
""")
# After a verb that takes its object without one, and before a word that needs none.
NEEDLESS_AFTER = _table("""
discuss: about | enter: into, to | marry: with | contact: with, to | emphasize: on | mention: about | reach: to |
approach: to | lack: of | comprise: of | answer: to | explain: about | join: to | visit: to | influence: on |
affect: on, to | attend: to | face: with | request: for | call: to | resemble: to | await: for | seek: for |
oppose: to | access: to | obey: to | afford: for | describe: about | consider: about | despite: of | near: to
""")
NEEDLESS_BEFORE = _table("""
home: to, at | abroad: to, in | downtown: to, in | upstairs: to | here: to, in | there: to, in | everywhere: in, at |
somewhere: in, to | overseas: to, in | yesterday: in, on | tomorrow: in, on | today: in, on
""")
PRONOUNS_CONFUSED = _table("""
i: me, my | me: i, my | he: him, his | him: he, his | his: him, he | she: her | her: she, hers | we: us, our |
us: we, our | they: them, their, there | them: they, their | my: me, mine, i | your: you, yours, you're |
our: us, ours, are | their: them, they, theirs | its: it, his, their | himself: hisself, him |
themselves: themself, theirselves, them | itself: it self, himself | myself: me self, my self | ourselves: ourself, us |
who: which, whom | whom: which | whose: who, which | which: who, what | mine: my | yours: your | ours: our |
theirs: their, them | it: he, them
""")
DETERMINERS_CONFUSED = _table("""
these: this, this, that | those: that, that, this | this: these, these, those | many: much, much, a lot |
much: many, many | few: little | fewer: less | less: fewer | every: all, each of | each: all, every of |
another: other, an other, others | other: another, others | others: other, another | both: the both, two |
some: a, any of
""")
AGREEMENT = _table("""
is: are | are: is | was: were | were: was | am: is, are | has: have | have: has | does: do | do: does | isn't: aren't |
aren't: isn't | wasn't: weren't | weren't: wasn't | hasn't: haven't | haven't: hasn't | doesn't: don't |
don't: doesn't
""")
PRESENT_OF = _table("""
was: is | were: are | had: has, have | did: do, does | didn't: don't, doesn't | wasn't: isn't | weren't: aren't |
could: can | would: will | couldn't: can't | wouldn't: won't
""")
AUXILIARIES_CONFUSED = _table("""
is: has | are: have | was: had | were: had | am: have | has: is | have: are, having, has been | had: was, have |
do: are, did | does: is, has | did: was, does, do | don't: am not, not, didn't | doesn't: isn't, don't, not |
didn't: wasn't, don't, not | been: be, being | being: been, be | be: been, is, being | can: could to, can to |
could: can, could to | will: would, will to | would: will, would to | should: should to, shall to |
must: must to, has to | might: might to, may to | may: may to, maybe | cannot: can no | can't: don't can, couldn't |
won't: don't will, wouldn't
""")
CONFUSED = _groups("""
their there they're | its it's | then than | your you're | affect effect | loose lose | to too two | whose who's |
accept except | advice advise | lead led | passed past | quiet quite | weather whether | where were we're |
make do | makes does | made did | making doing | say tell | says tells | said told | saying telling |
brake break | breath breathe | buy by bye | hear here | hole whole | know now no | new knew | right write |
peace piece | plain plane | principal principle | stationary stationery | thorough through threw | though thought |
of off | wear where | which witch | wait weight | waist waste | week weak | wood would | choose chose | clothes cloths |
complement compliment | desert dessert | device devise | every very | fair fare | find fined | feel fell | felt fell |
form from | great grate | heal heel | hire higher | hour our | idea ideal | later latter | lay lie |
learn teach | learned taught | lend borrow | live life leave | lives leaves | look see watch | looked saw watched |
meat meet | mail male | moral morale | brought took | personal personnel | precede proceed | price prize | raise rise |
raised rose | role roll | sale sell sail | scene seen | sea see | sight site cite | steal steel | sweat sweet |
tail tale | their them | this these | thing think | trip travel | wander wonder | while well | worse worst |
economic economical | classic classical | sensible sensitive | besides beside | sometime sometimes | already yet |
beach bench | bored boring | interested interesting | excited exciting | confused confusing | surprised surprising |
tired tiring | disappointed disappointing | frightened frightening | good well | bad badly | hard hardly |
late lately | near nearly | high highly | success succeed | successful success | belief believe | proof prove |
choice choose | loss lost lose | death dead die | health healthy | difference different | difficulty difficult |
importance important | safety safe | beauty beautiful | strength strong | danger dangerous | freedom free |
analysis analyze | response responsible | decision decide | ensure assure | adopt adapt | elicit illicit |
council counsel | conscious conscience | eminent imminent | allude elude | allusion illusion | capital capitol |
coarse course | cue queue | discreet discrete | dual duel | formally formerly | forth fourth | heard herd |
vain vein vane | altar alter | aisle isle | ascent assent | bare bear | base bass | berth birth | board bored |
born borne | rain reign rein | cereal serial | cell sell | cent sent scent | die dye | flour flower | guessed guest |
knight night | lesson lessen | medal metal meddle | minor miner | pair pear | pray prey | root route | shore sure |
sole soul | son sun | stair stare | suite sweet suit | threw throw | tied tide | warn worn | way weigh |
remember remind | remembered reminded | rob steal | arrive reach | arrived reached | listen hear | listened heard |
speak say | spoke said | won beat | wish which | ago before | although despite | during while | never ever |
until till | nothing anything | especially specially | opportunity possibility | amount number | fewer less |
much many | percent percentage | economy economics | politics policy | experience experiment | actual current |
chance change | foreign foreigner | save safe | relay rely | quit quite | thank thanks | please pleased
""")
PHRASES_CONFUSED = _table("""
could have: could of | should have: should of | would have: would of | might have: might of | must have: must of |
used to: use to | supposed to: suppose to | because of: because, cause of |
instead of: instead | due to: due of | according to: according with | depends on: depends of | depend on: depend of |
interested in: interested on, interested for | different from: different of | good at: good in |
married to: married with | as well as: as well | in order to: for to | able to: able | a lot of: a lot, lot of |
one of: one | each other: each others | as if: as | more than: more then | rather than: rather then |
less than: less then | other than: other then | better than: better then | too many: too much | too much: too many |
so many: so much | so much: so many | there is: there are, it is, there | there are: there is, there have |
there was: there were, it was | there were: there was | years old: years, year old
""")

# -- Joined and split

JOINED = _words(
    "a_lot in_case in_fact as_well at_least of_course each_other no_one thank_you high_school any_more all_right "
    "in_front even_though right_now so_far every_day every_time all_ready all_together a_while some_time may_be "
    "any_time in_spite ice_cream at_all as_soon for_example good_night real_estate per_cent part_time full_time"
)
SPLIT = _splits("""
to_gether in_to on_to may_be with_out any_one every_one any_body every_body some_body no_body every_thing some_thing
any_thing no_thing some_times some_where every_where any_where no_where some_how some_what how_ever when_ever what_ever
who_ever where_ever never_theless to_day to_night to_morrow him_self her_self it_self my_self your_self them_selves
our_selves al_though al_ready al_ways al_most be_cause be_fore be_tween be_hind be_side be_sides be_yond an_other
with_in in_stead in_side out_side through_out there_fore where_as mean_while week_end week_ends foot_ball basket_ball
back_ground news_paper news_papers home_work house_work class_room bed_room bath_room birth_day birth_days sun_light
key_board note_book web_site web_sites air_port air_plane over_all over_come under_stand under_standing under_stood
under_lying up_date up_dated up_dates down_load out_come out_comes in_come in_deed further_more more_over work_place
work_shop work_shops nowa_days some_one a_bout a_round a_long a_way a_gain a_gainst a_broad data_base frame_work
net_work soft_ware hard_ware head_line break_fast grand_mother grand_father life_time life_style
""")

# -- Letters

# On the keyboard: each letter, and those around it.
NEIGHBOURS = {
    around[0]: around[1:]
    for around in _sequence("""
qwa wqes ewrd retf tryg ytuh uyij iuok oipl pol aqsz sawdx dsefc fdrgv gfthb hgyjn jhukm kjil lkop zasx xzsdc cxdfv
vcfgb bvghn nbhjm mnjk
""")
}
SOUNDS = _table("""
ie: ei | ei: ie | ance: ence | ence: ance | ant: ent | ent: ant | able: ible | ible: able | tion: sion, tian |
sion: tion | ph: f | ough: uff, ow | ea: ee, e | ee: ea, e | ai: a, ei | ou: o, u | ly: lly, ley | lly: ly | ful: full |
ss: s | mm: m | nn: n | cc: c | ll: l | pp: p | rr: r | tt: t | ff: f | ck: k | sc: s | wh: w | kn: n | ght: gt, th |
er: ar, or | or: er | ar: er | ur: er | ce: se | se: ce | ci: si | ise: ice | ous: us, ius | al: el, le | le: el |
el: al | ary: ery | ery: ary | i: e | e: i | a: e | m: mm | l: ll | s: ss | t: tt
""")
