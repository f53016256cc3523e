"""Made errors: what each kind makes, that they stay where they may be, and come at their rates."""

import hashlib
import os
import subprocess
import sys
from functools import lru_cache
from random import Random

import pytest

from xl_editor.training import errors
from xl_editor.training.errors import DEFAULT_RATES, KINDS, ErrorMaker, MadeError, Spoiled
from xl_editor.training.mistakes import MISTAKES

SEEDS = 400
TEXTS = (
    "When the government raised its taxes last year, many companies decided to move their offices to another city. "
    "That was not what the minister had expected, and she said so on Monday.",
    "I don't know whether it's going to rain, but we should take an umbrella.",
    "Put the bread in the oven and bake it for forty minutes. Let it cool for a while before you cut it! Why hurry?",
    "“The program’s window doesn’t open,” he wrote, “and I can’t find a better one.”",
    "we went there together because the children were interested in old trains",
    "Researchers have shown that well-known methods are often better than the newest ones; nobody knows why.",
)

# For each kind, a text and what may become of it. Of spelling, where there are many ways, some of them.
EXAMPLES: dict[str, tuple[str, set[str]]] = {
    "misspelling": ("I believe him.", {"I beleive him.", "I beleave him."}),
    "typing_slip": ("The garden", {"The agrden", "The gardne", "The garde", "The gardden", "The garfen", "Teh garden"}),
    "spelt_by_sound": ("Very different.", {"Very diferent.", "Very differant."}),
    "joined_words": ("We see a lot.", {"We see alot."}),
    "split_word": ("They work together.", {"They work to gether."}),
    "hyphen": ("She is a well-known writer.", {"She is a well known writer.", "She is a wellknown writer."}),
    "noun_number": (
        "He has many books and some advice for a friend.",
        {
            "He has many book and some advice for a friend.",
            "He has many books and some advices for a friend.",
            "He has many books and some advice for a friends.",
        },
    ),
    "verb_form": (
        "I look forward to hearing that you can come.",
        {
            "I look forward to hear that you can come.",
            "I look forward to hearing that you can comes.",
            "I look forward to hearing that you can came.",
            "I look forward to hearing that you can coming.",
        },
    ),
    "agreement": ("He walks and they are late.", {"He walk and they are late.", "He walks and they is late."}),
    "tense": ("He said that she went home.", {"He says that she went home.", "He said that she goes home."}),
    "missing_auxiliary": (
        "She is reading and he can swim.",
        {"She reading and he can swim.", "She is reading and he swim."},
    ),
    "wrong_auxiliary": ("She has walked home.", {"She is walked home."}),
    "superfluous_auxiliary": (
        "I agree that he went home.",
        {"I am agree that he went home.", "I agree that he did went home.", "I agree that he was went home."},
    ),
    "adjective_adverb": (
        "She answered quickly with a careful smile.",
        {"She answered quick with a careful smile.", "She answered quickly with a carefully smile."},
    ),
    "comparison": (
        "Ours is bigger than it was.",
        {
            "Ours is more bigger than it was.",
            "Ours is more big than it was.",
            "Ours is big than it was.",
            "Ours is biggest than it was.",
        },
    ),
    "missing_article": ("The dog saw a cat.", {"Dog saw a cat.", "The dog saw cat."}),
    "superfluous_article": (
        "He talked about happiness in London.",
        {
            "He talked about the happiness in London.",
            "He talked about a happiness in London.",
            "He talked about happiness in the London.",
        },
    ),
    "wrong_article": ("The dogs bark.", {"A dogs bark."}),
    "a_or_an": ("It is an old house in a wood.", {"It is a old house in a wood.", "It is an old house in an wood."}),
    "determiner": ("These houses are old.", {"This houses are old.", "That houses are old."}),
    "missing_preposition": ("She listened to the radio.", {"She listened the radio."}),
    "superfluous_preposition": (
        "They discussed the plan and went home.",
        {
            "They discussed about the plan and went home.",
            "They discussed the plan and went to home.",
            "They discussed the plan and went at home.",
        },
    ),
    "wrong_preposition": ("They met at night.", {"They met in night.", "They met on night.", "They met to night."}),
    "wrong_pronoun": ("He saw them.", {"Him saw them.", "His saw them.", "He saw they.", "He saw their."}),
    "missing_pronoun": ("I think it is late.", {"I think is late."}),
    "confused_word": (
        "It’s better then.",
        {"Its better then.", "It’s better than."},
    ),
    "confused_phrase": ("You should have asked.", {"You should of asked."}),
    "missing_word": ("She is older than him.", {"She is older him."}),
    "doubled_word": ("Go to the", {"Go go to the", "Go to to the", "Go to the the"}),
    "superfluous_word": (
        "Dogs barked.",
        {f"Dogs {word} barked." for word in ("of", "to", "in", "for", "on", "with", "at", "by")},
    ),
    "word_order": ("What is it? He always knows.", {"What it is? He always knows.", "What is it? He knows always."}),
    "missing_comma": ("However, he left.", {"However he left."}),
    "superfluous_comma": ("I think that the man left.", {"I think, that the man left.", "I think that, the man left."}),
    "comma_splice": ("It rained. We stayed.", {"It rained, we stayed."}),
    "joined_sentences": ("It rained. We stayed.", {"It rained we stayed.", "It rained We stayed."}),
    "missing_final_mark": ("Where are you?", {"Where are you"}),
    "wrong_final_mark": (
        "Who? Me. Why not.",
        {"Who. Me. Why not.", "Who? Me? Why not.", "Who? Me. Why not?", "Who? Me. Why not,"},
    ),
    "missing_apostrophe": (
        "I don’t see the child’s toy.",
        {"I dont see the child’s toy.", "I don’t see the childs toy."},
    ),
    "superfluous_apostrophe": ("Its colours faded.", {"It's colours faded.", "Its colour's faded."}),
    "small_letter": (
        "On Monday I met Anna.",
        {f"{text} Anna." for text in ("on Monday I met", "On monday I met", "On Monday i met")}
        | {"On Monday I met anna."},
    ),
    "capital_letter": ("He read the newspaper.", {"He read the Newspaper."}),
}
WITH_MANY_RESULTS = ("misspelling", "typing_slip", "spelt_by_sound", "joined_words")


@lru_cache(maxsize=1)
def maker() -> ErrorMaker:
    return ErrorMaker()


def results(text: str, kind: str) -> set[str]:
    spoiled = (maker().spoil_once(text, kind, Random(seed)) for seed in range(SEEDS))
    return {each.text for each in spoiled if each}


def explains(right: list[str], wrong: list[str], made: tuple[MadeError, ...]) -> bool:
    """Whether the words of the wrong text are those of the right one but for the errors, in their order."""
    if not made:
        return right == wrong
    was, now = made[0].right.split(), made[0].wrong.split()
    for at in range(min(len(right), len(wrong)) + 1):
        here = right[at : at + len(was)] == was and wrong[at : at + len(now)] == now
        if here and explains(right[at + len(was) :], wrong[at + len(now) :], made[1:]):
            return True
        if right[at : at + 1] != wrong[at : at + 1]:
            return False
    return False


def many_spoiled(**settings: float) -> list[tuple[str, Spoiled]]:
    making = ErrorMaker(**settings)
    return [(text, making.spoil(text, Random(seed))) for text in TEXTS for seed in range(SEEDS)]


def test_every_kind_has_a_rate_and_an_example():
    assert set(KINDS) == set(MISTAKES) == set(DEFAULT_RATES) == set(EXAMPLES)
    assert all(rate > 0 for rate in DEFAULT_RATES.values())


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_kind_makes(kind):
    text, expected = EXAMPLES[kind]
    made = results(text, kind)
    assert expected <= made
    assert kind in WITH_MANY_RESULTS or made <= expected


@pytest.mark.parametrize("kind", KINDS)
def test_one_error_of_a_kind_is_one_error_of_this_kind(kind):
    for text in (*TEXTS, EXAMPLES[kind][0]):
        for seed in range(20):
            spoiled = maker().spoil_once(text, kind, Random(seed))
            if spoiled:
                assert [error.kind for error in spoiled.errors] == [kind]
                assert spoiled.text != text
                assert explains(text.split(), spoiled.text.split(), spoiled.errors)


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_without_a_place_for_a_kind_is_left_alone(kind):
    for text in ("", "42", "https://example.org/a_b 3.14 NASA x_y"):
        assert maker().spoil_once(text, kind, Random(0)) is None


def test_the_text_differs_exactly_where_errors_are_claimed():
    several = 0
    for text, spoiled in many_spoiled(clean_share=0, errors_per_word=0.3):
        assert explains(text.split(), spoiled.text.split(), spoiled.errors)
        assert all(error.right != error.wrong for error in spoiled.errors)
        assert (spoiled.text == text) == (not spoiled.errors)
        several += len(spoiled.errors) > 2
    assert several > SEEDS


def test_white_space_stays_natural():
    for _, spoiled in many_spoiled(clean_share=0, errors_per_word=0.3):
        assert "  " not in spoiled.text
        assert spoiled.text == spoiled.text.strip()
        assert not any(f" {mark}" in spoiled.text for mark in ",.;?!")


def test_what_is_not_ordinary_language_is_never_touched():
    kept = (
        "https://example.org/a_b",
        "me@example.org",
        "3,141",
        "camelCase",
        "x_y",
        "and/or",
        "NASA",
        "GPT-2",
        "Zbigniew",
    )
    text = "When {} and the {} were sent to {}, he {} said that {} is {} in a house, but {} went to {} on {}.".format(
        *kept
    )
    making = ErrorMaker(
        {kind: rate for kind, rate in DEFAULT_RATES.items() if kind != "small_letter"}, errors_per_word=0.3
    )
    for seed in range(2 * SEEDS):
        spoiled = making.spoil(text, Random(seed)).text
        assert all(token in spoiled for token in kept), spoiled


def test_a_name_may_only_lose_its_capital_or_get_an_article():
    touching = {
        kind for kind in KINDS if any("Zbigniew" not in each for each in results("He lives with Zbigniew.", kind))
    }
    assert touching == {"small_letter"}
    assert "He lives with the Zbigniew." in results("He lives with Zbigniew.", "superfluous_article")
    # At the start of a sentence, a word that no dictionary has is taken for a name.
    assert not results("Zbigniew left.", "typing_slip") & {
        f"{name} left." for name in ("Zbigniwe", "Zbignew", "bZigniew")
    }


def test_a_text_in_small_letters_gets_no_capitals():
    text = "we went there together because i like old trains"
    for seed in range(SEEDS):
        assert (spoiled := maker().spoil(text, Random(seed)).text) == spoiled.lower()


def test_an_apostrophe_is_of_the_text_s_own_kind():
    assert results("It’s their’s, not hers.", "superfluous_apostrophe") == {"It’s their’s, not her’s."}


def test_an_apostrophe_that_owns_keeps_its_noun():
    for kind in ("superfluous_apostrophe", "noun_number", "missing_apostrophe"):
        assert not results("Many dogs' tails", kind) - {"Many dogs' tail's", "Many dogs' tail"}


def test_misspellings_are_not_other_words():
    for kind in ("misspelling", "typing_slip", "spelt_by_sound"):
        assert results("from there", kind).isdisjoint({"form there", "from three", "from here"})


def test_errors_are_not_beside_each_other_except_misspellings():
    making = ErrorMaker({"wrong_preposition": 1, "missing_article": 1}, clean_share=0, errors_per_word=1)
    text = "in the house of a man at the end"
    made = [making.spoil(text, Random(seed)) for seed in range(SEEDS)]
    assert max(len(spoiled.errors) for spoiled in made) == 3  # of six words that could be wrong, two and two neighbours
    beside = ErrorMaker({"typing_slip": 1}, clean_share=0, errors_per_word=1).spoil("green garden", Random(1))
    assert len(beside.errors) == 2


def test_the_share_of_clean_texts_and_the_rate_of_errors():
    words = " ".join(TEXTS)  # long enough that an error is always wanted
    making, n = ErrorMaker(clean_share=0.4, errors_per_word=0.1), 2000
    made = [len(making.spoil(words, Random(seed)).errors) for seed in range(n)]
    clean = sum(count == 0 for count in made) / n
    assert 0.4 - 0.05 < clean < 0.4 + 0.1
    assert 0.85 < sum(made) / (n * 0.6 * 0.1 * len(words.split())) < 1.05  # a few find no place
    assert all(not spoiled.errors for _, spoiled in many_spoiled(clean_share=1))


def test_rates_decide_which_kinds_are_made():
    making = ErrorMaker({"missing_comma": 3, "a_or_an": 1, "tense": 0}, clean_share=0, errors_per_word=0.05)
    text = "First, he took an apple, a pear, and an egg, put a lid on it, and, as a joke, left an hour later."
    kinds = [error.kind for seed in range(3000) for error in making.spoil(text, Random(seed)).errors]
    assert set(kinds) == {"missing_comma", "a_or_an"}
    assert 2.2 < kinds.count("missing_comma") / kinds.count("a_or_an") < 3.8


def test_learner_like_shares():
    """About 63 % replaced, 25 % missing, 12 % superfluous."""
    kinds = [error.kind for _, spoiled in many_spoiled() for error in spoiled.errors]
    missing = sum(kind.startswith("missing") for kind in kinds) / len(kinds)
    superfluous = sum(kind.startswith(("superfluous", "doubled")) for kind in kinds) / len(kinds)
    assert 0.15 < missing < 0.35
    assert 0.06 < superfluous < 0.2


def test_the_same_in_every_process():
    program = (
        "import hashlib, sys; from random import Random; from xl_editor.training.errors import ErrorMaker; "
        "making = ErrorMaker(clean_share=0, errors_per_word=0.3); "
        f"texts = {TEXTS!r}; "
        "made = [making.spoil(text, Random(seed)) for text in texts for seed in range(50)]; "
        "print(hashlib.sha256(repr(made).encode()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        for seed in ("0", "1", "4242")
    }
    making = ErrorMaker(clean_share=0, errors_per_word=0.3)
    here = [making.spoil(text, Random(seed)) for text in TEXTS for seed in range(50)]
    assert digests == {hashlib.sha256(repr(here).encode()).hexdigest()}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rates": {"typo": 1.0}}, "no kind of error named 'typo'"),
        ({"rates": {"tense": -1.0}}, "rate of tense must be finite and not negative"),
        ({"rates": {"tense": float("nan")}}, "rate of tense must be finite and not negative"),
        ({"clean_share": 1.5}, "clean_share must be between 0 and 1"),
        ({"errors_per_word": -0.1}, "errors_per_word must be between 0 and 1"),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(arguments, message):
    with pytest.raises(ValueError, match=message):
        ErrorMaker(**arguments)


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="no kind of error named 'typo'"):
        maker().spoil_once("A text.", "typo", Random(0))


def test_a_missing_package_is_named_with_what_installs_it(monkeypatch):
    monkeypatch.setattr(errors, "find_spec", lambda name: None if name == "lemminflect" else object())
    with pytest.raises(ModuleNotFoundError, match=r"lemminflect.*pip install 'xl-editor\[train\]'"):
        ErrorMaker()
