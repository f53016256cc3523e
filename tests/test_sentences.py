"""Sentence boundaries: a table of what must and must not be one, and that no character is lost."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xl_editor.sentences import begins_sentence, split_sentences

# "|" marks the boundaries.
SENTENCES = [
    "The food was good.| I liked it!| Would you?| Yes",
    "the food was good.| would come again!| i loved it",
    "the food was good .| the staff was n't !| really ? ?| yes",
    "He said `` it is good . ''| I agree .",
    "`` really ? '' he asked .| yes .",
    "Dr. Smith met Mr. and Mrs. J. R. Jones at St. Mary's.| They left.",
    "George W. Bush of the U.S. Treasury spoke at 5 p.m. on Monday.| It was late.",
    "It opens at 5 a.m.| The food arrives at 6 p.m.| We eat.",
    "Apple Inc. said on Monday.| Sales at Apple Inc.| The firm, i.e. Acme Corp., e.g. in Ohio, rose.",
    "It cost 3.5 dollars, or $.50 a cup.| See yelp.com for more.",
    "See No. 5 and Fig. 3 of Jan. 3.| Did you like it?| No.| We left.",
    "Well... maybe not.| I waited...| Then I left.| So… what?",
    '"Really?" he asked.| "Yes!"| She smiled.| (Not much.)| OK.',
    "“It is good.”| He left.| (So did I.)| The end.",
    "Yahoo! Inc. rose.| What a day!| wow",
    "1. Soup.| 2. Salad was good.",
    "1. Buy milk\n|2. Buy bread\n|(3) Eat it",
    "Bring:\n|- bread\n|  * wine - a lot\n|• 5 eggs",
    "It cost me\n20 dollars -\nnot more",
    "One line\nof a wrapped paragraph.\n\n|A title\n\n|Text",
    "今日は天気がいい。|明日は？|「はい！」|終わり",
    "مرحبا بالعالم.| كيف حالك؟| جيد",
    "यह अच्छा है।| वह भी।",
    "Is it better than Madrid's.| Whereas Ireland is fine.",
    "A UK-U.S. settlement was made.| In 2012.| 5 people came.",
    "good!!!| bad?!| no.",
]


@pytest.mark.parametrize("marked", SENTENCES)
def test_boundaries(marked: str) -> None:
    text = marked.replace("|", "")
    assert [text[a:b] for a, b in split_sentences(text)] == [part.strip() for part in marked.split("|")]


@pytest.mark.parametrize("text", ["", " ", "\n\n\n", "\u3000\t"])
def test_white_space_has_no_sentence(text: str) -> None:
    assert split_sentences(text) == []


@given(st.text(alphabet=st.sampled_from("aZ5.!?…\"')( \n\f。।؟,-'`\x00é")) | st.text(st.characters()))
def test_every_character_is_in_exactly_one_trimmed_span(text: str) -> None:
    spans = split_sentences(text)
    covered = [i for start, end in spans for i in range(start, end)]
    assert covered == sorted(set(covered))
    assert all(text[i].isspace() for i in set(range(len(text))) - set(covered))
    assert all(text[start:end] == text[start:end].strip() != "" for start, end in spans)


@pytest.mark.parametrize(
    ("before", "begins"),
    [
        ("", True),
        ("  ", True),
        ("Good. ", True),
        ("good ! ", True),
        ('"Good." ', True),
        ('Good. "', True),
        ("A title\n\n", True),
        ("Was it No. ", True),
        ("Good, ", False),
        ("Dr. ", False),
        ('He said "Dr. ', False),
        ("the U.S. ", False),
        ("well ... ", False),
        ("A line\n", False),
    ],
)
def test_begins_sentence(before: str, begins: bool) -> None:
    assert begins_sentence(before) is begins


def test_an_abbreviation_ends_a_sentence_before_a_word_that_usually_begins_one() -> None:
    assert begins_sentence("at Apple Inc. ", "The")
    assert not begins_sentence("at Apple Inc. ", "Treasury")


@pytest.mark.parametrize("unit", [".", "a.", "J. ", "! ", "\n", " ", "'", ".\n ", "a", " )"])
def test_time_is_linear_in_the_length(unit: str) -> None:
    text = unit * (100_000 // len(unit))
    started = time.process_time()
    split_sentences(text)
    split_sentences(" " * 50_000 + text[:50_000])
    assert time.process_time() - started < 3  # it takes a tenth of that; a quadratic rule would take minutes
