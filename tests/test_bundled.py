"""What the bundled models do: behaviour that a user would notice if it went."""

import pytest

from xl_editor import Editor
from xl_editor.editor import bundled_models

pytestmark = pytest.mark.skipif("yelp" not in bundled_models(), reason="no model is bundled yet")


@pytest.fixture(scope="module")
def yelp():
    return Editor.from_pretrained("yelp")


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
