"""The editor: text in, edits out, offsets into what the user gave."""

import json
import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import SENTENCES, tiny_model
from xl_editor import Editor
from xl_editor.context import ContextFormat
from xl_editor.editor import MAX_TOKENS, Call
from xl_editor.edits import Edit
from xl_editor.errors import EditorError, ModelError
from xl_editor.traces import Sentences, whole_words
from xl_editor.training.vocabulary import special_ids, train_tokenizer

TEXT = "The food wasn't good! We'll come back again."


def test_score_is_the_sum_of_its_tokens_and_knows_contractions(editor):
    score = editor.score("The food was", "n't good", "!")
    assert score.tokens == ("n't", "good", "<end>")
    assert score.logprob == pytest.approx(sum(score.token_logprobs))
    assert score.to_dict().keys() == {"logprob", "token_logprobs", "tokens", "perplexity"}
    assert editor.score("the food was", "", "good !").tokens == ("<end>",)
    assert editor.score("", "the food", "").tokens == ("the", "food", "<end>")


def test_locate_offers_every_gap_between_words_once(editor):
    slots = editor.locate(TEXT, top=100)
    # the food was n't good ! we 'll come back again . is what the model reads; nobody writes between "was" and "n't"
    assert sorted(slot.char for slot in slots) == [0, 4, 9, 16, 20, 22, 28, 33, 38, 43, 44]
    rounded = [round(s.logprob_end, 4) for s in slots]
    assert rounded == sorted(rounded)
    for slot in slots:
        assert TEXT.startswith(slot.before[-3:], max(0, slot.char - 3))
        assert TEXT[slot.char :].startswith(slot.after)


@pytest.mark.parametrize("inserted", ["'hello'", ".5", "'90s", "'s", "n't", "!"])
def test_what_is_scored_is_a_word_of_its_own_unless_it_is_attached(editor, inserted):
    assert editor.score("he was", inserted, "here").tokens[-1] == "<end>"


def test_locate_and_score_agree(editor):
    for slot in editor.locate("the food was good !", top=10):
        text = "the food was good !"
        score = editor.score(text[: slot.char], "", text[slot.char :])
        assert slot.logprob_end == pytest.approx(score.logprob, abs=1e-5)


def test_infill_puts_words_where_the_blanks_are(editor):
    for filling in editor.infill("The food [_] great and the service [_].", n=4, max_length=3):
        assert len(filling.inserted) == 2
        assert [filling.text[a:b] for a, b in filling.spans] == list(filling.inserted)
        assert filling.text.startswith("The food ")
        assert "great and the service" in filling.text
        assert filling.text.endswith(".")


def test_a_blank_is_never_filled_with_nothing(editor):
    for sample in (False, True):
        fillings = editor.infill("The food [_] great and [_].", n=20, max_length=2, sample=sample)
        assert len(fillings) == 20
        assert all(all(filling.inserted) for filling in fillings)


def test_after_a_space_a_filling_begins_with_a_word_of_its_own(tmp_path):
    tokenizer = train_tokenizer(SENTENCES, "bpe", size=300)
    ids = special_ids(tokenizer)
    context = ContextFormat(sep=ids.sep, cls=ids.cls, unk=ids.unk, mask=ids.mask)
    settings = {"vocab_size": tokenizer.get_vocab_size(), "end_token_id": ids.end, "pad_token_id": ids.pad}
    tiny_model(**settings, editor={"context": context.to_dict(), "text": {}}).save_pretrained(tmp_path)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    editor = Editor.from_pretrained(tmp_path)

    def glued(text: str) -> list[bool]:
        fillings = editor.infill(text, n=50, max_length=1, sample=True)
        return [filling.text[3:4].isalnum() for filling in fillings]

    assert not any(glued("the [_] food"))
    assert any(glued("the[_] food"))


def test_an_escaped_blank_is_text(editor):
    (filling, *_) = editor.infill(r"the \[_] food [_] great", n=1, max_length=2)
    assert filling.text.startswith("the [_] food")
    with pytest.raises(EditorError, match=r"text must contain a blank, written \[_\]"):
        editor.infill(r"the \[_] food")


def test_replace_gives_odds_against_what_stands_there(editor):
    edits = editor.replace(TEXT, "good", n=4, max_length=3)
    assert len(edits) == 4
    n_compared = 0
    for edit in edits:
        assert TEXT[edit.start : edit.end] == edit.removed == "good"
        assert edit.inserted != "good"
        here = editor.score("The food wasn't", edit.inserted, "! We'll come back again.")
        there = editor.score("The food wasn't", "good", "! We'll come back again.")
        if "<unk>" not in here.tokens:
            assert edit.log_odds == pytest.approx(here.logprob - there.logprob, abs=1e-4)
            n_compared += 1
    assert n_compared
    assert editor.replace(TEXT, (16, 20), n=4, max_length=3) == edits


@pytest.mark.parametrize(("unit", "n_units"), [("token", 12), ("word", 10), ("sentence", 2), ("span", 10 + 9 + 8 + 7)])
def test_delete_offers_every_unit(editor, unit, n_units):
    deletions = editor.delete(TEXT, unit=unit, top=1000)
    assert len(deletions) == n_units
    for deletion in deletions:
        assert TEXT[deletion.start : deletion.end] == deletion.removed
    ranked = editor.delete(TEXT, unit=unit, top=1000, by="rank")
    assert [d.perplexity_without for d in ranked] == sorted(d.perplexity_without for d in ranked)
    measure = "information" if unit == "sentence" else "ratio"
    assert deletions == editor.delete(TEXT, unit=unit, top=1000, by=measure)


def test_a_deletion_says_what_was_asked_about_not_what_changed_beside_it(editor):
    text = "I can't wait."
    of_words, of_tokens = ({d.removed: d.text for d in editor.delete(text, unit, top=9)} for unit in ("word", "token"))
    assert of_words["can't"] == "I wait."
    assert "n't" not in of_words
    assert of_tokens["n't"] == "I can wait."


def test_classify_sums_to_one(editor):
    assert sum(editor.classify(TEXT).values()) == pytest.approx(1)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=40))
def test_any_text_is_edited_or_refused_in_a_sentence(editor, text):
    if not text.strip():
        with pytest.raises(EditorError, match="must not be empty"):
            editor.locate(text)
        return
    slots = editor.locate(text, top=100)
    assert all(0 <= slot.char <= len(text) for slot in slots)
    for deletion in editor.delete(text, unit="word", top=3):
        assert text[deletion.start : deletion.end] == deletion.removed
    editor.classify(text)


@pytest.mark.parametrize("typed", ["<end>", "<cls>", "<sep>", "<style:positive>", "[_]", "<mask>"])
def test_control_tokens_typed_by_a_user_are_text(editor, typed):
    text = f"the food {typed} was great ."
    specials = {editor.engine.end, *editor.engine.not_text} - {editor.engine.format.unk}
    assert not specials & set(editor.codec.encode(text).ids)
    (deletion, *_) = [d for d in editor.delete(text, unit="word", top=20) if d.removed == "food"]
    assert deletion.text == f"the {typed} was great ."


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda e: e.locate(""), "text must not be empty"),
        (lambda e: e.locate(" \t\n "), "text must not be empty"),
        (lambda e: e.classify("a " * 50_000), "at most 512 tokens are accepted"),
        (lambda e: e.classify("a " * (MAX_TOKENS + 1)), f"text has {MAX_TOKENS + 1} tokens; at most 512"),
        (lambda e: e.infill(f"[_] {'a ' * (MAX_TOKENS + 1)} [_]"), "text between its blanks has 513 tokens; at most"),
        (lambda e: e.replace("a " * 600, (0, 1200)), "span has 600 tokens; at most 512"),
        (lambda e: e.score("", "a " * 600, ""), "inserted has 600 tokens; at most 512"),
        (lambda e: e.locate("the food", top=0), "top must be at least 1, got 0"),
        (lambda e: e.locate("the food", style="ironic"), "style must be one of negative, positive, got 'ironic'"),
        (lambda e: e.delete("the food", by="luck"), "by must be information or ratio or rank, got 'luck'"),
        (lambda e: e.infill("no blank"), "must contain a blank"),
        (lambda e: e.infill("[_]", n=0), "n must be at least 1"),
        (lambda e: e.infill("[_]", n=5, beam=2), "beam must be at least 5, got 2"),
        (lambda e: e.infill("[_]", top_p=0.5), "top_p is for drawing at random, which was not asked for"),
        (lambda e: e.infill("[_]", seed=7), "seed is for drawing at random, which was not asked for"),
        (lambda e: e.infill("[_]", sample=True, beam=5), "beam is for searching, not for drawing at random"),
        (lambda e: e.infill("[_]", sample=True, top_p=2.0), "top_p must be above 0 and at most 1"),
        (lambda e: e.replace("the food", "soup"), "span must be part of the text, got 'soup'"),
        (lambda e: e.replace("the food", (3, 99)), r"span must lie within 0\.\.8"),
        (lambda e: e.replace("the food", (3, 3)), "span must cover at least one word"),
        (
            lambda e: e.delete("the food", unit="letter"),
            "unit must be one of token, word, span, sentence, got 'letter'",
        ),
        (lambda e: e.classify(""), "text must not be empty"),
        (lambda e: e.locate(None), "text must be a string, got None"),
        (lambda e: e.score("the", 1, "food"), "inserted must be a string, got 1"),
        (lambda e: e.locate("the food", top="3"), "top must be a whole number, got '3'"),
        (lambda e: e.locate("the food", style=["positive"]), r"style must be one of negative, positive, got \["),
        (lambda e: e.infill("[_]", n=2.0), "n must be a whole number, got 2.0"),
        (lambda e: e.infill("[_]", n=101), "n must be at most 100, got 101"),
        (lambda e: e.infill("[_]", sample=True, top_p="0.5"), "top_p must be a number, got '0.5'"),
        (lambda e: e.infill("the fo[_]od"), "text must not have a blank within a word"),
        (lambda e: e.infill("a well-[_]known food"), "text must not have a blank within a word"),
        (lambda e: e.infill("the cafe\u0301[_]s"), "text must not have a blank within a word"),  # an accent of its own
        (
            lambda e: e.replace("the food", (1,)),
            r"span must be a part of the text, or two character offsets, got \(1,\)",
        ),
        (lambda e: e.transfer_all("the food", to="positive"), "texts must be a list of texts"),
    ],
)
def test_bad_requests_are_refused_in_one_sentence(editor, call, message):
    with pytest.raises(EditorError, match=message):
        call(editor)


def test_models_that_are_none_are_refused(tmp_path, toy_directory):
    with pytest.raises(ModelError, match="not a directory with a model"):
        Editor.from_pretrained(tmp_path / "nowhere")
    with pytest.raises(ModelError, match="holds no config.json"):
        Editor.from_pretrained(tmp_path)
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((toy_directory / name).read_bytes())
    with pytest.raises(ModelError, match="holds no tokenizer.json"):
        Editor.from_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match=r"tokenizer\.json is no tokenizer"):
        Editor.from_pretrained(tmp_path)


def with_settings(toy_directory, directory, change):
    """The toy with another config.json."""
    config = json.loads((toy_directory / "config.json").read_text())
    change(config)
    for name in ("tokenizer.json", "model.safetensors"):
        (directory / name).write_bytes((toy_directory / name).read_bytes())
    (directory / "config.json").write_text(json.dumps(config))
    return directory


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(n_head=0), "n_head must be a whole number above 0, got 0"),
        (lambda c: c.update(d_model="16"), "d_model must be a whole number above 0, got '16'"),
        (lambda c: c.update(editor=None), "editor must hold settings, got None"),
        (lambda c: c["editor"].update(presets={"paper": {"treshold": 2}}), "settings that do not fit: .*'treshold'"),
        (lambda c: c["editor"].update(presets=7), "settings that do not fit"),
        (lambda c: c["editor"]["context"].pop("sep"), "settings that do not fit: .*'sep'"),
    ],
)
def test_settings_that_do_not_fit_are_named(toy_directory, tmp_path, change, message):
    with pytest.raises(ModelError, match=message):
        Editor.from_pretrained(with_settings(toy_directory, tmp_path, change))


def test_a_model_with_styles_may_lack_the_classifier(toy_directory, tmp_path):
    plain = Editor.from_pretrained(with_settings(toy_directory, tmp_path, lambda config: config.update(n_labels=0)))
    for call in (lambda: plain.classify("the food"), lambda: plain.transfer("the food", to="positive")):
        with pytest.raises(EditorError, match="trained without a style classifier"):
            call()
    calls = [Call("classify", {"text": "the food"}), Call("locate", {"text": "the food", "style": "positive"})]
    refused, slots = plain.answer_all(calls)
    assert isinstance(refused, EditorError)
    assert slots == plain.locate("the food", style="positive")


def test_a_model_trained_without_style_dropout_wants_a_style(toy_directory, tmp_path):
    def strictly(config):
        config["editor"]["context"]["style_optional"] = False

    strict = Editor.from_pretrained(with_settings(toy_directory, tmp_path, strictly))
    strict.locate("the food", style="negative")
    with pytest.raises(EditorError, match="never trained without a style"):
        strict.locate("the food")


def test_saving_in_half_precision_and_loading_again(editor, tmp_path):
    editor.save_pretrained(tmp_path, dtype=torch.float16)
    again = Editor.from_pretrained(tmp_path)
    expected = editor.score("the food was", "great", ".").logprob
    assert again.score("the food was", "great", ".").logprob == pytest.approx(expected, abs=0.05)
    assert again.model.lm_loss.weight.dtype == torch.float32


def test_threads_share_an_editor(editor):
    texts = [f"the food was {word} ." for word in ("great", "cold", "slow", "friendly")] * 3
    expected = [editor.locate(text) for text in texts]
    found: list = [None] * len(texts)

    def work(i: int) -> None:
        found[i] = editor.locate(texts[i])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == expected


def test_transfer_changes_what_its_edits_say(editor):
    trace = editor.transfer(TEXT, to="positive", preset="paper", threshold=-1.0, max_steps=4)
    assert trace.source == TEXT
    before = TEXT
    for edit in trace.edits:
        assert before[edit.start : edit.end] == edit.removed
        assert edit.text[edit.span[0] : edit.span[1]] == edit.inserted
        outside = (before[: edit.start] + before[edit.end :]).split()
        assert outside == (edit.text[: edit.span[0]] + edit.text[edit.span[1] :]).split()
        assert before[: edit.change.start] + edit.change.replacement + before[edit.change.end :] == edit.text
        before = edit.text
    assert trace.text == before
    assert trace.edits
    json.dumps(trace.to_dict())


@pytest.mark.parametrize("preset", ["paper", "default"])
def test_texts_transferred_together_end_as_alone(editor, preset):
    texts = [TEXT, "the food was great .", "Slow staff.", "i paid 5 dollars , and it 's cold ."] * 2
    how = {"to": "negative", "preset": preset, "threshold": 0.05, "max_steps": 3}
    together, alone = editor.transfer_all(texts, **how), [editor.transfer(text, **how) for text in texts]

    def told(trace):
        return trace.text, trace.stopped, [(e.operation, e.start, e.end, e.inserted) for e in trace.edits]

    assert [told(trace) for trace in together] == [told(trace) for trace in alone]


def test_kept_words_stay_and_zero_steps_change_nothing(editor):
    how = {"to": "negative", "preset": "paper", "threshold": -50}
    trace = editor.transfer("the food was great .", **how, max_steps=6, keep=["Food", "great"])
    assert trace.edits
    assert "food" in trace.text.split()
    assert "great" in trace.text.split()
    assert editor.transfer(TEXT, **how, max_steps=0).text == TEXT


def test_kept_phrases_and_contractions_stay(editor):
    how = {"to": "negative", "preset": "paper", "threshold": -50, "max_steps": 8}
    trace = editor.transfer("the food wasn't very good .", **how, keep=["wasn't very"])
    assert trace.edits
    assert "wasn't very" in trace.text


@pytest.mark.parametrize(
    "text",
    [
        'The food was "[_]" and "[_]".',
        "[_]. The food was “[_]”!",
        "The food ([_]) wasn't it.",
        "The food was [_].",
        "The food, [_], was it.",
        'He said "the food was [_]" to the staff.',
        "“[_] food,” he said.",
        "The food—[_] and good—was it.",
        'It was [_] "good" food.',
        "It was '[_]' food.",
    ],
)
def test_what_fills_a_blank_stands_where_it_stood(editor, text):
    for filling in editor.infill(text, 3):
        expected = text
        for inserted in filling.inserted:
            expected = expected.replace("[_]", inserted, 1)
        assert filling.text.split() == expected.split()
        assert [filling.text[a:b] for a, b in filling.spans] == list(filling.inserted)


@pytest.mark.parametrize("text", ["The food was[_].", "The food[_], it was.", "The ([_]food) was it."])
def test_what_fills_a_blank_beside_a_word_is_a_word_of_its_own(editor, text):
    for filling in editor.infill(text, 3):
        whole, ((start, end),) = filling.text, filling.spans
        assert whole[start:end] == filling.inserted[0]
        assert not whole[start - 1].isalnum()
        assert not whole[end].isalnum()


@pytest.mark.parametrize("quotes", ['""', "“”", "''", "()"])
def test_the_score_of_nothing_between_quotes_is_that_of_the_deletion(editor, quotes):
    left, right = f"He said {quotes[0]}", f"{quotes[1]} to the staff."
    (deletion,) = (d for d in editor.delete(f"{left}yes{right}", "word", top=20) if d.removed == "yes")
    nothing, something = (editor.score(left, inserted, right).logprob for inserted in ("", "yes"))
    assert nothing - something == pytest.approx(deletion.log_odds, abs=1e-4)


def test_what_is_kept_may_be_one_phrase(editor):
    how = {"to": "negative", "preset": "paper", "threshold": -50, "max_steps": 6}
    one, listed = (editor.transfer("the food was great .", **how, keep=keep).text for keep in ("food", ["food"]))
    assert one == listed
    assert "food" in one.split()


def test_what_stands_in_a_text_is_scored_as_if_it_were_put_in(editor):
    score = editor.score("The food was", "n't good", "!")
    assert editor.score_at("The food wasn't good!", (12, 20)) == score
    assert editor.score_at("The food wasn't good!", "n't good") == score
    with pytest.raises(EditorError, match="span must be whole words; it is a part of 'food'"):
        editor.score_at("The food was good!", (4, 6))
    with pytest.raises(EditorError, match="inserted must be whole words; it is a part of 'etc.'"):
        editor.score("salad, soup,", "etc", ". and so on")


def test_a_span_can_be_asked_about_as_a_deletion(editor):
    text = "The food wasn't good. We'll come back."
    (asked,) = editor.delete(text, span="good")
    (among_all,) = (found for found in editor.delete(text, unit="word", top=100) if found.removed == "good")
    assert (asked.text, asked.start, asked.end) == (among_all.text, 16, 20)
    assert asked.log_odds == pytest.approx(among_all.log_odds, abs=1e-4)
    assert asked == editor.delete(text, span=(16, 20))[0]
    with pytest.raises(EditorError, match="span must cover at least one word"):
        editor.delete(text, span=(3, 4))


def test_every_token_can_be_a_unit(editor):
    text = "The food wasn't good."
    encoded = editor.codec.encode(text)
    found = editor.delete(text, unit="token", top=100)
    assert sorted((deletion.start, deletion.end) for deletion in found) == sorted(encoded.spans)


def test_all_sentences_are_written_as_the_text_is(editor):
    """By itself, the second sentence could be tokenised text, in which marks stand apart."""
    whole = editor.codec.encode("The food was bad. the staff")
    sentences = Sentences(editor.codec, whole, split=True)
    assert [encoded.tokenised for encoded in sentences.encoded] == [False, False]
    assert editor.codec.encode("the staff").tokenised


def test_a_text_that_cannot_be_transferred_is_named_before_any_work(editor, monkeypatch):
    monkeypatch.setattr(editor.engine, "score", None)
    with pytest.raises(EditorError, match=r"texts\[300\]: text must not be empty"):
        editor.transfer_all([*["the food was great ."] * 300, " "], to="negative")


def test_a_baseline_is_no_editor(toy_directory, tmp_path):
    config = json.loads((toy_directory / "config.json").read_text())
    config["editor"]["objective"] = "l2r"
    for name in ("tokenizer.json", "model.safetensors"):
        (tmp_path / name).write_bytes((toy_directory / name).read_bytes())
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=r"is a baseline \(l2r\)"):
        Editor.from_pretrained(tmp_path)


def test_samples_that_are_what_stands_there_count_as_well(editor):
    edits = editor.replace("the food was great .", "food", 3, sample=True, top_k=1)
    assert len(edits) == 3


def test_a_slot_is_shown_on_one_line(editor):
    slots = editor.locate("the food\n\nwas great .", top=9)
    assert any("\n" in slot.before + slot.after for slot in slots)
    assert not any("\n" in str(slot.render()) for slot in slots)


@pytest.mark.parametrize(
    "how", [{"threads": 0}, {"device": "nowhere"}, {"device": "cuda:99"}, {"dtype": "float16"}, {"backend": "magic"}]
)
def test_a_machine_that_is_not_there_is_refused_in_one_sentence(toy_directory, how):
    with pytest.raises(EditorError, match=next(iter(how))):
        Editor.from_pretrained(toy_directory, **how)


def test_a_span_is_found_as_a_word_before_it_is_found_in_another(editor):
    text = "the staffed place has staff ."
    assert editor.replace(text, "staff", n=2) == editor.replace(text, (22, 27), n=2)
    assert editor.replace(text, "lace", n=2) == editor.replace(text, "place", n=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"to": "ironic"}, "to must be one of negative, positive, got 'ironic'"),
        ({"to": "positive", "source": "ironic"}, "source must be one of negative, positive"),
        ({"to": "positive", "source": "positive"}, "source must differ from the target style"),
        ({"to": "positive", "preset": "wild"}, "preset must be one of default, paper"),
        ({"to": "positive", "max_steps": -1}, "max_steps must be at least 0"),
        ({"to": "positive", "text": " "}, "text must not be empty"),
        ({"to": "positive", "max_steps": 1.5}, "max_steps must be a whole number"),
        ({"to": "positive", "threshold": "2"}, "threshold must be a number, got '2'"),
        ({"to": "positive", "threshold": float("nan")}, "threshold must be a number, got nan"),
        ({"to": "positive", "keep": [5]}, r"keep must be a list of words or phrases, got \[5\]"),
    ],
)
def test_impossible_transfers_are_refused(editor, arguments, message):
    with pytest.raises(EditorError, match=message):
        editor.transfer(**{"text": "the food", **arguments})


def test_a_model_without_styles_says_so(toy_directory, tmp_path):
    config = json.loads((toy_directory / "config.json").read_text())
    config["editor"]["context"]["styles"] = {}
    for name in ("tokenizer.json", "model.safetensors"):
        (tmp_path / name).write_bytes((toy_directory / name).read_bytes())
    (tmp_path / "config.json").write_text(json.dumps(config))
    plain = Editor.from_pretrained(tmp_path)
    with pytest.raises(EditorError, match="no styles to transfer between"):
        plain.transfer("the food", to="positive")
    with pytest.raises(EditorError, match="no styles: it cannot classify"):
        plain.classify("the food")


@pytest.mark.parametrize(
    ("before", "after", "removed", "inserted", "told"),
    [
        ("my best buds and wine", "my buds and wine", "best", "", ("delete", "best", "")),
        ("my buds and wine", "my best buds and wine", "", "best", ("insert", "", "best")),
        ("it was good .", "it was great .", "good", "great", ("replace", "good", "great")),
        ("good", "great", "good", "great", ("replace", "good", "great")),
        ("It wasn't good.", "It was great.", "n't good", "great", ("replace", "wasn't good", "was great")),
        ("We can't eat.", "We can eat.", "can't", "can", ("replace", "can't", "can")),
        ("The food was bad.", "Nice the food was bad.", "", "Nice", ("replace", "The", "Nice the")),
        ("Bad food was here.", "Food was here.", "Bad", "", ("replace", "Bad food", "Food")),
        ("very good very", "very good", "very", "", ("delete", "very", "")),
        ("so bad", "so", "bad", "", ("delete", "bad", "")),
        ("It was bad.", "It was bad but cheap.", "", "but cheap", ("insert", "", "but cheap")),
        ("rude and slow. Never!", "great. Never!", "rude and slow", "great", ("replace", "rude and slow", "great")),
        ("so good.", "so good!", ".", "!", ("replace", ".", "!")),
        ("it cost 3.5, or so", "it cost 3.8, or so", "3.5", "3.8", ("replace", "3.5", "3.8")),
    ],
)
def test_a_step_is_told_in_whole_words_and_changes_just_what_it_says(before, after, removed, inserted, told):
    if removed and inserted:
        spans = (before.index(removed),) * 2, (after.index(inserted),) * 2
    elif removed:
        at = before.rindex(removed)
        spans = (at, at), (min(at, len(after)),) * 2
    else:
        at = after.index(inserted)
        spans = (min(at, len(before) - 1),) * 2, (at, at)
    (start, _), (new_start, _) = spans
    ranges = (start, start + len(removed)), (new_start, new_start + len(inserted))
    found, new = whole_words(before, after, *ranges)
    edit = Edit.between(before, after, found, new, log_odds=1.0, logprob=-1.0)
    assert (edit.operation, edit.removed, edit.inserted) == told
    assert before[edit.start : edit.end] == edit.removed
    assert after[edit.span[0] : edit.span[1]] == edit.inserted
    change = edit.change
    assert before[: change.start] + change.replacement + before[change.end :] == after
