"""The TextCNN that reports style accuracy, after the evaluation of Wu et al. (2019, "Point-Then-Operate").

It only ever judges: no method may search with it. Accuracies depend on details, so they are those of that
evaluation: every text is padded or cut to 20 words, the padding is a word like any other (its embedding is
learned, convolutions and the maximum see it), convolutions add no padding of their own, and embeddings start
as random unit vectors.
"""

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.nn import functional

from xl_editor.errors import RequestError
from xl_editor.files import write_whole

from .words import UNKNOWN, frequent_words, split_words

PADDING = "<pad>"
WEIGHTS_FILE = "model.safetensors"
CARD_FILE = "textcnn.json"
UNFINISHED_FILE = "unfinished.safetensors"

LinesByStyle = Mapping[str, Sequence[str]]

YELP_WIDTHS = (1, 2, 3, 4, 5)
AMAZON_WIDTHS = (1, 2, 3, 4, 5, 6, 7)


@dataclass(frozen=True)
class TextCNNConfig:
    widths: tuple[int, ...] = YELP_WIDTHS  # convolution widths, in words
    n_filters: int = 128  # of each width
    embedding_size: int = 100
    dropout: float = 0.5
    n_positions: int = 20  # longer texts are cut, shorter ones padded


@dataclass(frozen=True)
class TrainingOptions:
    seed: int = 0
    n_steps: int = 20_000
    batch_size: int = 64  # of each style
    learning_rate: float = 5e-4
    betas: tuple[float, float] = (0.5, 0.999)
    min_count: int = 5  # rarer training words are unknown words
    shorter_than: int = 20  # only lines with longer_than < words < shorter_than are trained on
    longer_than: int = 4
    unknown_rate: float = 0.3  # share of training words replaced by the unknown word
    shuffle_reach: int = 1  # no training word moves further than this
    check_every: int = 1_000  # steps between two looks at the development split


@dataclass(frozen=True)
class TrainingReport:
    """How a classifier came about: accuracies in per cent on the development split, at the kept step."""

    step: int
    dev_accuracy: float  # lines of the trained lengths only, as in the protocol; the checkpoint is chosen by it
    dev_accuracy_all_lengths: float


class TextCNN(nn.Module):
    """Convolutions over word embeddings, the maximum over time of each filter, one logit."""

    def __init__(self, n_words: int, config: TextCNNConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(n_words, config.embedding_size)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(config.embedding_size, config.n_filters, width) for width in config.widths
        )
        self.output = nn.Linear(config.n_filters * len(config.widths), 1)
        with torch.no_grad():
            random_directions = torch.rand(n_words, config.embedding_size) - 0.5
            self.embedding.weight.copy_(functional.normalize(random_directions, dim=1))

    def forward(self, word_ids: Tensor) -> Tensor:
        """The logit of the second style: (B, T) -> (B,)."""
        # LeakyReLU is monotone: after the maximum it gives the same as before it, on fewer numbers.
        features = functional.leaky_relu(self._maxima(word_ids), 0.01)
        return self.output(functional.dropout(features, self.config.dropout, self.training)).squeeze(1)

    def _maxima(self, word_ids: Tensor) -> Tensor:
        """The maximum over time of every filter: (B, T) -> (B, widths × F).

        A batch has few different words, half of it being padding and unknown words. So each of them is multiplied
        once with each place of each filter, a window is a sum of such products, and only the window that is the
        maximum is computed with its gradient: a third of the time of convolving.
        """
        words, where = word_ids.unique(return_inverse=True)  # (V,), (B, T)
        convolutions: list[nn.Conv1d] = list(self.convolutions)  # type: ignore[arg-type]
        places = torch.cat([filters.weight.permute(2, 1, 0) for filters in convolutions])  # (P, E, F)
        products = self.embedding(words) @ places.transpose(0, 1).flatten(1)  # (V, P × F)
        with torch.no_grad():  # a few texts at a time, which the processor's cache holds
            starts = torch.cat([self._best_windows(products, few) for few in where.split(16)])  # (B, widths, F)
        widths = torch.tensor(self.config.widths)
        place_in_window = torch.cat([torch.arange(width) for width in widths])[:, None]  # (P, 1)
        at = starts.repeat_interleave(widths, dim=1) + place_in_window  # (B, P, F): positions in the text
        word = where.gather(1, at.flatten(1)).view_as(at)
        index = word * products.shape[1] + torch.arange(products.shape[1]).view(at.shape[1:])
        found = products.flatten().gather(0, index.flatten()).view_as(at)
        of_widths = zip(found.split(self.config.widths, dim=1), convolutions, strict=True)
        return torch.cat([of_width.sum(dim=1) + filters.bias for of_width, filters in of_widths], dim=1)

    def _best_windows(self, products: Tensor, where: Tensor) -> Tensor:
        """Where the window begins that is the maximum: (V, P × F), (B, T) -> (B, widths, F)."""
        n_texts, length = where.shape
        placed = products.view(len(products), -1, self.config.n_filters)  # (V, P, F)
        of_text = placed.index_select(0, where.flatten()).view(n_texts, length, *placed.shape[1:])  # (B, T, P, F)
        places_before, starts = 0, []
        for width in self.config.widths:
            n_windows = length - width + 1
            windows = of_text[:, :n_windows, places_before].clone()  # (B, T - width + 1, F)
            for i in range(1, width):
                windows += of_text[:, i : n_windows + i, places_before + i]
            starts.append(windows.max(dim=1).indices)
            places_before += width
        return torch.stack(starts, dim=1)


@dataclass(frozen=True)
class StyleClassifier:
    """A trained TextCNN with its vocabulary: texts in, styles out."""

    model: TextCNN
    styles: tuple[str, str]
    vocabulary: tuple[str, ...]  # the padding and the unknown word included
    options: TrainingOptions
    report: TrainingReport

    @cached_property
    def word_ids(self) -> dict[str, int]:
        return {word: index for index, word in enumerate(self.vocabulary)}

    @torch.inference_mode()
    def logits(self, texts: Sequence[str], batch_size: int = 512) -> NDArray[np.float32]:
        """One logit a text; above zero means the second style."""
        ids = torch.from_numpy(encode(texts, self.word_ids, self.model.config.n_positions))
        was_training = self.model.training
        self.model.eval()
        batches = [self.model(batch) for batch in ids.split(batch_size)] if texts else [torch.zeros(0)]
        self.model.train(was_training)
        return torch.cat(batches).numpy()

    def is_style(self, texts: Sequence[str], style: str, margin: float = 0.0) -> NDArray[np.bool_]:
        """For each text, whether it is classed as `style`, by a logit above the margin."""
        if style not in self.styles:
            raise RequestError(f"Unknown style {style!r}: this classifier knows {' and '.join(self.styles)}.")
        logits = self.logits(texts)
        return (logits if style == self.styles[1] else -logits) > margin

    def save(self, directory: Path) -> None:
        """Writes the weights (safetensors) and a card (JSON) with everything else."""
        directory.mkdir(parents=True, exist_ok=True)
        write_whole(directory / WEIGHTS_FILE, safetensors.torch.save(self.model.state_dict()))
        card = {
            "styles": self.styles,
            "report": dataclasses.asdict(self.report),
            "training": dataclasses.asdict(self.options),
            "config": dataclasses.asdict(self.model.config),
            "vocabulary": self.vocabulary,
        }
        write_whole(directory / CARD_FILE, json.dumps(card, ensure_ascii=False, indent=1))

    @classmethod
    def load(cls, directory: Path) -> "StyleClassifier":
        """Reads what `save` wrote."""
        for name in (WEIGHTS_FILE, CARD_FILE):
            if not (directory / name).is_file():
                raise FileNotFoundError(f"No trained TextCNN in {directory}: the file {name} is missing.")
        try:
            card = json.loads((directory / CARD_FILE).read_text(encoding="utf-8"))
            config = TextCNNConfig(**_with_tuples(card["config"]))
            model = TextCNN(len(card["vocabulary"]), config)
            model.load_state_dict(safetensors.torch.load_file(directory / WEIGHTS_FILE))
            return cls(
                model=model.eval(),
                styles=tuple(card["styles"]),
                vocabulary=tuple(card["vocabulary"]),
                options=TrainingOptions(**_with_tuples(card["training"])),
                report=TrainingReport(**card["report"]),
            )
        except (SafetensorError, RuntimeError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise RequestError(f"{directory} holds no TextCNN that can be read; remove it: {error}.") from None


def train_textcnn(
    train: LinesByStyle,
    dev: LinesByStyle,
    config: TextCNNConfig | None = None,
    options: TrainingOptions | None = None,
    *,
    unfinished: Path | None = None,
    progress: bool = True,
) -> StyleClassifier:
    """Trains on the lines of two styles and keeps the checkpoint that is best on the development lines.

    The same seed on the same machine with the same number of threads gives the same classifier, also if it was
    interrupted: after each look at the development lines all is written to `unfinished`, from where the same call
    goes on.
    """
    config, options = config or TextCNNConfig(), options or TrainingOptions()
    styles = _two_styles(train, dev)
    vocabulary = _vocabulary((line for style in styles for line in train[style]), options.min_count)
    word_ids = {word: index for index, word in enumerate(vocabulary)}
    train_lines, dev_lines = (_of_trained_length(lines, options) for lines in (train, dev))
    first, second = (encode(train_lines[style], word_ids, config.n_positions) for style in styles)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed)
        model = TextCNN(len(vocabulary), config)
        classifier = StyleClassifier(model, styles, vocabulary, options, TrainingReport(0, 0.0, 0.0))
        training = _Training(model, _NoisyBatches(first, second, options), options)
        if unfinished is not None and unfinished.exists():
            training.load(unfinished)
        labels = torch.arange(2).repeat_interleave(options.batch_size).float()
        with _progress_bar(enabled=progress) as bar:
            task = bar.add_task("TextCNN", total=options.n_steps, completed=training.step, note="")
            while training.step < options.n_steps:
                loss = functional.binary_cross_entropy_with_logits(model(next(training.batches)), labels)
                training.optimizer.zero_grad()
                loss.backward()
                training.optimizer.step()
                training.step += 1
                bar.advance(task)
                if training.step % options.check_every == 0 or training.step == options.n_steps:
                    found = TrainingReport(training.step, accuracy(classifier, dev_lines), accuracy(classifier, dev))
                    training.keep_if_best(found)
                    if unfinished is not None:
                        training.save(unfinished)
                    best = training.best.dev_accuracy
                    bar.update(task, note=f"dev {found.dev_accuracy:.2f} (best {best:.2f})")
    model.load_state_dict(training.best_weights)
    model.eval()
    return dataclasses.replace(classifier, report=training.best)


class _Training:
    """All that a training goes on from, in memory and in a file."""

    def __init__(self, model: TextCNN, batches: "_NoisyBatches", options: TrainingOptions) -> None:
        self.model, self.batches, self.options = model, batches, options
        self.optimizer = torch.optim.Adam(model.parameters(), options.learning_rate, options.betas, fused=True)
        self.step = 0
        self.best = TrainingReport(0, 0.0, 0.0)
        self.best_weights = _copy_of_weights(model)

    @property
    def _made_by(self) -> str:
        return repr((self.model.config, self.options))

    def keep_if_best(self, report: TrainingReport) -> None:
        if report.dev_accuracy > self.best.dev_accuracy:
            self.best, self.best_weights = report, _copy_of_weights(self.model)

    def save(self, path: Path) -> None:
        tensors = {
            **{f"model.{name}": weight for name, weight in self.model.state_dict().items()},
            **{f"best.{name}": weight for name, weight in self.best_weights.items()},
            **{
                f"optimizer.{index}.{name}": value
                for index, values in self.optimizer.state_dict()["state"].items()
                for name, value in values.items()
            },
            "random": torch.get_rng_state(),  # which dropout draws from
            "order": torch.from_numpy(self.batches.order.copy()),
        }
        told = {"step": self.step, "best": dataclasses.asdict(self.best), "order": self.batches.random_state}
        metadata = {"made_by": self._made_by, "told": json.dumps(told)}
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, safetensors.torch.save(tensors, metadata))

    def load(self, path: Path) -> None:
        """Goes on from what `save` wrote; what another network or other options made is of no use, and left alone."""
        try:
            with safe_open(path, "pt") as file:
                if file.metadata()["made_by"] != self._made_by:
                    return
                told = json.loads(file.metadata()["told"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, KeyError, TypeError, ValueError) as error:
            raise RequestError(f"{path} holds no training that can be read; remove it: {error}.") from None
        self.step, self.best = told["step"], TrainingReport(**told["best"])
        self.model.load_state_dict(_below("model", tensors))
        self.best_weights = _below("best", tensors)
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in _below("optimizer", tensors).items():
            index, _, key = name.partition(".")
            state.setdefault(int(index), {})[key] = value
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": state})
        torch.set_rng_state(tensors["random"])
        self.batches.order, self.batches.random_state = tensors["order"].numpy(), told["order"]


def _below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(f"{prefix}."): t for name, t in tensors.items() if name.startswith(f"{prefix}.")}


def encode(texts: Sequence[str], word_ids: dict[str, int], n_positions: int) -> NDArray[np.int64]:
    """Word ids of each text, cut or padded to `n_positions`: (texts, n_positions)."""
    unknown = word_ids[UNKNOWN]
    ids = np.full((len(texts), n_positions), word_ids[PADDING], dtype=np.int64)
    for row, text in zip(ids, texts, strict=True):
        words = split_words(text)[:n_positions]
        row[: len(words)] = [word_ids.get(word, unknown) for word in words]
    return ids


def add_noise(
    ids: NDArray[np.int64], padding: int, unknown: int, options: TrainingOptions, random: np.random.Generator
) -> NDArray[np.int64]:
    """Replaces some words by the unknown word and moves words by at most `shuffle_reach` places."""
    is_word = ids != padding
    noisy = np.where(is_word & (random.random(ids.shape) < options.unknown_rate), unknown, ids)
    # Sorting i + U(0, reach + 1) moves nothing further than `reach`; padding stays at the end.
    places = np.arange(ids.shape[1]) + (options.shuffle_reach + 1) * random.random(ids.shape)
    places[~is_word] += ids.shape[1]
    return np.take_along_axis(noisy, places.argsort(axis=1), axis=1)


class _NoisyBatches:
    """Endless batches, one half a style, first style first; the smaller style is gone through more often."""

    def __init__(self, first: NDArray[np.int64], second: NDArray[np.int64], options: TrainingOptions) -> None:
        self._first, self._second, self._options = first, second, options
        self._random = np.random.default_rng(options.seed)
        self.order = np.zeros(0, dtype=np.int64)  # of the pairs that are next

    @property
    def random_state(self) -> dict[str, Any]:
        return dict(self._random.bit_generator.state)

    @random_state.setter
    def random_state(self, state: dict[str, Any]) -> None:
        self._random.bit_generator.state = state

    def __next__(self) -> Tensor:
        n_pairs, size = max(len(self._first), len(self._second)), self._options.batch_size
        while len(self.order) < size:
            self.order = np.concatenate([self.order, self._random.permutation(n_pairs)])
        chosen, self.order = self.order[:size], self.order[size:]
        ids = np.concatenate([self._first[chosen % len(self._first)], self._second[chosen % len(self._second)]])
        return torch.from_numpy(add_noise(ids, padding=0, unknown=1, options=self._options, random=self._random))


def accuracy(classifier: StyleClassifier, lines_by_style: LinesByStyle) -> float:
    """Per cent of the lines that are classed as the style they are filed under."""
    hits = np.concatenate([classifier.is_style(lines, style) for style, lines in lines_by_style.items()])
    return float(100 * hits.mean())


def _vocabulary(lines: Iterable[str], min_count: int) -> tuple[str, ...]:
    special = (PADDING, UNKNOWN)
    return special + tuple(word for word in frequent_words(lines, min_count) if word not in special)


def _of_trained_length(lines_by_style: LinesByStyle, options: TrainingOptions) -> LinesByStyle:
    kept = {
        style: [line for line in lines if options.longer_than < len(line.split()) < options.shorter_than]
        for style, lines in lines_by_style.items()
    }
    for style, lines in kept.items():
        if not lines:
            raise RequestError(
                f"No training or development line of style {style!r} has more than {options.longer_than} "
                f"and fewer than {options.shorter_than} words."
            )
    return kept


def _two_styles(train: LinesByStyle, dev: LinesByStyle) -> tuple[str, str]:
    styles = tuple(train)
    if len(styles) != 2 or set(dev) != set(styles):
        raise RequestError(
            "The TextCNN needs training and development lines of the same two styles, "
            f"but got {', '.join(train)} and {', '.join(dev)}."
        )
    return styles


def _copy_of_weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: weight.detach().clone() for name, weight in model.state_dict().items()}


def _with_tuples(values: dict[str, Any]) -> dict[str, Any]:
    """JSON has no tuples; frozen dataclasses with lists would not compare or hash as they were saved."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def _progress_bar(*, enabled: bool) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=Console(stderr=True),
        disable=not enabled,
    )
