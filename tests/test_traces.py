"""Steps over token ids become edits of the text, in the order of its sentences."""

from hypothesis import given
from hypothesis import strategies as st

from conftest import SENTENCES
from xl_editor.operations.transfer import Revision, Step
from xl_editor.traces import Sentences, TraceWriter

TEXT = "The food wasn't good! The staff is slow. We'll come back again."


def step(editor, start, end, words):
    return Step(start, end, tuple(editor.codec.encode(words, True).ids) if words else (), 1.0, -1.0, {}, {})


def begun(editor, text=TEXT):
    sentences = Sentences(editor.codec, editor.codec.encode(text), split=True)
    return sentences, TraceWriter(sentences)


def test_edits_of_a_later_sentence_are_told_when_those_before_it_are_complete(editor):
    _, writer = begun(editor)
    slow = step(editor, 3, 4, "friendly")
    assert writer.follow(1, Revision((), (slow,), "done")) == []
    (first,) = writer.follow(0, Revision((), (step(editor, 3, 5, "great"),), ""))
    assert first.text == "The food was great! The staff is slow. We'll come back again."
    assert (first.removed, first.inserted) == ("wasn't good", "was great")
    assert writer.follow(2, Revision((), (), "done")) == []
    (second,) = writer.follow(0, Revision((), (step(editor, 3, 5, "great"),), "done"))
    assert second.text == "The food was great! The staff is friendly. We'll come back again."
    assert second.text[slice(*second.span)] == second.inserted == "friendly"
    assert writer.edits == [first, second]
    assert writer.text == second.text


def test_a_step_on_top_of_another_changes_its_words_alone(editor):
    _, writer = begun(editor, "The food was cold.")
    steps = (step(editor, 3, 4, "very slow"), step(editor, 4, 5, "friendly"), step(editor, 3, 4, ""))
    edits = writer.follow(0, Revision((), steps, "done"))
    assert [(edit.removed, edit.inserted) for edit in edits] == [
        ("cold", "very slow"),
        ("slow", "friendly"),
        ("very", ""),
    ]
    assert writer.text == "The food was friendly."


def test_words_that_are_put_back_where_they_were_are_not_told(editor):
    _, writer = begun(editor, "The food was cold and slow.")
    (edit,) = writer.follow(0, Revision((), (step(editor, 2, 6, "was great and slow"),), "done"))
    assert (edit.removed, edit.inserted) == ("cold", "great")


@given(data=st.data())
def test_every_edit_makes_the_text_after_it_of_the_text_before_it(editor, data):
    text = data.draw(st.sampled_from([TEXT, *SENTENCES, "I paid 12 dollars; it's COLD, and we can't come back!"]))
    sentences, writer = begun(editor, text)
    words = [id for encoded in sentences.encoded for id in encoded.ids]
    for number, encoded in enumerate(sentences.encoded):
        ids, steps = encoded.ids, []
        for _ in range(data.draw(st.integers(0, 3))):
            start = data.draw(st.integers(0, len(ids)))
            end = data.draw(st.integers(start, len(ids)))
            inserted = tuple(data.draw(st.lists(st.sampled_from(words), max_size=3)))
            if inserted != ids[start:end]:
                steps.append(Step(start, end, inserted, 1.0, -1.0, {}, {}))
                ids = ids[:start] + inserted + ids[end:]
        writer.follow(number, Revision(ids, tuple(steps), "done"))
    before = text
    for edit in writer.edits:
        assert before[edit.start : edit.end] == edit.removed
        assert edit.text[slice(*edit.span)] == edit.inserted
        change = edit.change
        assert before[: change.start] + change.replacement + before[change.end :] == edit.text
        before = edit.text
    assert before == writer.text
