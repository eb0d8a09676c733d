"""The words and rules of the synthetic Mandarin-English sentences, and which words need context.

There are about a hundred words in each language. Verbs choose their objects, nouns their measure words, and English
verbs agree with their subjects, so that the next word is predictable from those before. A few nouns are rare: their
characters stay below the count that makes a unit (P1, section 4.2). No Han character here has two readings between
which the synthesiser would have to choose.

P1 is about context of the same language, so some words cannot be written without it. They are homophones, in one of the
languages (歌 and 鸽, TALE and TAIL), and the subject of the sentence says which one is meant: an actor has songs, a
hunter pigeons. A homophone and its subject are said in the same language, however many words of the other stand between
them. In half of these sentences that is a second subject, whose own word may be the wrong one of the two.
"""

from espnet_ext.synthetic.mandarin_english import ENGLISH, MANDARIN, BilingualGrammar, Expansion, Rules, pair_of

# Nouns: Mandarin, measure word, singular, plural.
_PEOPLE = (
    ("医生", "个", "doctor", "doctors"),
    ("老师", "个", "teacher", "teachers"),
    ("学生", "个", "student", "students"),
    ("经理", "个", "manager", "managers"),
    ("司机", "个", "driver", "drivers"),
    ("朋友", "个", "friend", "friends"),
    ("妹妹", "个", "sister", "sisters"),
    ("邻居", "个", "neighbor", "neighbors"),
)
_THINGS = {
    "paper": (
        ("书", "本", "book", "books"),
        ("信", "封", "letter", "letters"),
        ("报告", "份", "report", "reports"),
        ("邮件", "封", "email", "emails"),
    ),
    "food": (
        ("苹果", "个", "apple", "apples"),
        ("鸡蛋", "个", "egg", "eggs"),
        ("蛋糕", "个", "cake", "cakes"),
    ),
    "opening": (
        ("门", "扇", "door", "doors"),
        ("箱子", "个", "box", "boxes"),
    ),
    "goods": (
        ("手机", "部", "phone", "phones"),
        ("电脑", "台", "computer", "computers"),
        ("汽车", "辆", "car", "cars"),
        ("礼物", "份", "gift", "gifts"),
        ("地图", "张", "map", "maps"),
        ("照片", "张", "photo", "photos"),
        ("大衣", "件", "coat", "coats"),
    ),
    "animal": (
        ("狗", "只", "dog", "dogs"),
        ("猫", "只", "cat", "cats"),
        ("马", "匹", "horse", "horses"),
    ),
}
_RARE_ANIMALS = (
    ("狐狸", "只", "fox", "foxes"),
    ("骆驼", "匹", "camel", "camels"),
    ("蝴蝶", "只", "butterfly", "butterflies"),
    ("鲸鱼", "头", "whale", "whales"),
    ("孔雀", "只", "peacock", "peacocks"),
)
_RARE = 0.25  # weight of one of them, where others have 1

# Homophones: the language in which two words are, and for each of the two its subject and itself.
HOMOPHONES = (
    (MANDARIN, ("演员|actor", "歌|song"), ("猎人|hunter", "鸽|pigeon")),
    (MANDARIN, ("作家|writer", "诗|poem"), ("导游|guide", "狮|lion")),
    (MANDARIN, ("农民|farmer", "猪|pig"), ("公主|princess", "珠|pearl")),
    (MANDARIN, ("爷爷|grandpa", "棋|chess"), ("士兵|soldier", "旗|flag")),
    (MANDARIN, ("厨师|cook", "粥|porridge"), ("渔民|fisherman", "舟|boat")),
    (MANDARIN, ("矿工|miner", "煤|coal"), ("园丁|gardener", "梅|plum")),
    (ENGLISH, ("护士|nurse", "花|flower"), ("阿姨|aunt", "面粉|flour")),
    (ENGLISH, ("奶奶|grandma", "故事|tale"), ("兽医|vet", "尾巴|tail")),
    (ENGLISH, ("老板|boss", "牛排|steak"), ("木匠|carpenter", "木桩|stake")),
    (ENGLISH, ("客人|guest", "贝壳|mussel"), ("选手|athlete", "肌肉|muscle")),
    (ENGLISH, ("水手|sailor", "船帆|sail"), ("店员|clerk", "生意|sale")),
)
_DESIRES = ("like", "look_for", "need", "remember", "paint", "buy", "sell")  # verbs that say nothing about the object

# Verbs: Mandarin, third person singular, base form, the kind of their object.
_VERBS = (
    ("写", "writes", "write", "paper"),
    ("记得", "remembers", "remember", "paper"),
    ("吃", "eats", "eat", "food"),
    ("做", "cooks", "cook", "food"),
    ("喝", "drinks", "drink", "drink"),
    ("打开", "opens", "open", "opening"),
    ("关上", "shuts", "shut", "opening"),
    ("买", "buys", "buy", "goods"),
    ("卖", "sells", "sell", "goods"),
    ("需要", "needs", "need", "goods"),
    ("喜欢", "likes", "like", "goods"),
    ("帮助", "helps", "help", "someone"),
    ("等", "waits_for", "wait_for", "someone"),
    ("找", "looks_for", "look_for", "being"),
    ("画", "paints", "paint", "being"),
)
_FREQUENCIES = ("经常|often", "总是|always", "从来不|never")
_MODALS = ("会|will", "可以|can", "应该|should")
_PERSON_ADJECTIVES = ("年轻的|young", "聪明的|clever")
_ADJECTIVES = ("红色的|red", "白色的|white", "新的|new", "小的|small", "便宜的|cheap")
_MOODS = ("高兴|happy", "累|tired", "忙|busy")
_DRINKS = ("茶|tea", "水|water", "牛奶|milk", "咖啡|coffee")
_NUMBERS = ("两|two", "三|three", "四|four", "五|five", "六|six", "七|seven", "八|eight", "九|nine", "十|ten")
_PLACES = (
    "办公室|the_office",
    "学校|the_school",
    "商店|the_shop",
    "医院|the_hospital",
    "图书馆|the_library",
    "机场|the_airport",
    "火车站|the_station",
)
_TIMES = (
    "今天|today",
    "明天|tomorrow",
    "每天|every_day",
    "早上|in_the_morning",
    "晚上|in_the_evening",
    "周末|on_the_weekend",
    "星期一|on_monday",
    "夏天|in_the_summer",
)


def bilingual_grammar() -> BilingualGrammar:
    """The bilingual grammar. One token in six of its mixed sentences is English, in P1's test sets one in nine."""
    return BilingualGrammar(
        rules=_words() | _nouns() | _predicates() | _homophones() | _sentences(),
        switches={
            "noun": 6.0,
            "verb": 1.0,
            "mood": 1.0,
            "adjective": 0.5,
            "frequency": 0.5,
            "place": 0.2,
            "when": 0.2,
            "thing": 0.1,
            "subject": 1.0,
            "named": 1.0,
            "desire": 1.5,
        },
        second_switch=0.1,
        lengths=(9, 18),
        agreements={
            f"word.{pair_of(word)[1]}": (f"who.{pair_of(subject)[1]}", language)
            for language, *pair in HOMOPHONES
            for subject, word in pair
        },
    )


def _equal(*lines: str) -> tuple[Expansion, ...]:
    return tuple((1.0, line) for line in lines)


def _words() -> Rules:
    rules: Rules = {
        "frequency": _equal(*_FREQUENCIES),
        "modal": _equal(*_MODALS),
        "adjective.person": _equal(*_PERSON_ADJECTIVES),
        "adjective.thing": _equal(*_ADJECTIVES),
        "mood": _equal(*_MOODS),
        "noun.drink": _equal(*_DRINKS),
        "place": _equal(*_PLACES),
        "when": _equal(*_TIMES),
    }
    for mandarin, singular, base, _ in _VERBS:
        rules[f"verb.{base}.sg"] = _equal(f"{mandarin}|{singular}")
        rules[f"verb.{base}.pl"] = _equal(f"{mandarin}|{base}")
    return rules


def _nouns() -> Rules:
    rules: Rules = {}
    weights: dict[str, list[tuple[float, str]]] = {}
    everything = {"person": _PEOPLE, **_THINGS, "rare": _RARE_ANIMALS}
    for kind, nouns in everything.items():
        adjective = "adjective.person" if kind == "person" else "adjective.thing"
        for mandarin, measure, singular, plural in nouns:
            rules[f"noun.{singular}.sg"] = _equal(f"{mandarin}|{singular}")
            rules[f"noun.{singular}.pl"] = _equal(f"{mandarin}|{plural}")
            rules[f"this.{measure}"] = (
                (2, f"那{measure}|the"),
                (1, f"这{measure}|this"),
                (1, "我的|my"),
                (1, "你的|your"),
            )
            rules[f"number.{measure}"] = _equal(*(number.replace("|", f"{measure}|") for number in _NUMBERS))
            rules[f"thing.{singular}.sg"] = (
                (3, f"<this.{measure}> <noun.{singular}.sg>"),
                (1, f"<this.{measure}> <{adjective}> <noun.{singular}.sg>"),
            )
            rules[f"thing.{singular}.pl"] = (
                (3, f"<number.{measure}> <noun.{singular}.pl>"),
                (1, f"<number.{measure}> <{adjective}> <noun.{singular}.pl>"),
            )
            weights.setdefault("animal" if kind == "rare" else kind, []).append(
                (_RARE if kind == "rare" else 1.0, singular)
            )
    for kind, members in weights.items():
        for number in ("sg", "pl"):
            rules[f"{kind}.{number}"] = tuple((weight, f"<thing.{noun}.{number}>") for weight, noun in members)
    return rules


def _predicates() -> Rules:
    rules: Rules = {
        "someone": ((3, "<person.sg>"), (1, "<person.pl>")),
        "being": ((1, "<someone>"), (2, "<animal.sg>"), (2, "<animal.pl>")),
        "drink": ((1, "一杯|a_cup_of <noun.drink>"), (1, "两杯|two_cups_of <noun.drink>")),
    }
    for kind in sorted({kind for *_, kind in _VERBS} & _THINGS.keys()):
        rules[kind] = ((1, f"<{kind}.sg>"), (1, f"<{kind}.pl>"))
    for number, do_not, want, go, are in (
        ("sg", "doesn't", "wants_to", "goes_to", "is_very"),
        ("pl", "don't", "want_to", "go_to", "are_very"),
    ):
        rules[f"act.{number}"] = _equal(*(f"<verb.{base}.{number}> <{kind}>" for _, _, base, kind in _VERBS))
        rules[f"predicate.{number}"] = (
            (5, f"<act.{number}>"),
            (2, f"<frequency> <act.{number}>"),
            (2, "<modal> <act.pl>"),
            (1, f"不|{do_not} <act.pl>"),
            (1, f"想|{want} <act.pl>"),
            (1.5, f"去|{go} <place>"),
            (1, f"很|{are} <mood>"),
            # "at the office" comes before the verb in Mandarin and after the object in English.
            (1.5, f"<where> <act.{number}>", (1, 0)),
        )
    return rules | {"where": _equal("在|at <place>")}


def _homophones() -> Rules:
    rules: Rules = {
        "own": _equal("那|the", "这|this", "我的|my", "你的|your"),
        "helped": tuple((1.0, f"<subject.{pair_of(subject)[1]}>") for _, *pair in HOMOPHONES for subject, _ in pair),
    }
    for number in ("sg", "pl"):
        rules[f"desire.{number}"] = tuple((1.0, f"<verb.{verb}.{number}>") for verb in _DESIRES)
    lines, helping = [], []
    for _, *pair in HOMOPHONES:
        for (subject, word), (other, _) in zip(pair, reversed(pair), strict=True):
            rules[f"who.{pair_of(subject)[1]}"] = _equal(subject)
            rules[f"word.{pair_of(word)[1]}"] = _equal(word)
            rules[f"subject.{pair_of(subject)[1]}"] = _equal(f"那个|the <who.{pair_of(subject)[1]}>")
            rules[f"named.{pair_of(word)[1]}"] = _equal(f"<own> <word.{pair_of(word)[1]}>")
            lines.append((f"<subject.{pair_of(subject)[1]}>", f"<named.{pair_of(word)[1]}>"))
            helps = f"<subject.{pair_of(subject)[1]}> 帮|helps {{}} <desire.pl> <named.{pair_of(word)[1]}>"
            helping += [helps.format("<helped>"), helps.format(f"<subject.{pair_of(other)[1]}>")]
    rules["story"] = (
        *((1.0, f"{subject} <desire.sg> {word}") for subject, word in lines),
        *((1.0, f"{subject} <frequency> <desire.sg> {word}") for subject, word in lines),
        *((1.5, line) for line in helping),
    )
    return rules


def _sentences() -> Rules:
    return {
        "clause": (
            (4, "<person.sg> <predicate.sg>"),
            (1, "<person.pl> <predicate.pl>"),
            (1, "他|he <predicate.sg>"),
            (1, "我们|we <predicate.pl>"),
            (1, "他们|they <predicate.pl>"),
        ),
        "sentence": (
            (4, "<clause>"),
            (6, "<story>"),
            (2, "<when> <story>"),
            (2, "<when> <clause>"),
            (1, "<when> <clause>", (1, 0)),  # English may put the time last
        ),
    }
