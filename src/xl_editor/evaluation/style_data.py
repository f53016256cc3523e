"""The style-transfer data sets as they lie in a directory, and the outputs of systems on their test split.

    DIR/train.STYLE.gz            or train.STYLE, or train.partial.STYLE.gz, a part of it
    DIR/dev.STYLE, DIR/test.STYLE
    DIR/references/reference.li.DIRECTION
    DIR/outputs/SYSTEM.DIRECTION

STYLE is `neg` or `pos`, DIRECTION `neg2pos` or `pos2neg`. A line is a text; the lines of a direction belong
together in every file of it.
"""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Optional

from xl_editor.errors import RequestError
from xl_editor.files import unpacked

from .published import paper_order
from .words import frequent_words

STYLES = ("neg", "pos")
DIRECTIONS = ("neg2pos", "pos2neg")
# Training words seen less often are unknown words, in outputs and references alike. A part of Amazon's training
# split, of which we had a seventh, has a word about once that the whole has five times.
MIN_COUNT, MIN_COUNT_IN_A_PART = 5, 1

Lines = tuple[str, ...]


@dataclass(frozen=True)
class SystemOutputs:
    """What a system made of the test split, both directions, in test order.

    `edited_from` are the outputs that these were made from by editing, where they were: the two are then
    compared, sentence by sentence.
    """

    name: str
    neg2pos: Lines
    pos2neg: Lines
    edited_from: Optional["SystemOutputs"] = field(default=None, repr=False)

    @property
    def pooled(self) -> Lines:
        """Both directions as one corpus, as they are scored."""
        return self.neg2pos + self.pos2neg


@dataclass(frozen=True)
class StyleData:
    name: str  # of the data set: "yelp", "amazon", or whatever the directory is called
    train_files: dict[str, Path]
    dev_files: dict[str, Path]
    dev: dict[str, Lines]
    test: dict[str, Lines]
    references: dict[str, Lines]
    systems: tuple[SystemOutputs, ...]  # the paper's first, in its order

    @classmethod
    def open(cls, directory: Path) -> "StyleData":
        """Reads everything but the training split, and checks that it fits together."""
        if not directory.is_dir():
            raise FileNotFoundError(f"The data directory {directory} does not exist.")
        train_files = {style: _training_file(directory, style) for style in STYLES}
        dev_files = {style: directory / f"dev.{style}" for style in STYLES}
        dev = {style: read_lines(file) for style, file in dev_files.items()}
        test = {style: read_lines(directory / f"test.{style}") for style in STYLES}
        references = {
            direction: _read_aligned(directory / "references" / f"reference.li.{direction}", test, direction)
            for direction in DIRECTIONS
        }
        names = {file.name.rsplit(".", 1)[0] for file in directory.glob("outputs/*.*2*")}
        systems = []
        for name in sorted(names, key=paper_order):
            outputs = {d: _read_aligned(directory / "outputs" / f"{name}.{d}", test, d) for d in DIRECTIONS}
            systems.append(SystemOutputs(name, outputs["neg2pos"], outputs["pos2neg"]))
        return cls(directory.resolve().name, train_files, dev_files, dev, test, references, tuple(systems))

    def train_lines(self, style: str) -> Lines:
        """The training split of one style; large, so read when asked for."""
        return read_lines(self.train_files[style])

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """The training words that are not masked when BLEU is computed."""
        lines = (line for style in STYLES for line in self.train_lines(style))
        return frozenset(frequent_words(lines, self.min_count))

    @property
    def copy(self) -> SystemOutputs:
        """The system that changes nothing."""
        return SystemOutputs("Copy", neg2pos=self.test["neg"], pos2neg=self.test["pos"])

    def system(self, name: str) -> SystemOutputs:
        """A system by name, Copy included."""
        known = {system.name: system for system in (self.copy, *self.systems)}
        if name not in known:
            raise RequestError(f"There are no outputs of {name!r} in the data: there are {', '.join(known)}.")
        return known[name]

    @property
    def min_count(self) -> int:
        """How often training must have a word for it to be in the vocabulary."""
        return MIN_COUNT_IN_A_PART if self.has_partial_training else MIN_COUNT

    @property
    def has_partial_training(self) -> bool:
        return any(".partial." in file.name for file in self.train_files.values())


def read_lines(path: Path) -> Lines:
    """The lines of a text file, packed or not; only a line feed ends a line."""
    if not path.is_file():
        raise FileNotFoundError(f"The file {path} is missing.")
    try:
        with unpacked(path) as stream:
            text = stream.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise RequestError(f"{path} cannot be read: {error}.") from None
    return tuple(line.strip() for line in text.removesuffix("\n").split("\n")) if text else ()


def _read_aligned(path: Path, test: dict[str, Lines], direction: str) -> Lines:
    source_style = direction.split("2")[0]
    lines, n_expected = read_lines(path), len(test[source_style])
    if len(lines) != n_expected:
        raise RequestError(f"{path} has {len(lines)} lines, but test.{source_style} has {n_expected}.")
    return lines


def _training_file(directory: Path, style: str) -> Path:
    names = (f"train.{style}.gz", f"train.{style}", f"train.partial.{style}.gz")
    for name in names:
        if (directory / name).is_file():
            return directory / name
    raise FileNotFoundError(f"The training split of style {style!r} is missing: {directory} has no {names[0]}.")
