"""M2 files: how they are read, how a corrected sentence becomes edits, and how these are counted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xl_editor.evaluation.m2 import Counts, GoldEdit, WordEdit, read_m2, score_edits, word_edits

M2 = """\
S This are sentence .
A 1 2|||R:VERB:SVA|||is|||REQUIRED|||-NONE-|||0
A 2 2|||M:DET|||a|||REQUIRED|||-NONE-|||0
A 0 2|||R:OTHER|||These are||They are|||REQUIRED|||-NONE-|||1

S All is well .
A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||0

S He he said so .
A 0 1|||U:PRON||||||REQUIRED|||-NONE-|||0
A 1 2|||R:ORTH|||He|||REQUIRED|||-NONE-|||0
A 3 4|||UNK|||so|||REQUIRED|||-NONE-|||0

S Nobody looked at this .
"""


@pytest.fixture
def sentences(tmp_path):
    (tmp_path / "a.m2").write_text(M2)
    return read_m2(tmp_path / "a.m2")


def gold(start, end, *corrections):
    return GoldEdit(start, end, frozenset(tuple(correction.split()) for correction in corrections))


def test_m2_is_read_with_every_annotator(sentences):
    assert [" ".join(sentence.words) for sentence in sentences] == [
        "This are sentence .",
        "All is well .",
        "He he said so .",
        "Nobody looked at this .",
    ]
    first, second, third, fourth = (sentence.annotations for sentence in sentences)
    assert first == ((gold(1, 2, "is"), gold(2, 2, "a")), (gold(0, 2, "These are", "They are"),))
    assert second == fourth == ((),)
    assert third == ((gold(0, 1, ""), gold(1, 2, "He")),)  # what could not be put right is not asked for


@pytest.mark.parametrize(
    "broken",
    [
        "A 0 1|||R|||a|||REQUIRED|||-NONE-|||0",
        "S a b\nA 0 3|||R|||a|||REQUIRED|||-NONE-|||0",
        "S a b\nA 0|||R|||a|||REQUIRED|||-NONE-|||0",
        "S a b\nA 0 1|||a",
        "S a b\nS c",
        "text",
    ],
)
def test_a_line_that_is_none_of_m2_is_named(broken, tmp_path):
    (tmp_path / "a.m2").write_text(f"S fine .\n\n{broken}\n")
    number = 3 + broken.count("\n")
    with pytest.raises(ValueError, match=rf"a\.m2 has in line {number} no line of an M2 file"):
        read_m2(tmp_path / "a.m2")


@pytest.mark.parametrize(
    ("source", "output", "expected"),
    [
        ("a b c", "a b c", []),
        ("This are it", "This is it", [(1, 2, "is")]),
        ("This is sentence", "This is a sentence", [(2, 2, "a")]),
        ("by by car", "by car", [(1, 2, "")]),
        ("I have alot of it", "I have a lot of it", [(2, 3, "a lot")]),
        ("every thing is fine", "everything is fine", [(0, 2, "everything")]),
        ("I know what is it", "I know what it is", [(3, 5, "it is")]),
        ("several reason is their", "several reasons are there", [(1, 2, "reasons"), (2, 3, "are"), (3, 4, "there")]),
        ("He go school", "He goes to school", [(1, 2, "goes"), (2, 2, "to")]),
        ("is good", "It is very very good", [(0, 0, "It"), (1, 1, "very very")]),
        ("it is good .", "It is good !", [(0, 1, "It"), (3, 4, "!")]),
        ("", "a b", [(0, 0, "a b")]),
        ("a b", "", [(0, 2, "")]),
    ],
)
def test_edits_are_extracted_by_the_rule(source, output, expected):
    found = word_edits(source.split(), output.split())
    assert found == [WordEdit(start, end, tuple(words.split())) for start, end, words in expected]


words = st.lists(st.sampled_from(["a", "b", "ab", "A", "c"]), max_size=7)


@given(words, words)
def test_the_edits_applied_give_the_output_and_keep_apart(source, output):
    edits = word_edits(source, output)
    assert edits == sorted(edits)
    result, done = [], 0
    for edit in edits:
        assert edit.start >= done
        assert tuple(source[edit.start : edit.end]) != edit.words
        result += [*source[done : edit.start], *edit.words]
        done = edit.end
    assert result + source[done:] == output


def test_the_annotator_counts_who_agrees_most(sentences):
    outputs = ["They are sentence .", "All is fine .", "He he said so .", "Nobody looked at this ."]
    scores = score_edits(sentences, outputs)
    assert word_edits(sentences[0].words, outputs[0].split()) == [WordEdit(0, 1, ("They",))]
    # "This" → "They" is not the annotator's "This are" → "They are": fewest missed is all there is to choose by
    assert scores.edits == Counts(right=0, wrong=2, missed=3)
    outputs[0] = "This is a sentence ."
    scores = score_edits(sentences, outputs)
    assert scores.edits == Counts(right=2, wrong=1, missed=2)
    assert scores.missing_words == Counts(right=1, wrong=0, missed=0)
    outputs[1:] = ["All is well .", "He said so .", "Nobody looked at this ."]
    assert score_edits(sentences, outputs).edits == Counts(right=2, wrong=1, missed=2)  # "he" is gone, instead of "He"


def test_to_do_nothing_has_no_false_alarms(sentences):
    scores = score_edits(sentences, [" ".join(sentence.words) for sentence in sentences])
    assert scores.edits == Counts(right=0, wrong=0, missed=3)
    assert (scores.edits.precision, scores.edits.recall, scores.edits.f_score) == (1, 0, 0)


def test_f_weighs_precision_twice():
    counts = Counts(right=1, wrong=1, missed=3)
    assert (counts.precision, counts.recall) == (0.5, 0.25)
    assert counts.f_score == pytest.approx(1.25 * 0.5 * 0.25 / (0.25 * 0.5 + 0.25))
    assert str(counts) == "50.0 / 25.0 / 41.7"


def test_outputs_of_another_number_are_told(sentences):
    with pytest.raises(ValueError, match="1 outputs for 4 annotated sentences"):
        score_edits(sentences, ["a"])
