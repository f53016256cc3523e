"""A judge of style from another family than the TextCNNs: logistic regression over runs of one to three words.

Networks that were trained alike are fooled alike: a word put before a sentence convinces one TextCNN as it convinces
another. Here every n-gram that a text has adds its weight once, and nothing else counts. No word is hidden, in training
or after. It is trained in a few minutes, and kept.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from xl_editor.errors import RequestError
from xl_editor.files import write_whole

from .words import split_words

ORDER = 3
MIN_LINES = 2  # of training that must have an n-gram
INVERSE_REGULARISATION = 1.0  # scikit-learn's C, at its default: what a judge says of the rows must not choose it

WEIGHTS_FILE = "model.safetensors"
CARD_FILE = "ngrams.json"


@dataclass(frozen=True)
class NgramClassifier:
    styles: tuple[str, str]
    weights: Mapping[str, float]  # of each n-gram, towards the second style
    bias: float
    dev_accuracy: float  # in per cent

    def logits(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """One logit a text; above zero means the second style."""
        return np.array([self.bias + sum(self.weights.get(n, 0.0) for n in set(ngrams(text))) for text in texts])

    def is_style(self, texts: Sequence[str], style: str) -> NDArray[np.bool_]:
        """For each text, whether it is classed as `style`."""
        if style not in self.styles:
            raise RequestError(f"Unknown style {style!r}: this classifier knows {' and '.join(self.styles)}.")
        return (self.logits(texts) > 0) == (style == self.styles[1])

    def save(self, directory: Path) -> None:
        """Writes the weights (safetensors) and a card (JSON) with everything else."""
        directory.mkdir(parents=True, exist_ok=True)
        tensors = {"weights": np.array(list(self.weights.values())), "bias": np.array(self.bias)}
        write_whole(directory / WEIGHTS_FILE, safetensors.numpy.save(tensors))
        card = {"styles": self.styles, "dev_accuracy": self.dev_accuracy, "ngrams": list(self.weights)}
        write_whole(directory / CARD_FILE, json.dumps(card, ensure_ascii=False))

    @classmethod
    def load(cls, directory: Path) -> "NgramClassifier":
        """Reads what `save` wrote."""
        try:
            card = json.loads((directory / CARD_FILE).read_text(encoding="utf-8"))
            tensors = safetensors.numpy.load_file(directory / WEIGHTS_FILE)
            weights = dict(zip(card["ngrams"], tensors["weights"].tolist(), strict=True))
            return cls(tuple(card["styles"]), weights, float(tensors["bias"]), card["dev_accuracy"])
        except (SafetensorError, ValueError, TypeError, KeyError) as error:
            raise RequestError(f"{directory} holds no readable n-gram classifier; remove it: {error}.") from None


def train_ngram_classifier(train: Mapping[str, Sequence[str]], dev: Mapping[str, Sequence[str]]) -> NgramClassifier:
    """Trains on the lines of two styles, which weigh the same however many lines they have."""
    first, second = train
    counter = CountVectorizer(analyzer=ngrams, min_df=MIN_LINES, binary=True, dtype=np.float64)
    features = counter.fit_transform([*train[first], *train[second]])
    labels = np.repeat([0, 1], [len(train[first]), len(train[second])])
    model = LogisticRegression(C=INVERSE_REGULARISATION, solver="liblinear", class_weight="balanced")
    model.fit(features, labels)
    weights = dict(zip(counter.get_feature_names_out().tolist(), model.coef_[0].tolist(), strict=True))
    classifier = NgramClassifier((first, second), weights, float(model.intercept_[0]), 0.0)
    hits = np.concatenate([classifier.is_style(lines, style) for style, lines in dev.items()])
    return NgramClassifier(classifier.styles, weights, classifier.bias, float(100 * hits.mean()))


def ngrams(text: str) -> Iterator[str]:
    """The runs of one to three words of a text, as often as it has them."""
    words = split_words(text)
    for n in range(1, ORDER + 1):
        for start in range(len(words) - n + 1):
            yield " ".join(words[start : start + n])
