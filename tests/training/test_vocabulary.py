"""Tokenizers: one corpus gives one file, nothing is lost that should not be, XLNet's are extended."""

import hashlib
import io
import subprocess
import sys

import pytest
from tokenizers import Tokenizer

from xl_editor.text import starts_word
from xl_editor.training.vocabulary import (
    END,
    SPECIAL_TOKENS,
    VocabularyError,
    is_special,
    pretrained_tokenizer,
    special_ids,
    train_tokenizer,
)

TEXTS = [
    "the food was n't good , but the waiter 's smile was !",
    "It's a naïve café: “très bon”, she said — twice.",
    "prices rose 3.5% to $85,000 in the U.S. market.",
    "the the food food was was good good .",
] * 5

KINDS = {"word": {"min_count": 6}, "bpe": {"size": 350}, "unigram": {"size": 90}}


@pytest.fixture(params=KINDS)
def tokenizer(request) -> Tokenizer:
    return train_tokenizer(TEXTS, request.param, styles=["b", "a"], **KINDS[request.param])


def test_special_and_style_tokens_come_first_in_order(tokenizer):
    ids = special_ids(tokenizer)
    assert [ids.pad, ids.unk, ids.cls, ids.sep, ids.mask, ids.end] == list(range(6))
    assert ids.styles == {"a": 6, "b": 7}
    assert is_special(tokenizer).nonzero()[0].tolist() == list(range(8))


def test_a_tokenizer_adds_nothing_to_a_text(tokenizer):
    assert tokenizer.encode("the food").ids == tokenizer.encode("the food", add_special_tokens=False).ids


def test_transformers_loads_the_same_tokenizer(tokenizer, tmp_path):
    from transformers import PreTrainedTokenizerFast

    tokenizer.save(str(tmp_path / "tokenizer.json"))
    fast = PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    assert len(fast) == tokenizer.get_vocab_size()
    assert [fast(text)["input_ids"] for text in TEXTS] == [tokenizer.encode(text).ids for text in TEXTS]


@pytest.mark.parametrize("text", [*TEXTS[:3], "a  b", "日本 🙂 \t x", "<sep> <style:a>"])
def test_bytes_survive_bpe(text):
    tokenizer = train_tokenizer(TEXTS, "bpe", size=350, styles=["a"])
    tokenizer.encode_special_tokens = True
    assert tokenizer.decode(tokenizer.encode(text).ids).removeprefix(" ") == text


def test_known_words_survive_the_other_kinds():
    word = train_tokenizer(TEXTS, "word", min_count=6)
    assert word.decode(word.encode("the food was good").ids) == "the food was good"
    assert word.encode("naïve").tokens == ["<unk>"]
    assert "twice." not in word.get_vocab()  # seen five times
    unigram = train_tokenizer(TEXTS, "unigram", size=90)
    assert unigram.decode(unigram.encode(TEXTS[1]).ids) == TEXTS[1]


def test_sentences_end_to_end_are_the_tokens_of_the_whole_text(tokenizer):
    """So windows of sentences can be cut out of the token array."""
    joined = [id_ for text in TEXTS[:3] for id_ in tokenizer.encode(text).ids]
    assert joined == tokenizer.encode(" ".join(TEXTS[:3])).ids


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_corpus_gives_the_same_file_in_another_process(kind):
    program = (
        "import hashlib, sys; from xl_editor.training.vocabulary import train_tokenizer;"
        f"sys.stdout.write(hashlib.md5(train_tokenizer({TEXTS!r}, {kind!r}, **{KINDS[kind]!r})"
        ".to_str().encode()).hexdigest())"
    )
    elsewhere = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    here = train_tokenizer(TEXTS, kind, **KINDS[kind]).to_str()
    assert hashlib.md5(here.encode()).hexdigest() == elsewhere.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_in_the_corpus_do_not_move_those_of_the_vocabulary(kind):
    noisy = [*TEXTS, *["<sep> <sep> <unk> the <end>"] * 50]
    tokenizer = train_tokenizer(noisy, kind, **KINDS[kind])
    assert [tokenizer.token_to_id(token) for token in SPECIAL_TOKENS] == list(range(6))
    assert sorted(tokenizer.get_vocab().values()) == list(range(tokenizer.get_vocab_size()))


def test_words_begin_after_spaces_and_with_closing_marks_and_clitics():
    tokenizer = train_tokenizer(TEXTS * 3, "bpe", size=400)
    table = starts_word(tokenizer)

    def words(text):
        encoding = tokenizer.encode(text)
        found = []
        for token, id_ in zip(encoding.tokens, encoding.ids, strict=True):
            if table[id_] or not found:
                found.append("")
            found[-1] += token.replace("Ġ", "")
        return found

    assert words("the waiter was good, market.") == ["the", "waiter", "was", "good", ",", "market", "."]
    assert words("It's food") == ["It", "'s", "food"]
    assert starts_word(train_tokenizer(TEXTS, "word")).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "bpe"}, "needs a size"),
        ({"kind": "bpe", "size": 100}, "at least 262"),
        ({"kind": "word", "min_count": 1000}, "no word"),
    ],
)
def test_vocabularies_that_cannot_be(arguments, message):
    with pytest.raises(VocabularyError, match=message):
        train_tokenizer(TEXTS, **arguments)


@pytest.fixture(scope="module")
def xlnet_directory(tmp_path_factory):
    """A SentencePiece model as XLNet's is made, control symbols included, but tiny."""
    sentencepiece = pytest.importorskip("sentencepiece")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS),
        model_writer=model,
        vocab_size=60,
        model_type="unigram",
        unk_id=0,
        bos_id=1,
        eos_id=2,
        pad_id=-1,
        control_symbols=["<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>"],
        minloglevel=2,
    )
    directory = tmp_path_factory.mktemp("xlnet")
    (directory / "spiece.model").write_bytes(model.getvalue())
    return directory


def test_xlnets_sentencepiece_model_is_read_as_sentencepiece_reads_it(xlnet_directory):
    import sentencepiece

    reference = sentencepiece.SentencePieceProcessor(model_file=str(xlnet_directory / "spiece.model"))
    tokenizer = pretrained_tokenizer(xlnet_directory, styles=["y", "x"])
    for text in (TEXTS[0], TEXTS[2], "what was said twice"):
        assert tokenizer.encode(text).ids == reference.encode(text)
    ids = special_ids(tokenizer)
    assert (ids.unk, ids.cls, ids.sep, ids.pad, ids.mask) == (0, 3, 4, 5, 6)
    assert (ids.end, ids.styles) == (60, {"x": 61, "y": 62})


def test_our_own_tokenizer_is_taken_as_it_is_and_gains_new_styles(tmp_path, xlnet_directory):
    first = pretrained_tokenizer(xlnet_directory, styles=["x"])
    first.save(str(tmp_path / "tokenizer.json"))
    again = pretrained_tokenizer(tmp_path, styles=["x"])
    assert again.to_str() == first.to_str()
    more = pretrained_tokenizer(tmp_path, styles=["a", "x"])
    assert special_ids(more).styles == {"a": 62, "x": 61}


def test_a_directory_without_a_tokenizer_is_refused(tmp_path):
    with pytest.raises(VocabularyError, match=r"neither tokenizer.json nor spiece.model"):
        pretrained_tokenizer(tmp_path)
    (tmp_path / "spiece.model").write_bytes(b"\x0a\xff\xff nonsense")
    with pytest.raises(VocabularyError, match=r"spiece.model is not a SentencePiece model"):
        pretrained_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(VocabularyError, match=r"tokenizer.json is not a tokenizer"):
        pretrained_tokenizer(tmp_path)


def test_a_tokenizer_without_end_is_not_ours():
    tokenizer = train_tokenizer(TEXTS, "word")
    assert tokenizer.token_to_id(END) == 5
    plain = Tokenizer.from_str(tokenizer.to_str().replace("<end>", "<fin>"))
    with pytest.raises(VocabularyError, match="lacks <end>"):
        special_ids(plain)
