"""The TextCNN learns a toy contrast, repeats itself for a seed, and comes back from disk as it was."""

from pathlib import Path

import numpy as np
import pytest
import torch

from xl_editor.evaluation.textcnn import (
    StyleClassifier,
    TextCNN,
    TextCNNConfig,
    TrainingOptions,
    accuracy,
    add_noise,
    encode,
    train_textcnn,
)

CONFIG = TextCNNConfig(widths=(1, 2), n_filters=8, embedding_size=16)
OPTIONS = TrainingOptions(n_steps=120, batch_size=16, learning_rate=5e-3, check_every=30)


def toy_lines(n_lines: int, seed: int) -> dict[str, list[str]]:
    """Styles that differ in one word somewhere among words without meaning."""
    random = np.random.default_rng(seed)
    lines: dict[str, list[str]] = {"neg": [], "pos": []}
    for style, word in (("neg", "awful"), ("pos", "lovely")):
        for _ in range(n_lines):
            words = random.choice(["the", "food", "was", "and", "place", "staff"], size=random.integers(5, 9))
            words[random.integers(len(words))] = word
            lines[style].append(" ".join(words))
    return lines


@pytest.fixture(scope="module")
def classifier() -> StyleClassifier:
    return train_textcnn(toy_lines(200, seed=0), toy_lines(50, seed=1), CONFIG, OPTIONS, progress=False)


def test_filters_and_their_gradients_are_torchs_convolutions() -> None:
    model = TextCNN(20, TextCNNConfig(widths=(1, 3, 7), n_filters=4, embedding_size=6)).eval()
    ids = torch.randint(20, (40, 20))  # more than are looked at together
    embedded = model.embedding(ids).transpose(1, 2)
    maxima = [convolution(embedded).max(dim=2).values for convolution in model.convolutions]
    expected = model.output(torch.nn.functional.leaky_relu(torch.cat(maxima, dim=1), 0.01)).squeeze(1)
    logits = model(ids)
    torch.testing.assert_close(logits, expected)
    weights = list(model.parameters())
    for found, wanted in zip(
        torch.autograd.grad(logits.square().sum(), weights),
        torch.autograd.grad(expected.square().sum(), weights),
        strict=True,
    ):
        torch.testing.assert_close(found, wanted)


def test_learns_a_toy_contrast(classifier: StyleClassifier) -> None:
    assert accuracy(classifier, toy_lines(100, seed=2)) == 100
    assert classifier.is_style(["the food was lovely", "an awful place"], "pos").tolist() == [True, False]
    assert classifier.is_style(["the food was lovely", "an awful place"], "neg").tolist() == [False, True]
    logits = classifier.logits(["the food was lovely", "an awful place"])
    assert not classifier.is_style(["the food was lovely"], "pos", margin=logits[0] + 0.1)[0]
    assert classifier.is_style(["an awful place"], "neg", margin=-logits[1] - 0.1)[0]


def test_the_kept_checkpoint_has_the_reported_accuracy() -> None:
    # With the styles of the development lines swapped, learning makes things worse: an early step is best.
    lines = toy_lines(50, seed=1)
    dev = {"neg": lines["pos"], "pos": lines["neg"]}
    options = TrainingOptions(n_steps=60, batch_size=16, learning_rate=5e-3, check_every=1)
    classifier = train_textcnn(toy_lines(200, seed=0), dev, CONFIG, options, progress=False)
    assert 0 < classifier.report.step < 60
    assert classifier.report.dev_accuracy > 10
    assert accuracy(classifier, dev) == pytest.approx(classifier.report.dev_accuracy)


def test_the_same_seed_gives_the_same_classifier(classifier: StyleClassifier) -> None:
    torch.manual_seed(99)  # what the caller did with the global generator must not matter
    again = train_textcnn(toy_lines(200, seed=0), toy_lines(50, seed=1), CONFIG, OPTIONS, progress=False)
    texts = toy_lines(20, seed=3)["neg"]
    assert again.logits(texts).tolist() == classifier.logits(texts).tolist()


def test_an_interrupted_training_goes_on_to_the_same_classifier(
    classifier: StyleClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []

    def interrupted(judged: StyleClassifier, lines: dict[str, list[str]]) -> float:
        looks.append(lines)
        if len(looks) == 6:  # two a check: between the second checkpoint and the third
            raise KeyboardInterrupt
        return accuracy(judged, lines)

    unfinished = tmp_path / "work" / "unfinished.safetensors"
    train = lambda: train_textcnn(  # noqa: E731
        toy_lines(200, seed=0), toy_lines(50, seed=1), CONFIG, OPTIONS, unfinished=unfinished, progress=False
    )
    monkeypatch.setattr("xl_editor.evaluation.textcnn.accuracy", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train()
    monkeypatch.undo()
    n_before = len(looks)
    monkeypatch.setattr("xl_editor.evaluation.textcnn.accuracy", lambda *asked: looks.append(asked) or accuracy(*asked))
    resumed = train()
    assert len(looks) - n_before == 2 * 2  # of four checks the first two are not made again
    texts = toy_lines(20, seed=3)["neg"]
    assert resumed.logits(texts).tolist() == classifier.logits(texts).tolist()
    assert resumed.report == classifier.report


def test_what_was_trained_otherwise_is_not_gone_on_with(classifier: StyleClassifier, tmp_path: Path) -> None:
    unfinished = tmp_path / "unfinished.safetensors"
    lines, dev = toy_lines(200, seed=0), toy_lines(50, seed=1)
    other = TrainingOptions(seed=5, n_steps=30, batch_size=16, check_every=30)
    train_textcnn(lines, dev, CONFIG, other, unfinished=unfinished, progress=False)
    again = train_textcnn(lines, dev, CONFIG, OPTIONS, unfinished=unfinished, progress=False)
    assert again.logits(["the food"]).tolist() == classifier.logits(["the food"]).tolist()
    wider = TextCNNConfig(widths=(1, 2, 3), n_filters=8, embedding_size=16)
    assert train_textcnn(lines, dev, wider, OPTIONS, unfinished=unfinished, progress=False).report.step > 0
    unfinished.write_bytes(b"text")
    with pytest.raises(ValueError, match=r"unfinished\.safetensors holds no training that can be read; remove it"):
        train_textcnn(lines, dev, CONFIG, OPTIONS, unfinished=unfinished, progress=False)


def test_another_seed_gives_another_classifier(classifier: StyleClassifier) -> None:
    options = TrainingOptions(seed=1, n_steps=5, batch_size=16)
    other = train_textcnn(toy_lines(200, seed=0), toy_lines(50, seed=1), CONFIG, options, progress=False)
    assert other.logits(["the food"]).tolist() != classifier.logits(["the food"]).tolist()


def test_training_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    options = TrainingOptions(n_steps=2, batch_size=4)
    train_textcnn(toy_lines(20, seed=0), toy_lines(5, seed=1), CONFIG, options, progress=False)
    assert torch.equal(torch.rand(3), expected)


def test_round_trip(classifier: StyleClassifier, tmp_path: Path) -> None:
    classifier.save(tmp_path / "saved")
    loaded = StyleClassifier.load(tmp_path / "saved")
    texts = toy_lines(20, seed=3)["pos"]
    assert loaded.logits(texts).tolist() == classifier.logits(texts).tolist()
    assert (loaded.options, loaded.report, loaded.styles) == (
        classifier.options,
        classifier.report,
        classifier.styles,
    )
    assert loaded.model.config == classifier.model.config
    assert {file.suffix for file in (tmp_path / "saved").iterdir()} == {".safetensors", ".json"}


def test_a_batch_gives_what_single_texts_give(classifier: StyleClassifier) -> None:
    texts = toy_lines(30, seed=4)["neg"] + ["", "unseen words only"]
    batched = classifier.logits(texts, batch_size=7)
    single = np.concatenate([classifier.logits([text]) for text in texts])
    np.testing.assert_allclose(batched, single, atol=1e-5)


def test_no_texts_give_no_logits(classifier: StyleClassifier) -> None:
    assert classifier.logits([]).shape == (0,)


def test_words_past_the_last_position_are_not_read(classifier: StyleClassifier) -> None:
    long_text = " ".join(["the"] * 20)
    assert classifier.logits([long_text]).tolist() == classifier.logits([long_text + " lovely"]).tolist()


def test_maximum_over_time_and_leaky_relu_by_hand() -> None:
    model = TextCNN(3, TextCNNConfig(widths=(1,), n_filters=2, embedding_size=1, n_positions=2)).eval()
    with torch.no_grad():
        model.embedding.weight.copy_(torch.tensor([[0.0], [1.0], [2.0]]))
        model.convolutions[0].weight.copy_(torch.tensor([[[3.0]], [[-5.0]]]))
        model.convolutions[0].bias.zero_()
        model.output.weight.copy_(torch.tensor([[1.0, 1.0]]))
        model.output.bias.zero_()
        # filters see 3·(1, 2) and −5·(1, 2); maxima 6 and −5, the latter leaking 0.01
        assert model(torch.tensor([[1, 2]])).item() == pytest.approx(6 - 0.05)


def test_embeddings_start_as_unit_vectors() -> None:
    norms = TextCNN(50, CONFIG).embedding.weight.norm(dim=1)
    torch.testing.assert_close(norms, torch.ones(50))


def test_encoding_pads_cuts_and_masks() -> None:
    word_ids = {"<pad>": 0, "<unk>": 1, "good": 2}
    assert encode(["Good food", "good good good good", ""], word_ids, 3).tolist() == [
        [2, 1, 0],
        [2, 2, 2],
        [0, 0, 0],
    ]


def test_noise_moves_words_by_one_place_and_padding_by_none() -> None:
    ids = np.zeros((500, 12), dtype=np.int64)
    ids[:, :9] = np.arange(2, 11)
    noisy = add_noise(ids, 0, 1, TrainingOptions(unknown_rate=0.0), np.random.default_rng(0))
    assert (noisy[:, 9:] == 0).all()
    assert (np.sort(noisy, axis=1) == np.sort(ids, axis=1)).all()
    assert np.abs(noisy[:, :9] - ids[:, :9]).max() == 1


def test_noise_replaces_about_a_third_of_the_words() -> None:
    ids = np.zeros((500, 12), dtype=np.int64)
    ids[:, :9] = 5
    noisy = add_noise(ids, 0, 1, TrainingOptions(), np.random.default_rng(0))
    assert (noisy == 1).mean() * 12 / 9 == pytest.approx(0.3, abs=0.03)
    assert (noisy[:, 9:] == 0).all()


def test_an_unknown_style_is_named(classifier: StyleClassifier) -> None:
    with pytest.raises(ValueError, match="'sad': this classifier knows neg and pos"):
        classifier.is_style(["text"], "sad")


def test_lines_of_unfit_length_are_an_error() -> None:
    short = {"neg": ["too short"], "pos": ["this one is long enough though"]}
    with pytest.raises(ValueError, match="style 'neg' has more than 4 and fewer than 20 words"):
        train_textcnn(short, short, CONFIG, OPTIONS, progress=False)


def test_other_than_two_styles_are_an_error() -> None:
    with pytest.raises(ValueError, match="same two styles"):
        train_textcnn({"neg": ["a"]}, {"neg": ["a"]}, CONFIG, OPTIONS, progress=False)


def test_a_missing_classifier_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"No trained TextCNN in .*model\.safetensors is missing"):
        StyleClassifier.load(tmp_path)


@pytest.mark.parametrize(
    ("name", "content"), [("model.safetensors", b"text"), ("textcnn.json", b"[]"), ("textcnn.json", b"{")]
)
def test_a_damaged_classifier_is_named(classifier: StyleClassifier, name: str, content: bytes, tmp_path: Path) -> None:
    classifier.save(tmp_path)
    assert (tmp_path / name).exists()
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{tmp_path.name} holds no TextCNN that can be read"):
        StyleClassifier.load(tmp_path)
