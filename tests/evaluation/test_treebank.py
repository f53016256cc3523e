"""Treebank tokens to text and back: nothing is lost, and an edit changes only what it touches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xl_editor.evaluation.treebank import TextEdit, apply, detokenise, retokenise

tokens = st.one_of(
    st.sampled_from(
        [
            *(".", ",", "n't", "'s", "``", "''", '"', "'", "(", ")", "-LRB-", "-RRB-", "do", "wo", "gon", "na"),
            *("$", "%", "...", "students", "it`s", "don't", 'say"hey', "etc.", "U.S.", "co-", "-op", "heat(energy)"),
        ]
    ),
    st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1, max_size=4),
)
lines = st.lists(tokens, max_size=10).map(lambda found: " ".join(" ".join(found).split()))


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("I do n't , sir .", "I don't, sir."),
        ("It 's in `` The Times '' ( of 1990 ) !", 'It\'s in "The Times" (of 1990)!'),
        ('He said , " Is it ? " and left .', 'He said, "Is it?" and left.'),
        ("in twenty years ' time", "in twenty years' time"),
        ("the ' new ' one", "the 'new' one"),
        ("I 'm gon na pay $ 5 -LRB- or 10 % -RRB- ...", "I'm gonna pay $5 (or 10%)..."),
        ("can not -- ca n't", "can not -- can't"),
        ("", ""),
    ],
)
def test_tokens_are_written_as_people_do(line, text):
    assert detokenise(line).text == text


@given(lines)
def test_without_edits_the_line_is_as_it_was(line):
    source = detokenise(line)
    assert retokenise(source, []) == line
    assert retokenise(source, [TextEdit(0, len(source.text), source.text)]) == line


@given(lines)
def test_every_character_belongs_to_its_token(line):
    source = detokenise(line)
    written = [source.text[start:end] for start, end in source.spans]
    assert "".join(written) == source.text.replace(" ", "")
    plain = [
        w for w, token in zip(written, source.tokens, strict=True) if token not in ("``", "''") and token[0] != "-"
    ]
    assert plain == [token for token in source.tokens if token not in ("``", "''") and token[0] != "-"]


@given(lines, st.data())
def test_the_tokens_of_words_that_no_edit_is_in_stay(line, data):
    source = detokenise(line)
    start = data.draw(st.integers(0, len(source.text)))
    end = data.draw(st.integers(start, min(len(source.text), start + 8)))
    new = data.draw(
        st.sampled_from(["", "s", " ", ",", " the ", "it's", "-", "a lot", "etc.", '"', source.text[start:end]])
    )
    found = retokenise(source, [TextEdit(start, end, new)]).split()
    first = len(source.text[:start].rpartition(" ")[0])  # of the words, between spaces, that the edit is in
    last = len(source.text) - len(source.text[end:].partition(" ")[2])
    before = [token for token, span in zip(source.tokens, source.spans, strict=True) if span[1] <= first]
    after = [token for token, span in zip(source.tokens, source.spans, strict=True) if span[0] >= last]
    assert found[: len(before)] == before
    assert found[len(found) - len(after) :] == after
    assert len(before) + len(after) <= len(found)


@pytest.mark.parametrize(
    ("line", "old", "new", "expected"),
    [
        ("Also he did n't go .", "Also", "Also,", "Also , he did n't go ."),
        ("Also he did n't go .", "didn't", "doesn't", "Also he does n't go ."),
        ("I ca n't .", "can't", "cannot", "I can not ."),
        ("I ca n't .", "n't", " not", "I ca not ."),
        ("several reason .", "reason", "reasons", "several reasons ."),
        ("alot of it", "alot", "a lot", "a lot of it"),
        ("every thing is", "every thing", "everything", "everything is"),
        ("a well known man", "well known", "well-known", "a well-known man"),
        ("by by car , too", "by ", "", "by car , too"),
        ("is good", "is", "It is", "It is good"),
        ("it is so Then he left .", "so", "so.", "it is so . Then he left ."),
        ("it is so", "so", "so.", "it is so ."),
        ("the boys house", "boys", "boy's", "the boy 's house"),
        ("He said `` no way '' .", "no", "yes", "He said `` yes way '' ."),
        ("He said no .", "no", '"no"', 'He said " no " .'),
        ('It `s say"hey .', "It", "it", 'it `s say"hey .'),
        ("so . Then", "so", "it", "it . Then"),
    ],
)
def test_edits_come_back_to_the_tokens(line, old, new, expected):
    source = detokenise(line)
    start = source.text.index(old)
    assert retokenise(source, [TextEdit(start, start + len(old), new)]) == expected


def test_several_edits_come_back_together():
    source = detokenise("He do n't has a apple , i think")
    assert source.text == "He don't has a apple, i think"
    edits = [TextEdit(23, 23, " yes"), TextEdit(3, 8, "doesn't"), TextEdit(9, 12, "have"), TextEdit(13, 14, "an")]
    edits += [TextEdit(22, 23, "I"), TextEdit(29, 29, ".")]
    assert apply(source.text, sorted(edits)) == "He doesn't have an apple, I yes think."
    assert retokenise(source, edits) == "He does n't have an apple , I yes think ."


@pytest.mark.parametrize("edits", [[(0, 9, "")], [(-1, 1, "")], [(0, 2, "x"), (1, 3, "y")]])
def test_edits_that_do_not_fit_are_refused(edits):
    with pytest.raises(ValueError, match="must lie within the text and not overlap"):
        retokenise(detokenise("a b c"), [TextEdit(*edit) for edit in edits])
