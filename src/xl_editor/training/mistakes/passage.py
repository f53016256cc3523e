"""A text as words with what stands around them, and what a word can be: the ground that `mistakes` works on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from xl_editor.training.mistakes.confusions import COMMON, TITLES

OPENING = "\"'“‘([{«—–-*_"
CLOSING = "\"'”’)]}»,.;:!?…—–-*_%"
QUOTES = "\"'“‘("
SENTENCE_ENDS = ".!?…"


@dataclass(frozen=True, slots=True)
class Word:
    """What stands between two spaces: `before` and `after` are the marks around the word itself."""

    before: str
    core: str
    after: str
    lower: str  # of the core, with a straight apostrophe: what the tables are asked for
    plain: bool  # letters, maybe with an apostrophe or hyphens within; neither an acronym nor camelCase
    capital: bool  # begins with a capital letter
    ends_sentence: bool

    @property
    def bare(self) -> bool:
        """No mark on either side."""
        return not self.before and not self.after

    @property
    def owns(self) -> bool:
        """Maybe a plural with an apostrophe: the dogs' tails."""
        return self.after[:1] in ("'", "’")

    def with_core(self, core: str) -> str:
        return self.before + core + self.after


@lru_cache(maxsize=1 << 16)
def read_word(chunk: str) -> Word:
    core = chunk.lstrip(OPENING)
    before = chunk[: len(chunk) - len(core)]
    core = core.rstrip(CLOSING)
    after = chunk[len(before) + len(core) :]
    lower = core.lower().replace("’", "'")
    letters = lower.replace("'", "").replace("-", "")
    rest = core[1:]
    shape = letters.isalpha() and letters.isascii() and (rest == rest.lower() or lower.startswith("i'"))
    is_title = (lower + ".") in TITLES or (len(core) == 1 and core != "I") or "." in core
    ends = any(mark in after for mark in SENTENCE_ENDS) and not (after == "." and is_title)
    return Word(before, core, after, lower, shape, core[:1].isupper(), ends)


class Passage:
    """The words of a text, the white space between them, and which of them may be made wrong."""

    def __init__(self, text: str) -> None:
        pieces = re.split(r"(\s+)", text)
        self.words = [read_word(chunk) for chunk in pieces[::2]]
        self.chunks = pieces[::2]
        self.gaps = pieces[1::2]  # the white space after each word but the last
        self.apostrophe = "’" if "’" in text else "'"
        self.has_capitals = any(word.capital for word in self.words)
        self.begins: list[bool] = []  # a sentence, or a quotation
        self.free: list[bool] = []  # an ordinary word: neither a name nor code, a number or an address
        begins = True
        for word in self.words:
            self.begins.append(begins or (word.capital and bool(word.before) and word.before[-1] in QUOTES))
            ordinary = not word.capital or word.lower[:2] in ("i", "i'") or (self.begins[-1] and is_known(word.lower))
            self.free.append(word.plain and ordinary)
            begins = word.ends_sentence or (begins and not word.core)

    def __len__(self) -> int:
        return len(self.words)

    def lower(self, at: int) -> str:
        """The word there as the tables have it, or nothing beyond the ends."""
        return self.words[at].lower if 0 <= at < len(self.words) else ""

    def sentence_of(self, at: int) -> list[tuple[int, Word]]:
        """The words of the sentence that this one is in, with where they stand."""
        first = at
        while first and not self.begins[first]:
            first -= 1
        last = at
        while last + 1 < len(self) and not self.words[last].ends_sentence:
            last += 1
        return list(enumerate(self.words))[first : last + 1]

    def joined(self, at: int) -> bool:
        """Nothing but one space stands between this word and the next one, which is an ordinary word as well."""
        return (
            at + 1 < len(self.words)
            and not self.words[at].after
            and not self.words[at + 1].before
            and self.gaps[at] == " "
            and self.free[at]
            and self.free[at + 1]
        )

    def follows(self, at: int) -> str:
        """The word before, as the tables have it, if no mark and no sentence end stands between."""
        if at == 0 or self.words[at].before or self.words[at - 1].after:
            return ""
        return self.words[at - 1].lower

    def leads(self, at: int) -> str:
        """The word after, as the tables have it, if no mark stands between."""
        if at + 1 >= len(self.words) or self.words[at].after or self.words[at + 1].before:
            return ""
        return self.words[at + 1].lower

    def spelt(self, at: int, wrong: str) -> str:
        """A wrong word, with the capital letter and the kind of apostrophe of the word that stands there."""
        if self.words[at].capital and (self.words[at].lower[:2] not in ("i", "i'") or self.begins[at]):
            wrong = wrong[:1].upper() + wrong[1:]
        elif wrong == "i" and self.has_capitals:
            wrong = "I"
        return wrong.replace("'", self.apostrophe)

    def lowered(self, at: int) -> str:
        """The chunk there as it would stand within a sentence."""
        word = self.words[at]
        small = self.free[at] and word.capital and word.lower[:2] not in ("i", "i'")
        return word.before + word.core[0].lower() + word.core[1:] + word.after if small else self.chunks[at]

    def raised(self, at: int) -> str:
        """The chunk there as it would stand at the start of a sentence."""
        word = self.words[at]
        return word.before + word.core[:1].upper() + word.core[1:] + word.after


@dataclass(frozen=True, slots=True)
class Forms:
    """What a word can be, without its context."""

    parts: tuple[str, ...]  # of speech, in the Universal Dependencies' names
    verb: dict[str, str]  # the forms of the verb by Penn Treebank tag, empty if it is none
    verb_tags: tuple[str, ...]  # those tags whose form this is
    singular: str  # of the noun, "" if it is none
    plural: str
    adjective: dict[str, str]

    def only(self, part: str) -> bool:
        return self.parts == (part,)


_NO_FORMS = Forms(parts=(), verb={}, verb_tags=(), singular="", plural="", adjective={})


@lru_cache(maxsize=1 << 16)
def forms(word: str) -> Forms:
    from lemminflect import getAllInflections, getAllLemmas

    lemmas = getAllLemmas(word)
    if not lemmas:
        return _NO_FORMS

    def inflected(part: str) -> dict[str, str]:
        if part not in lemmas:
            return {}
        return {tag: spelt[0] for tag, spelt in getAllInflections(lemmas[part][0], upos=part).items() if spelt}

    verb = inflected("VERB")
    if "VBD" in verb:
        verb.setdefault("VBN", verb["VBD"])
    noun = inflected("NOUN")
    return Forms(
        parts=tuple(sorted(lemmas)),
        verb=verb,
        verb_tags=tuple(tag for tag, spelt in sorted(verb.items()) if spelt == word),
        singular=noun.get("NN", ""),
        plural=noun.get("NNS", ""),
        adjective=inflected("ADJ"),
    )


@lru_cache(maxsize=1 << 16)
def is_known(word: str) -> bool:
    """Whether this is a word of English: what a misspelling should not become, and what a name is not."""
    if word.endswith("'s"):
        return is_known(word[:-2])
    if "-" in word:
        return all(is_known(part) for part in word.split("-"))
    from lemminflect import getAllLemmas  # not `forms`: most of what is asked for here is no word, and not asked again

    return word in COMMON or "'" in word or bool(getAllLemmas(word))


def forms_of(word: Word) -> Forms:
    return forms(word.lower)
