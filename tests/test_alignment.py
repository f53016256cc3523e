"""Which new words stand in the place of which old ones: hand-made cases, and what always holds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xl_editor.text.alignment import align

CASES = {
    "nothing": ("I am here .", "I am here .", ["", "I", "am", "here", "."]),
    "insertion": ("I go school .", "I go to school .", ["", "I", "go to", "school", "."]),
    "deletion": ("I go to home .", "I go home .", ["", "I", "go", "", "home", "."]),
    "replacement": ("I goes home .", "I go home .", ["", "I", "go", "home", "."]),
    "swap": ("I know what is it .", "I know what it is .", ["", "I", "know", "what it", "is", "", "."]),
    "one word cut in two": ("I like it alot .", "I like it a lot .", ["", "I", "like", "it", "a lot", "."]),
    "two words joined": ("We met to gether .", "We met together .", ["", "We", "met", "together", "", "."]),
    "casing": ("on monday we left .", "On Monday we left .", ["", "On", "Monday", "we", "left", "."]),
    "punctuation": ("However I left", "However , I left .", ["", "However ,", "I", "left ."]),
    "at the start": ("is raining .", "It is raining .", ["It", "is", "raining", "."]),
    "at the end": ("It is", "It is raining .", ["", "It", "is raining ."]),
    "doubled": ("the the cat sat .", "the cat sat .", ["", "the", "", "cat", "sat", "."]),
    "two places": ("He go to work by by car every days .", "He goes to work by car every day .",
                   ["", "He", "goes", "to", "work", "by", "", "car", "every", "day", "."]),
    "everything different": ("a b", "x y", ["", "x", "y"]),
    "nothing there": ("", "x y", ["x y"]),
    "nothing left": ("x y", "", ["", "", ""]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_hand_made(case):
    old, new, expected = CASES[case]
    new_words = new.split()
    assert [" ".join(new_words[i] for i in slot) for slot in align(old.split(), new_words)] == expected


words = st.lists(st.sampled_from(["a", "A", "an", "b", "the", "there", "."]), max_size=12)


@given(words, words)
def test_every_new_word_has_one_place_in_order(old, new):
    slots = align(old, new)
    assert len(slots) == len(old) + 1
    assert [word for slot in slots for word in slot] == list(range(len(new)))


@given(words)
def test_a_text_is_its_own_correction(text):
    assert align(text, text) == [[], *([i] for i in range(len(text)))]


@given(words, st.data())
def test_a_word_left_out_is_put_back_by_one_slot(text, data):
    if not text:
        return
    missing = data.draw(st.integers(0, len(text) - 1))
    old = text[:missing] + text[missing + 1 :]
    slots = align(old, text)
    kept = [[], *([word] for word in old)]
    changed = [slot for slot, indices in enumerate(slots) if [text[i] for i in indices] != kept[slot]]
    assert len(changed) == 1
