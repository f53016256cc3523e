"""The published figures, to stand beside ours."""

from dataclasses import dataclass

SOURCE = (
    "XL-Editor paper, table of evaluation results on Yelp and Amazon (up to UnpairedRL, and for PTO, "
    "taken there from Wu et al. 2019, Point-Then-Operate)"
)


@dataclass(frozen=True)
class PublishedScores:
    acc: float
    bleu: float
    g: float


# How the paper abbreviates the systems, in its order.
PAPER_NAMES = {
    "Copy": "Copy",
    "CrossAligned": "XAli",
    "MultiDecoder": "MDec",
    "StyleEmbedding": "SEmb",
    "TemplateBased": "Tpl",
    "DeleteOnly": "Del",
    "DeleteAndRetrieve": "DRG",
    "BackTranslation": "BT",
    "UnpairedRL": "URL",
    "DualRL": "DRL",
    "StyleTransformer_cond": "StyTc",
    "StyleTransformer_multi": "StyTm",
    "UnsuperMT": "UMT",
    "UnsuperMT+XLE": "UMT+XLE",
    "PTO": "PTO",
    "PTO+XLE": "PTO+XLE",
}

PUBLISHED = {
    "yelp": {
        "Copy": PublishedScores(2.4, 32.39, 8.8),
        "CrossAligned": PublishedScores(74.7, 9.06, 26.0),
        "MultiDecoder": PublishedScores(50.6, 14.54, 27.1),
        "StyleEmbedding": PublishedScores(8.4, 21.06, 13.3),
        "TemplateBased": PublishedScores(81.2, 22.57, 42.8),
        "DeleteOnly": PublishedScores(86.0, 14.64, 35.5),
        "DeleteAndRetrieve": PublishedScores(88.6, 15.96, 37.6),
        "BackTranslation": PublishedScores(94.6, 2.46, 15.3),
        "UnpairedRL": PublishedScores(57.5, 18.81, 32.9),
        "DualRL": PublishedScores(89.0, 27.91, 49.8),
        "StyleTransformer_cond": PublishedScores(91.1, 24.57, 47.3),
        "StyleTransformer_multi": PublishedScores(86.0, 28.27, 49.3),
        "UnsuperMT": PublishedScores(97.9, 22.68, 47.1),
        "UnsuperMT+XLE": PublishedScores(98.8, 22.37, 47.0),
        "PTO": PublishedScores(91.5, 29.86, 52.3),
        "PTO+XLE": PublishedScores(95.7, 28.75, 52.5),
    },
    "amazon": {
        "Copy": PublishedScores(17.2, 48.38, 28.8),
        "CrossAligned": PublishedScores(75.1, 1.90, 11.9),
        "MultiDecoder": PublishedScores(69.9, 9.07, 25.2),
        "StyleEmbedding": PublishedScores(38.2, 15.07, 24.0),
        "TemplateBased": PublishedScores(64.3, 34.79, 47.3),
        "DeleteOnly": PublishedScores(47.0, 33.00, 39.4),
        "DeleteAndRetrieve": PublishedScores(51.0, 30.09, 39.2),
        "BackTranslation": PublishedScores(76.7, 1.04, 8.9),
        "UnpairedRL": PublishedScores(56.3, 15.93, 29.9),
        "UnsuperMT": PublishedScores(72.4, 33.34, 49.1),
        "UnsuperMT+XLE": PublishedScores(72.9, 33.27, 49.2),
        "PTO": PublishedScores(40.2, 41.86, 41.0),
        "PTO+XLE": PublishedScores(43.2, 41.13, 42.2),
    },
}


def published_scores(data_name: str, system_name: str) -> PublishedScores | None:
    """The published figures of a row, where there are any."""
    return PUBLISHED.get(data_name, {}).get(system_name)


def paper_order(system_name: str) -> tuple[int, str]:
    """A sort key: the paper's systems in its order, then all others by name."""
    names = list(PAPER_NAMES)
    return (names.index(system_name) if system_name in names else len(names), system_name)


# Locate, Infill and Delete on CNN articles; what was fine-tuned is XLNet-base.
PUBLISHED_NEWS: dict[str, tuple[float | None, float | None, float | None]] = {
    "Random": (20.00, None, 33.33),
    "Transformer": (40.82, 1.45, 53.94),
    "Transformer + rank": (None, None, 39.70),
    "XLNet L2R": (42.78, 0.49, 46.04),
    "XLNet L2R + rank": (None, 1.57, 56.22),
    "XL-Editor": (50.48, 1.57, 51.64),
    "XL-Editor + rank": (None, None, 57.44),
    "XLNet fine-tuned as L2R": (47.56, 1.29, 54.10),
    "XLNet fine-tuned as L2R + rank": (None, 4.11, 67.44),
    "XLNet fine-tuned as XL-Editor": (56.32, 4.37, 68.08),
    "XLNet fine-tuned as XL-Editor + rank": (None, None, 65.76),
}
