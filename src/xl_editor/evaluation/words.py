"""Words and vocabularies, as every measure of the evaluation sees them."""

from collections import Counter
from collections.abc import Iterable

UNKNOWN = "<unk>"


def split_words(text: str) -> list[str]:
    """The words of a text that is already tokenised (the data sets and the systems' outputs are)."""
    return text.lower().split()


def frequent_words(lines: Iterable[str], at_least: int) -> tuple[str, ...]:
    """The words seen `at_least` times, the most frequent first, ties in alphabetical order."""
    counts = Counter(word for line in lines for word in split_words(line))
    frequent = [word for word, count in counts.items() if count >= at_least]
    return tuple(sorted(frequent, key=lambda word: (-counts[word], word)))
