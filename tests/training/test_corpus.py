"""Corpora: files as people have them, every sentence once an epoch, a cache that is whole or not there."""

import gzip
import json
import lzma

import numpy as np
import pytest

from xl_editor.training import corpus as module
from xl_editor.training.corpus import (
    CorpusError,
    Source,
    find_styles,
    load_corpus,
    load_tokenizer,
    read_articles,
)
from xl_editor.training.vocabulary import train_tokenizer

WORDS = [f"w{i}" for i in range(100)]


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer([" ".join(WORDS)], "word", styles=["neg", "pos"])


@pytest.fixture
def load(tokenizer, tmp_path):
    """Load files into a corpus, with a cache of this test's own."""

    def load(*sources, **settings):
        return load_corpus(sources, tokenizer, cache=tmp_path / "cache", **settings)

    return load


def written(path, content, style=None) -> Source:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return Source(path, style)


def jsonl(path, *entries) -> Source:
    return written(path, "".join(json.dumps(entry) + "\n" for entry in entries))


def texts(corpus, tokenizer, **settings) -> list[str]:
    sequences = corpus.sequences(**{"window": 1, "max_tokens": 50, **settings})
    return [
        tokenizer.decode(corpus.tokens[start:end].tolist(), skip_special_tokens=False)
        for start, end in zip(sequences.starts, sequences.ends, strict=True)
    ]


def test_lines_become_sequences(load, tokenizer, tmp_path):
    long = " ".join(WORDS * 100)  # 10,000 words
    source = written(tmp_path / "a.txt", f"\ufeffw1 w2\r\n\r\n   \nw3\n{long}\nw4 nowhere <sep> w5")
    corpus = load(source)
    assert texts(corpus, tokenizer) == ["w1 w2", "w3", " ".join(WORDS[:50]), "w4 <unk> <unk> w5"]
    assert corpus.sequences(window=1, max_tokens=50).n_cut == 1
    counts = corpus.counts
    assert (counts.n_articles, counts.n_sentences, counts.n_tokens) == (4, 4, 10_007)
    assert (counts.n_empty_lines, counts.n_unknown, counts.n_bad_lines) == (2, 2, 0)


@pytest.mark.parametrize("name", ["a.txt", "a.gz", "a.xz", "a.neg.gz"])
def test_packed_files_are_unpacked(load, tokenizer, tmp_path, name):
    pack = {".gz": gzip.compress, ".xz": lzma.compress}.get((tmp_path / name).suffix, bytes)
    corpus = load(written(tmp_path / name, pack(b"w1 w2\nw3\n")))
    assert texts(corpus, tokenizer) == ["w1 w2", "w3"]


def test_jsonl_has_articles_texts_and_styles(load, tokenizer, tmp_path):
    source = jsonl(
        tmp_path / "a.jsonl",
        {"id": 7, "sents": ["w1", " ", "w2 w3"], "style": "pos"},
        {"text": "w4", "style": "neg"},
    )
    assert find_styles([source]) == ("neg", "pos")
    corpus = load(source, style_names=("neg", "pos"))
    assert texts(corpus, tokenizer) == ["w1", "w2 w3", "w4"]
    assert corpus.sequences(window=1, max_tokens=50).styles.tolist() == [1, 1, 0]
    assert texts(corpus, tokenizer, window=2) == ["w1 w2 w3"]  # a window of one token is no window


def test_styled_files(load, tmp_path):
    negative, positive = (
        written(tmp_path / style, f"{word}\n" * 3, style) for style, word in (("neg", "w1"), ("pos", "w2"))
    )
    assert find_styles([positive, negative]) == ("neg", "pos")
    corpus = load(negative, positive, style_names=("neg", "pos"))
    assert corpus.sequences(window=1, max_tokens=9).styles.tolist() == [0, 0, 0, 1, 1, 1]


BAD_FILES = {
    "bad UTF-8": ("a.txt", b"fine\nw1 \xa3\xac w2\n", r"a\.txt, line 2: byte 4 \(0xa3\) is not UTF-8"),
    "UTF-16": ("a.txt", "w1 w2\n".encode("utf-16"), r"a\.txt, line 1: byte 1 \(0xff\) is not UTF-8"),
    "empty": ("a.txt", b"", r"a\.txt holds no text"),
    "white space": ("a.txt", b" \r\n\n", r"a\.txt holds no text"),
    "not packed": ("a.gz", b"w1 w2\n", r"a\.gz cannot be unpacked"),
    "truncated gz": ("a.gz", gzip.compress(b"w1 w2 " * 500)[:30], r"a\.gz cannot be unpacked"),
    "truncated xz": ("a.xz", lzma.compress(b"w1 w2 " * 500)[:60], r"a\.xz cannot be unpacked"),
    "not JSON": ("a.jsonl", b'{"text": "w1"}\n{oops\n', r"a\.jsonl, line 2: not valid JSON"),
    "no text": ("a.jsonl", b'\n{"body": "w1"}\n', r"a\.jsonl, line 2: expected a JSON object with either"),
    "both": ("a.jsonl", b'{"text": "w1", "sents": []}\n', r"line 1: expected a JSON object with either"),
    "a list": ("a.jsonl", b'["w1"]\n', r"a\.jsonl, line 1: expected a JSON object"),
    "numbers": ("a.jsonl", b'{"sents": ["w1", 2]}\n', r"line 1: `sents` must be a list of strings"),
    "odd style": ("a.jsonl", b'{"text": "w1", "style": 3}\n', r"line 1: `style` must be a string, got 3"),
    "empty style": ("a.jsonl", b'{"text": "w1", "style": ""}\n', r"line 1: the style '' must be a word"),
    "style of two words": ("a.jsonl", b'{"text": "w1", "style": "a b"}\n', r"line 1: the style 'a b' must be a word"),
    "stray style": (
        "a.jsonl",
        b'{"text": "w1"}\n{"text": "w1", "style": "pos"}\n',
        r"line 2: has the style 'pos'",
    ),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files_are_refused_by_name_and_line(load, tmp_path, case):
    name, content, message = BAD_FILES[case]
    source = written(tmp_path / name, content)
    with pytest.raises(CorpusError, match=message) as error:
        load(source)
    assert "\n" not in str(error.value)
    assert str(tmp_path) in str(error.value)
    assert not [path for path in (tmp_path / "cache").iterdir() if path.is_dir()]  # and nothing is left behind


def test_a_missing_file_an_unknown_style_and_a_lacking_style_are_refused(load, tmp_path):
    with pytest.raises(CorpusError, match=r"nowhere\.txt cannot be read: No such file"):
        load(Source(tmp_path / "nowhere.txt", "neg"))
    with pytest.raises(CorpusError, match=r"line 1: has the style 'odd', expected one of neg, pos"):
        load(written(tmp_path / "a.txt", "w1\n", "odd"), style_names=("neg", "pos"))
    with pytest.raises(CorpusError, match=r"line 2: has no style, expected one of neg, pos"):
        load(
            jsonl(tmp_path / "b.jsonl", {"text": "w1", "style": "neg"}, {"text": "w1"}),
            style_names=("neg", "pos"),
        )
    labelled = jsonl(tmp_path / "c.jsonl", {"text": "w1", "style": "neg"})
    with pytest.raises(CorpusError, match=r"line 1: has style 'neg', but the file was given as 'pos'"):
        load(Source(labelled.path, "pos"), style_names=("neg", "pos"))


def test_bad_lines_can_be_skipped(load, tokenizer, tmp_path):
    corpus = load(written(tmp_path / "a.txt", b"w1\nw\xa3\nw2\n"), skip_bad_lines=True)
    assert texts(corpus, tokenizer) == ["w1", "w2"]
    assert corpus.counts.n_bad_lines == 1


@pytest.fixture
def articles(load, tmp_path):
    """Thirty articles of 1 to 12 sentences, each sentence of two or more tokens, no sentence like another."""
    random = np.random.default_rng(0)
    sentences = iter([f"{a} {b}" for a in WORDS for b in WORDS[:3]])
    return load(
        jsonl(
            tmp_path / "news.jsonl",
            *({"sents": [next(sentences) for _ in range(random.integers(1, 13))]} for _ in range(30)),
        )
    )


@pytest.mark.parametrize("window", [1, 2, 3, 5])
def test_every_sentence_is_seen_once_an_epoch_in_windows_of_one_article(articles, window):
    for epoch in (0, 1, 2, None):
        sequences = articles.sequences(window=window, max_tokens=999, seed=4, epoch=epoch)
        assert sequences.starts[0] == 0
        assert sequences.ends[-1] == articles.counts.n_tokens
        np.testing.assert_array_equal(sequences.starts[1:], sequences.ends[:-1])
        ends_of_articles = articles.sentence_offsets[articles.article_offsets]
        assert set(ends_of_articles[1:].tolist()) <= set(sequences.ends.tolist())
        assert set(sequences.starts.tolist()) <= set(articles.sentence_offsets.tolist())
        n_sentences = np.searchsorted(articles.sentence_offsets, sequences.ends) - np.searchsorted(
            articles.sentence_offsets, sequences.starts
        )
        assert n_sentences.max() == window
        assert (n_sentences < window).sum() <= 2 * articles.counts.n_articles


def test_articles_may_have_windows_of_different_lengths(articles):
    found = set()
    for epoch in (0, 1, 2, None):
        sequences = articles.sequences(window=5, least_window=2, max_tokens=999, seed=4, epoch=epoch)
        np.testing.assert_array_equal(sequences.starts[1:], sequences.ends[:-1])
        of_article = np.searchsorted(articles.sentence_offsets[articles.article_offsets], sequences.starts, "right")
        sizes = np.diff(np.searchsorted(articles.sentence_offsets, [*sequences.starts, sequences.ends[-1]]))
        for article in np.unique(of_article):
            inner = sizes[of_article == article][1:-1]  # those at the ends may be shorter
            assert len(set(inner)) <= 1
            found |= set(inner.tolist())
    assert found == {2, 3, 4, 5}


def test_windows_differ_between_epochs_and_seeds_but_not_otherwise(articles):
    def starts(**settings):
        return articles.sequences(window=3, max_tokens=999, **settings).starts.tolist()

    assert starts(seed=1, epoch=0) == starts(seed=1, epoch=0)
    assert starts(seed=1, epoch=0) != starts(seed=1, epoch=1)
    assert starts(seed=1, epoch=0) != starts(seed=2, epoch=0)
    assert starts(seed=1) == starts(seed=2)
    # Without an epoch every article begins with a whole window.
    whole = [
        articles.sentence_offsets[min(first + 3, last)]
        for first, last in zip(articles.article_offsets, articles.article_offsets[1:], strict=False)
    ]
    assert set(whole) <= set(articles.sequences(window=3, max_tokens=999).ends.tolist())


def test_long_sequences_are_cut_after_a_whole_word(tmp_path):
    texts = ["unbelievable believers believe", "x" * 40]
    tokenizer = train_tokenizer(["a b"], "bpe", size=300)  # letters only: every word is many tokens
    source = written(tmp_path / "a.txt", "\n".join(texts))
    corpus = load_corpus([source], tokenizer, cache=tmp_path / "cache")
    sequences = corpus.sequences(window=1, max_tokens=25)
    cut = [
        tokenizer.decode(corpus.tokens[start:end].tolist()).strip()
        for start, end in zip(sequences.starts, sequences.ends, strict=True)
    ]
    assert cut == ["unbelievable believers", "x" * 24]  # one word that is too long is cut within
    assert sequences.n_cut == 2
    exact = corpus.sequences(window=1, max_tokens=int(sequences.lengths[0]))
    assert exact.lengths[0] == sequences.lengths[0]


def test_development_text_can_be_held_out(load, tmp_path):
    corpus = load(written(tmp_path / "a.txt", "\n".join(f"w{i % 100} zz" for i in range(200))))
    train, held_out = (part.sequences(window=1, max_tokens=9) for part in corpus.hold_out())
    assert (len(train), len(held_out)) == (196, 4)
    assert not set(train.starts.tolist()) & set(held_out.starts.tolist())
    counts = [part.counts for part in corpus.hold_out()]
    assert [(c.n_articles, c.n_sentences, c.n_tokens) for c in counts] == [(196, 196, 392), (4, 4, 8)]
    assert sum(c.n_unknown for c in counts) == corpus.counts.n_unknown > 0
    with pytest.raises(CorpusError, match="single article"):
        load(written(tmp_path / "b.txt", "w1 w2")).hold_out()


def test_the_cache_is_used_and_knows_what_it_holds(load, tokenizer, tmp_path, monkeypatch):
    source = written(tmp_path / "a.txt", "w1 w2\nw3\n")
    first = load(source)
    monkeypatch.setattr(module, "_tokenise", lambda *_: pytest.fail("tokenised once more"))
    again = load(source)
    moved = load(written(tmp_path / "b.txt", "w1 w2\nw3\n"))  # the same text elsewhere
    for corpus in (again, moved):
        assert corpus.counts == first.counts
        np.testing.assert_array_equal(corpus.tokens, first.tokens)
    assert isinstance(again.tokens, np.memmap)
    monkeypatch.undo()
    assert texts(load(written(tmp_path / "a.txt", "w9\n")), tokenizer) == ["w9"]
    other = train_tokenizer(["w3 w1 w2"], "word")
    assert texts(load_corpus([Source(tmp_path / "b.txt")], other, cache=tmp_path / "cache"), other) == [
        "w1 w2",
        "w3",
    ]


@pytest.mark.parametrize("damage", ["counts.json", "tokens.bin", "styles.npy", "truncated", "garbled"])
def test_an_incomplete_cache_directory_is_made_anew(load, tokenizer, tmp_path, damage):
    source = written(tmp_path / "a.txt", "w1 w2\nw3\n")
    load(source)
    (directory,) = (tmp_path / "cache").iterdir()
    if damage == "truncated":
        (directory / "tokens.bin").write_bytes(b"\0\0")
    elif damage == "garbled":
        (directory / "counts.json").write_text('{"n_tok')
    else:
        (directory / damage).unlink()
    assert texts(load(source), tokenizer) == ["w1 w2", "w3"]


def test_an_interrupted_run_leaves_nothing_that_looks_complete(load, tokenizer, tmp_path, monkeypatch):
    source = written(tmp_path / "a.txt", "w1 w2\nw3\n")
    save = np.save

    def interrupted(path, array):
        if "styles" in str(path):
            raise KeyboardInterrupt
        save(path, array)

    monkeypatch.setattr(np, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        load(source)
    assert not list((tmp_path / "cache").glob("corpus-*"))
    monkeypatch.undo()
    # A process that is killed cannot clean up: what it leaves has another name.
    (tmp_path / "cache" / ".corpus-killed.xyz").mkdir(parents=True)
    assert texts(load(source), tokenizer) == ["w1 w2", "w3"]


def test_of_two_processes_that_make_the_same_corpus_the_first_one_wins(load, tokenizer, tmp_path, monkeypatch):
    source = written(tmp_path / "a.txt", "w1 w2\nw3\n")
    tokenise = module._tokenise

    made = []

    def overtaken(*arguments):
        monkeypatch.undo()
        load(source)
        made.extend(path.stat().st_ino for path in (tmp_path / "cache").glob("corpus-*"))
        tokenise(*arguments)

    monkeypatch.setattr(module, "_tokenise", overtaken)
    assert texts(load(source), tokenizer) == ["w1 w2", "w3"]
    assert [path.stat().st_ino for path in (tmp_path / "cache").iterdir()] == made


def test_special_tokens_in_a_text_are_text(tmp_path):
    tokenizer = train_tokenizer(["a b"], "bpe", size=300)
    source = written(tmp_path / "a.txt", "a <sep> b\n")
    corpus = load_corpus([source], tokenizer, cache=tmp_path / "cache")
    assert tokenizer.decode(corpus.tokens.tolist()) == " a <sep> b"
    assert corpus.counts.n_unknown == 0


def test_large_vocabularies_need_wider_tokens(tmp_path):
    tokenizer = train_tokenizer([" ".join(map(str, range(70_000)))], "word")
    corpus = load_corpus([written(tmp_path / "a.txt", "69999 3\n")], tokenizer, cache=tmp_path / "cache")
    assert corpus.tokens.dtype == np.uint32
    assert tokenizer.decode(corpus.tokens.tolist()) == "69999 3"


def test_progress_ends_at_the_size_of_all_files(tokenizer, tmp_path):
    sources = [written(tmp_path / name, "w1 w2\n" * 9000) for name in ("a.txt", "b.txt")]
    seen = []
    load_corpus(sources, tokenizer, cache=tmp_path / "cache", progress=lambda *at: seen.append(at))
    assert seen == sorted(seen)
    assert len(seen) > 4
    assert seen[-1] == (108_000, 108_000)


def test_the_tokenizer_of_a_corpus_is_trained_once(tmp_path, monkeypatch):
    source = written(tmp_path / "a.txt", "a b a b\n" * 3)
    settings = {"kind": "word", "min_count": 2, "styles": ("x",), "cache": tmp_path / "cache"}
    first = load_tokenizer([source], **settings)
    monkeypatch.setattr(module, "train_tokenizer", lambda *_, **__: pytest.fail("trained once more"))
    assert load_tokenizer([source], **settings).to_str() == first.to_str()
    monkeypatch.undo()
    assert load_tokenizer([source], **{**settings, "styles": ()}).get_vocab_size() == 8


def test_articles_are_read_one_by_one(tmp_path):
    """A bad line is noticed when it is reached, not before: the file is never held as a whole."""
    source = written(tmp_path / "a.txt", b"w1\n" * 5 + b"\xff\n")
    articles = read_articles(source)
    assert [next(articles).line for _ in range(5)] == [1, 2, 3, 4, 5]
    with pytest.raises(CorpusError, match="line 6"):
        next(articles)
