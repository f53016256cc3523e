"""Clean English is made wrong, as people get it wrong: what the correction objective learns from.

A kind of error is chosen by its rate among those that the text offers a place for, then one of its places. What a kind
makes of a place is in `mistakes`. Everything is a function of the text and the random generator, in every process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from itertools import accumulate
from math import inf
from random import Random

from xl_editor.errors import RequestError
from xl_editor.training.mistakes import MISTAKES, Change, Passage, read_word

# How often each kind is made, relative to the others that the text offers a place for. Chosen so that the shares come
# near those of learner corpora: 63 % of the errors replaced, 25 % missing, 12 % superfluous.
DEFAULT_RATES: dict[str, float] = {
    "misspelling": 5.0,
    "typing_slip": 3.5,
    "spelt_by_sound": 2.5,
    "joined_words": 3.0,
    "split_word": 1.5,
    "hyphen": 2.0,
    "noun_number": 7.0,
    "verb_form": 6.0,
    "agreement": 4.0,
    "tense": 12.0,
    "missing_auxiliary": 2.0,
    "wrong_auxiliary": 1.5,
    "superfluous_auxiliary": 3.0,
    "adjective_adverb": 3.0,
    "comparison": 2.0,
    "missing_article": 6.5,
    "superfluous_article": 6.0,
    "wrong_article": 2.0,
    "a_or_an": 1.5,
    "determiner": 3.0,
    "missing_preposition": 3.0,
    "superfluous_preposition": 6.0,
    "wrong_preposition": 6.5,
    "wrong_pronoun": 2.5,
    "missing_pronoun": 1.5,
    "confused_word": 7.0,
    "confused_phrase": 3.0,
    "missing_word": 2.0,
    "doubled_word": 1.5,
    "superfluous_word": 3.0,
    "word_order": 2.5,
    "missing_comma": 8.0,
    "superfluous_comma": 6.0,
    "comma_splice": 4.0,
    "joined_sentences": 1.5,
    "missing_final_mark": 1.0,
    "wrong_final_mark": 2.0,
    "missing_apostrophe": 4.0,
    "superfluous_apostrophe": 1.5,
    "small_letter": 2.5,
    "capital_letter": 1.5,
}
KINDS = tuple(DEFAULT_RATES)

SPELLING = frozenset(["misspelling", "typing_slip", "spelt_by_sound"])  # may stand beside another error
MAX_TRIES = 12  # places of a kind that are tried before another kind is chosen
ROUNDS = 8  # a place that is declined by chance may be taken the next time, where this kind is asked for
MAX_KINDS = 6  # kinds that are tried before an error is given up


@dataclass(frozen=True)
class MadeError:
    kind: str
    right: str  # what stood there; nothing, if the error is a word too many
    wrong: str  # what stands there now; nothing, if the error is a missing word


@dataclass(frozen=True)
class Spoiled:
    text: str
    errors: tuple[MadeError, ...]  # in the order of the text


class ErrorMaker:
    """Makes errors at these rates.

    Args:
        rates: of each kind, relative to the other kinds; a kind that is not named is not made.
        clean_share: of the texts, how many are left as they are, whatever their length.
        errors_per_word: in the others, on average. Some writers make many errors, some few: a text's own rate is
            anything between none and twice as many. So short texts are often right as well.

    """

    def __init__(
        self,
        rates: Mapping[str, float] = DEFAULT_RATES,
        *,
        clean_share: float = 0.3,
        errors_per_word: float = 0.08,
    ) -> None:
        for kind, rate in rates.items():
            if kind not in MISTAKES:
                raise RequestError(f"There is no kind of error named {kind!r}; there are {', '.join(KINDS)}.")
            if not 0 <= rate < inf:
                raise RequestError(f"The rate of {kind} must be finite and not negative, got {rate}.")
        for name, value in (("clean_share", clean_share), ("errors_per_word", errors_per_word)):
            if not 0 <= value <= 1:
                raise RequestError(f"{name} must be between 0 and 1, got {value}.")
        _require("codespell_lib", "lemminflect")
        self.rates = {kind: float(rates[kind]) for kind in KINDS if rates.get(kind)}  # in the order of KINDS
        self.clean_share = clean_share
        self.errors_per_word = errors_per_word

    def spoil(self, text: str, random: Random) -> Spoiled:
        """None to several errors."""
        if random.random() < self.clean_share:
            return Spoiled(text, ())
        passage = Passage(text)
        rate = self.errors_per_word * random.uniform(0, 2)
        wanted = sum(random.random() < rate for _ in passage.words)
        return _apply(passage, self._choose(passage, wanted, random)) if wanted else Spoiled(text, ())

    def spoil_once(self, text: str, kind: str, random: Random) -> Spoiled | None:
        """Exactly one error of this kind, or None where the text offers no place for it."""
        if kind not in MISTAKES:
            raise RequestError(f"There is no kind of error named {kind!r}; there are {', '.join(KINDS)}.")
        passage = Passage(text)
        places = _places(passage, kind)
        for _ in range(ROUNDS):
            change = _try_places(passage, kind, places.copy(), len(places), random)
            if change:
                return _apply(passage, {kind: [change]})
        return None

    def _choose(self, passage: Passage, wanted: int, random: Random) -> dict[str, list[Change]]:
        """Changes that leave each other alone."""
        kinds = list(self.rates)
        places: dict[str, list[int]] = {}
        free = _Free()
        chosen: dict[str, list[Change]] = {}
        tries = wanted * MAX_KINDS
        while wanted and tries and kinds:
            kind = random.choices(kinds, cum_weights=list(accumulate(map(self.rates.__getitem__, kinds))))[0]
            if kind not in places:
                places[kind] = _places(passage, kind)
            if not places[kind]:
                kinds.remove(kind)
                continue
            tries -= 1
            change = _try_places(passage, kind, places[kind], MAX_TRIES, random)
            if change and free.take(change, kind):
                chosen.setdefault(kind, []).append(change)
                wanted -= 1
        return chosen


class _Free:
    """Which words may still be made wrong."""

    def __init__(self) -> None:
        self.changed: set[int] = set()
        self.closed: set[int] = set()  # changed otherwise than in their spelling, or beside such a word

    def take(self, change: Change, kind: str) -> bool:
        """Whether the change is possible; then its words are taken, and so are their neighbours."""
        put_in = change.first == change.last
        own = range(change.first - put_in, change.last + put_in)
        if not self.changed.isdisjoint(own) or (kind not in SPELLING and not self.closed.isdisjoint(own)):
            return False
        self.changed.update(own)
        if kind not in SPELLING:
            self.closed.update(range(change.first - 1, change.last + 1))
        return True


@lru_cache(maxsize=1 << 16)
def _suitable_kinds(chunk: str) -> frozenset[str]:
    """The kinds that may befall this word in some context."""
    word = read_word(chunk)
    return frozenset(kind for kind in KINDS if MISTAKES[kind].suits(word))


def _places(passage: Passage, kind: str) -> list[int]:
    return [at for at, chunk in enumerate(passage.chunks) if kind in _suitable_kinds(chunk)]


def _try_places(passage: Passage, kind: str, places: list[int], tries: int, random: Random) -> Change | None:
    """What one of the places becomes, at random; those that are tried are taken out of the list."""
    make = MISTAKES[kind].make
    for _ in range(min(tries, len(places))):
        drawn = random.randrange(len(places))
        places[drawn], places[-1] = places[-1], places[drawn]
        at = places.pop()
        change = make(passage, at, random)
        if change and change.wrong != _right(passage, change):
            return change
    return None


def _right(passage: Passage, change: Change) -> str:
    return "".join(
        passage.chunks[at] + (passage.gaps[at] if at + 1 < change.last else "")
        for at in range(change.first, change.last)
    )


def _apply(passage: Passage, chosen: Mapping[str, list[Change]]) -> Spoiled:
    """The text with the changes made, in its order."""
    changes = sorted(((change, kind) for kind, of_kind in chosen.items() for change in of_kind), key=_position)
    text: list[str] = []
    errors = []
    done = 0
    for change, kind in changes:
        for at in range(done, change.first):
            text += passage.chunks[at], passage.gaps[at]
        right = _right(passage, change)
        errors.append(MadeError(kind, right, change.wrong))
        if change.wrong:
            text.append(change.wrong)
            if change.first == change.last:
                text.append(" ")
            elif change.last < len(passage):
                text.append(passage.gaps[change.last - 1])
        done = change.last
    for at in range(done, len(passage)):
        text += passage.chunks[at], *passage.gaps[at : at + 1]
    return Spoiled("".join(text), tuple(errors))


def _position(made: tuple[Change, str]) -> tuple[int, int]:
    return made[0].first, made[0].last


def _require(*packages: str) -> None:
    for package in packages:
        if not find_spec(package):
            raise ModuleNotFoundError(
                f"Making errors needs {package}; install it with: pip install 'xl-editor[train]'", name=package
            )
