"""English sentences that a language model can learn from: a seeded phrase grammar of about 190 words.

A grammar is plain data. Each rule's name, written ``<name>``, stands for one of several weighted expansions, which hold
words and further names. Subject and verb agree in number, and verbs choose their objects (one reads letters and drinks
tea), so that the next word is predictable from those before. There are no homographs (read/read, close/close), whose
pronunciation the synthesiser would have to guess.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass

Expansion = tuple[float, str]


@dataclass(frozen=True)
class Grammar:
    """Weighted production rules of one language.

    Attributes:
        rules: From a rule's name to its weighted expansions. Weights need not sum to one.
        start: The rule that stands for a sentence.
        min_words, max_words: Sentences of other lengths are drawn again.
    """

    rules: Mapping[str, tuple[Expansion, ...]]
    start: str = "sentence"
    min_words: int = 4
    max_words: int = 10

    def sentence(self, rng: random.Random) -> str:
        """Draw a sentence: upper-case words with one space between them.

        >>> grammar = Grammar({"sentence": ((1.0, "<who> is here today"),), "who": ((1.0, "the cat"),)})
        >>> grammar.sentence(random.Random(0))
        'THE CAT IS HERE TODAY'
        """
        while True:
            words = self._expand(self.start, rng)
            if self.min_words <= len(words) <= self.max_words:
                return " ".join(words).upper()

    def _expand(self, name: str, rng: random.Random) -> list[str]:
        weights, texts = zip(*self.rules[name], strict=True)
        words: list[str] = []
        for word in rng.choices(texts, weights)[0].split():
            words += self._expand(word[1:-1], rng) if word.startswith("<") else [word]
        return words


def english_grammar() -> Grammar:
    """The English grammar."""
    return Grammar(rules())


def phrase_grammar() -> Grammar:
    """Phrases such as TWO SMALL RED BOXES, of 40 words of :func:`english_grammar`, which small models soon learn."""
    return Grammar(rules() | _phrase_rules(), start="phrase", min_words=3, max_words=4)


def text_grammar() -> Grammar:
    """Another kind of English text with the same words, for language models that must not know the speech beforehand.

    Its verbs take any object, so that one may drink a door. Its sentences are longer and begin otherwise. What it
    shares with :func:`english_grammar` are words, noun phrases and the agreement of subject and verb.
    """
    return Grammar(rules() | _text_rules(), min_words=6, max_words=16)


# Nouns: singular and plural.
_PEOPLE = (
    ("captain", "captains"),
    ("doctor", "doctors"),
    ("teacher", "teachers"),
    ("farmer", "farmers"),
    ("sister", "sisters"),
    ("brother", "brothers"),
    ("woman", "women"),
    ("child", "children"),
    ("king", "kings"),
    ("girl", "girls"),
)
_ANIMALS = (("horse", "horses"), ("dog", "dogs"), ("bird", "birds"), ("fox", "foxes"), ("sheep", "sheep"))
_OBJECTS = {
    "paper": (("letter", "letters"), ("book", "books"), ("story", "stories")),
    "food": (("apple", "apples"), ("potato", "potatoes"), ("orange", "oranges")),
    "opening": (("door", "doors"), ("window", "windows"), ("gate", "gates"), ("box", "boxes")),
    "load": (("basket", "baskets"), ("lamp", "lamps"), ("stone", "stones")),
    "clothes": (("coat", "coats"), ("hat", "hats"), ("ring", "rings")),
}

# Verbs: third person singular, base form, the rule of their object.
_PERSON_VERBS = (
    ("writes", "write", "paper"),
    ("remembers", "remember", "paper"),
    ("eats", "eat", "food"),
    ("cooks", "cook", "food"),
    ("drinks", "drink", "drink"),
    ("opens", "open", "opening"),
    ("cleans", "clean", "opening"),
    ("carries", "carry", "load"),
    ("brings", "bring", "load"),
    ("washes", "wash", "clothes"),
    ("wears", "wear", "clothes"),
    ("buys", "buy", "goods"),
    ("sells", "sell", "goods"),
    ("helps", "help", "someone"),
    ("visits", "visit", "someone"),
    ("follows", "follow", "being"),
)
_REST_VERBS = (("sings", "sing"), ("works", "work"), ("waits", "wait"), ("talks", "talk"))
_ANIMAL_VERBS = (("sleeps", "sleep"), ("runs", "run"), ("plays", "play"), ("stands", "stand"))

_MANNER = ("slowly", "quickly", "quietly", "carefully")
_FREQUENCY = ("always", "often", "never", "sometimes")
_PERSON_ADJECTIVES = ("old", "young", "brave", "kind", "clever")
_MOODS = ("hungry", "tired", "happy", "angry")
_ANIMAL_ADJECTIVES = ("white", "small", "beautiful", "old")
_THING_ADJECTIVES = ("red", "green", "white", "heavy", "small", "broken", "beautiful")
_NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "twenty")
_DRINKS = ("tea", "water", "milk", "coffee", "wine")
_INSIDE = ("garden", "kitchen", "forest", "village", "church", "market")
_NEAR = ("river", "bridge", "fire", "mountain", "harbor")
_DAYS = ("monday", "tuesday", "thursday", "friday", "saturday", "sunday")
_SEASONS = ("winter", "summer")

Rules = dict[str, tuple[Expansion, ...]]


def rules() -> Rules:
    """The production rules: rule name -> weighted expansions."""
    return _lexicon() | _noun_phrases() | _clauses("sg") | _clauses("pl") | _sentences()


def _equal(*texts: str) -> tuple[tuple[float, str], ...]:
    return tuple((1.0, text) for text in texts)


def _lexicon() -> Rules:
    nouns = {"person": _PEOPLE, "animal": _ANIMALS, **_OBJECTS}
    lexicon = {f"{name}.sg": _equal(*(singular for singular, _ in pairs)) for name, pairs in nouns.items()}
    lexicon |= {f"{name}.pl": _equal(*(plural for _, plural in pairs)) for name, pairs in nouns.items()}
    return lexicon | {
        "manner": _equal(*_MANNER),
        "frequency": _equal(*_FREQUENCY),
        "person.adjective": _equal(*_PERSON_ADJECTIVES),
        "animal.adjective": _equal(*_ANIMAL_ADJECTIVES),
        "mood": _equal(*_MOODS),
        "thing.adjective": _equal(*_THING_ADJECTIVES),
        "number": _equal(*_NUMBERS),
        "day": _equal(*_DAYS),
        "season": _equal(*_SEASONS),
        "inside": _equal(*_INSIDE),
        "near": _equal(*_NEAR),
        "drink": (*_equal(*(f"the {drink}" for drink in _DRINKS)), *_equal(*(f"some {drink}" for drink in _DRINKS))),
    }


def _noun_phrases() -> Rules:
    rules: Rules = {
        "subject.sg": (
            (3, "the <person.sg>"),
            (3, "the <person.adjective> <person.sg>"),
            (2, "my <person.sg>"),
            (1, "<owner> <person.sg>"),
            (1, "he"),
            (1, "she"),
        ),
        "subject.pl": (
            (3, "the <person.pl>"),
            (2, "<number> <person.pl>"),
            (2, "the <person.adjective> <person.pl>"),
            (1, "my <person.pl>"),
            (1, "they"),
            (1, "we"),
        ),
        "owner": _equal("the captain's", "the farmer's", "the teacher's", "the king's"),
        "someone": ((2, "the <person.sg>"), (2, "the <person.pl>"), (1, "his <person.sg>"), (1, "her <person.sg>")),
        "being": ((1, "<someone>"), (1, "the <animal.sg>"), (1, "<number> <animal.pl>")),
        "goods": ((1, "<food>"), (1, "<load>"), (1, "<clothes>"), (0.5, "<number> <animal.pl>")),
    }
    for name in _OBJECTS:
        rules[name] = (
            (2, f"the <{name}.sg>"),
            (1, f"a <thing.adjective> <{name}.sg>"),
            (2, f"the <thing.adjective> <{name}.sg>"),
            (2, f"<number> <{name}.pl>"),
            (1, f"<number> <thing.adjective> <{name}.pl>"),
            (1, f"the <{name}.pl>"),
        )
    return rules


def _clauses(number: str) -> Rules:
    """Clauses whose subject is singular (``sg``) or plural (``pl``); a ``located`` clause says where it happens."""
    form = 0 if number == "sg" else 1
    do_not, are = ("doesn't", "is") if number == "sg" else ("don't", "are")
    return {
        f"act.{number}": _equal(*(f"{verb[form]} <{verb[2]}>" for verb in _PERSON_VERBS)),
        f"rest.{number}": _equal(*(verb[form] for verb in _REST_VERBS)),
        f"animal.verb.{number}": _equal(*(verb[form] for verb in _ANIMAL_VERBS)),
        f"clause.{number}": (
            (6, f"<subject.{number}> <act.{number}>"),
            (2, f"<subject.{number}> <frequency> <act.{number}>"),
            (2, f"<subject.{number}> {do_not} <act.pl>"),
            (2, f"<subject.{number}> will <act.pl>"),
            (1, f"<subject.{number}> {are} <person.adjective> and <mood>"),
        ),
        f"located.{number}": (
            (3, f"<subject.{number}> <rest.{number}> <manner> <where>"),
            (1, f"<subject.{number}> will <rest.pl> <where>"),
            (2, f"<animals.{number}> <animal.verb.{number}> <where>"),
            (1, f"<animals.{number}> <frequency> <animal.verb.{number}> <where>"),
        ),
    }


def _phrase_rules() -> Rules:
    things = [f"<{name}.pl>" for name in (*_OBJECTS, "animal")]
    return {
        "colour": _equal("red", "green", "white"),
        "quality": _equal("heavy", "small", "broken", "beautiful"),
        "things": tuple((float(len(_lexicon()[name[1:-1]])), name) for name in things),  # each noun equally often
        "phrase": (
            (3, "<number> <quality> <colour> <things>"),
            (1, "<number> <colour> <things>"),
            (1, "<number> <quality> <things>"),
        ),
    }


def _text_rules() -> Rules:
    verbs = {number: [verb[form] for verb in _PERSON_VERBS] for form, number in enumerate(("sg", "pl"))}
    return {
        "thing": _equal("<drink>", "<someone>", "<being>", *(f"<{name}>" for name in _OBJECTS)),
        **{f"act.{number}": _equal(*(f"{verb} <thing>" for verb in verbs[number])) for number in verbs},
        "sentence": (
            (3, "<located> and <clause>"),
            (3, "<clause> and <clause>"),
            (2, "does <subject.sg> <act.pl> <when>"),
            (2, "do <subject.pl> <act.pl> <where>"),
            (2, "<when> <clause> <where>"),
            (1, "<clause> because <located>"),
        ),
    }


def _sentences() -> Rules:
    return {
        "animals.sg": ((2, "the <animal.sg>"), (1, "the <animal.adjective> <animal.sg>"), (1, "my <animal.sg>")),
        "animals.pl": ((1, "the <animal.pl>"), (2, "<number> <animal.pl>")),
        "where": ((3, "in the <inside>"), (3, "near the <near>"), (1, "at home")),
        "when": (
            (2, "in the morning"),
            (1, "in the evening"),
            (2, "on <day>"),
            (1, "every day"),
            (1, "in the <season>"),
            (1, "before dinner"),
            (1, "at <number> o'clock"),
        ),
        "clause": ((4, "<clause.sg>"), (3, "<clause.pl>")),
        "located": (
            (3, "<located.sg>"),
            (3, "<located.pl>"),
            (1, "there are <number> <animal.pl> <where>"),
            (1, "there is a <thing.adjective> <load.sg> <where>"),
        ),
        "sentence": (
            (4, "<clause>"),
            (3, "<clause> <when>"),
            (1, "<when> <clause>"),
            (2, "<clause> <where>"),
            (2, "<located>"),
            (1, "<located> <when>"),
            (1, "<when> <located>"),
        ),
    }
