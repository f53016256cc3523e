"""What the bundled models do: behaviour that a user would notice if it went."""

import pytest

from xl_editor import Editor
from xl_editor.errors import TextError
from xl_editor.models import bundled_models

pytestmark = pytest.mark.skipif("yelp" not in bundled_models(), reason="no model is bundled yet")


@pytest.fixture(scope="module")
def yelp():
    return Editor.from_pretrained("yelp")


@pytest.fixture(scope="module")
def news():
    return Editor.from_pretrained("news")


def test_those_that_answer_where_none_is_named_come_first():
    assert list(bundled_models()) == ["news", "yelp", "amazon"]  # the server, too, takes the first that fits


def test_apostrophes_come_back_that_product_reviews_lack():
    trace = Editor.from_pretrained("amazon").transfer("It's the worst knife I've bought.", to="positive")
    assert trace.style_before["positive"] < 0.5 < trace.style_after["positive"]
    assert trace.text.startswith("It's the ")
    assert trace.text.endswith(" knife I've bought.")


# --- the three examples of the paper's figure -----------------------------------------------------------------------


@pytest.mark.parametrize("preset", ["paper", "default"])
def test_the_judgement_of_the_price_is_changed_and_the_rest_is_kept(yelp, preset):
    trace = yelp.transfer("the food was good and very over priced for what you get .", to="positive", preset=preset)
    assert "over priced" not in trace.text
    assert trace.text.startswith("the food was good")
    assert trace.text.endswith("for what you get .")


def test_praise_is_taken_out_of_a_complaint(yelp):
    text = "i spent time with my best buds and some horrible wine and food ."
    trace = yelp.transfer(text, to="negative", preset="paper", threshold=1.5)  # log f is 1.8
    assert "best" not in trace.text.split()
    assert "horrible wine and food" in trace.text


def test_a_neutral_remark_gains_praise(yelp):
    text = "the dipping sauce was sweet too ."
    trace = yelp.transfer(text, to="positive")
    assert {"insert"} == {edit.operation for edit in trace.edits}
    assert trace.style_after["positive"] > trace.style_before["positive"]
    words = iter(trace.text.split())
    assert all(word in words for word in text.split())  # all there, in their order


# --- what people write ------------------------------------------------------------------------------------------------


def test_a_word_takes_the_place_of_a_word(news):
    """And not of the end of the word before: `the food` does not become `theme`."""
    text = "the food was bad"
    for edit in news.replace(text, "food", n=20):
        assert edit.text.startswith("the "), edit.text
    with pytest.raises(TextError, match="at least one word"):
        news.replace(text, (6, 6))


def test_nothing_is_missing_behind_an_opening_mark(news):
    """Training takes words out, and never what is glued to a mark: what is asked there has no meaning."""
    text = 'The chief executive said that company (based in Ohio) had paid "too much" for AT&T, some $159 million.'
    places = [slot.char for slot in news.locate(text, top=100)]
    assert text[: places[0]].endswith("said that ")
    assert not {text[char - 1] for char in places} & set('("$&')
    removed = {deletion.removed for deletion in news.delete(text, unit="word", top=100)}
    assert {"(based", ")", '"too', "much", "$159", "AT&T", ","} <= removed


def test_tokens_that_are_part_of_a_character_are_one_unit(news):
    text = "😀 bad 👨‍👩‍👧‍👦 naïve word."
    found = sorted(news.delete(text, unit="token", top=100), key=lambda deletion: deletion.start)
    assert "".join(deletion.removed for deletion in found) == text.replace(" ", "")
    assert all(deletion.removed for deletion in found)


@pytest.mark.parametrize(
    ("text", "to"),
    [
        ("The waitress was rude and slow.", "positive"),
        ("I will never come back!", "positive"),
        ("The staff is friendly and the pizza is delicious!", "negative"),
        ("i love this place .", "negative"),
    ],
)
def test_the_classifier_is_convinced_and_capitals_stay(yelp, text, to):
    trace = yelp.transfer(text, to=to)
    assert trace.style_before[to] < 0.5 < 0.9 < trace.style_after[to]
    assert trace.text[0] == text[0] or trace.text[0].isupper() == text[0].isupper()


def test_what_has_the_style_already_is_left_alone(yelp):
    for text, to in [("The pizza is delicious!", "positive"), ("the worst service ever .", "negative")]:
        assert yelp.transfer(text, to=to).text == text


def test_a_list_stays_a_list(yelp):
    text = "1. The food was bad\n2. The service was slow\n3. Never again"
    lines = yelp.transfer(text, to="positive").text.split("\n")
    assert [line[:3] for line in lines] == ["1. ", "2. ", "3. "]
    assert lines != text.split("\n")


@pytest.mark.parametrize(
    ("text", "keep", "kept"),
    [
        ("The waitress wasn’t nice and the food was bad.", "wasn't nice", "wasn’t nice"),
        ("The service was  very rude.", "was very rude", "was  very rude"),
        ("I hated Joe's Mex. Bad Grill today.", "joe's mex. bad grill", "Joe's Mex. Bad Grill"),
        ("I wouldn't come back.", "n't", "wouldn't"),
    ],
    ids=["quotes", "spaces", "across sentences", "clitic"],
)
def test_what_is_to_be_kept_is_kept_however_it_is_written(yelp, text, keep, kept):
    trace = yelp.transfer(text, to="positive", keep=[keep])
    assert trace.edits
    assert kept in trace.text


def test_nobody_reads_the_word_that_stands_for_numbers(yelp):
    for answers in (
        yelp.infill("We waited [_] minutes for our food."),
        yelp.infill("we paid [_]% tip", sample=True, n=20),
        yelp.replace("We waited too many minutes for our food.", "too many"),
        yelp.replace("we paid 5 dollars .", "5 dollars", n=30),  # one number, and not two
    ):
        assert answers
        assert not any("_num_" in answer.text for answer in answers)
    assert any("20" in edit.inserted for edit in yelp.replace("We waited 20 minutes.", "20"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("The company (ABC) ", "."),
        ('He said he was "fine" ', "."),
        ("Dear Bob,\n\n", "\n\nRegards, Ann"),
        ("Line one.\n", ""),
        ("", "\nLine two is here."),
        ("The bank\n", "\non Tuesday."),
        ("  ", "\n\n"),
    ],
)
def test_a_blank_is_filled_where_it_is(news, before, after):
    for filling in news.infill(f"{before}[_]{after}", 3):
        assert filling.text == before + filling.inserted[0] + after


def test_marks_that_the_vocabulary_joins_are_edited_apart(news):
    assert news.codec.token(news.codec.encode("(ABC).").ids[-1]) == ")."  # or this test shows nothing
    assert {edit.removed for edit in news.replace("He left the company (ABC).", "(ABC)")} == {"(ABC)"}
    assert {edit.removed for edit in news.replace('"It is good," he said.', "good,")} == {"good,"}
    assert news.score("The company (ABC)", "", ".").logprob < 0


@pytest.mark.parametrize("name", ["London", "Microsoft"])
def test_a_name_keeps_its_capital_when_it_no_longer_begins_the_sentence(news, name):
    assert all(f" {name} was closed." in filling.text for filling in news.infill(f"[_] {name} was closed.", 3))


def test_one_blank_that_goes_on_with_a_word_does_not_let_the_others(news):
    for filling in news.infill("The non-[_] of the invest [_] was good.", 3, max_length=6):
        assert not filling.inserted[1][0].isalnum() or " of the invest " in filling.text
