"""What stands at the right end of every context: the boundary that each row can always see, and the style.

    trained from scratch        … <sep>               or the style token in its place
    initialised from XLNet      … [style] <sep> <cls>      as in its pretraining, <cls> in a segment of its own

Classifying has its own ending, and never a style token, which would give the label away. So has correcting: a control
token stands where `<sep>` does, or before XLNet's ending, and tells the model that every word has a slot behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from torch import Tensor
from torch.nn.functional import pad

from xl_editor.errors import ModelError
from xl_editor.geometry import Relation


@dataclass(frozen=True)
class ContextFormat:
    """The special tokens of a model and where they go; kept in its config.json under editor.context."""

    sep: int
    cls: int
    unk: int
    mask: int
    styles: Mapping[str, int] = field(default_factory=dict)  # token ids; their order is the classifier's
    style_optional: bool = True  # was the model also trained without the style token?
    xlnet: bool = False  # initialised from a pretrained XLNet?
    correct: int | None = None  # the control token of corrections, if the model has learnt them

    @classmethod
    def from_config(cls, editor: Mapping[str, Any]) -> ContextFormat:
        if "context" not in editor:
            raise ModelError("This model is no editor: its config.json says nothing under editor.context.")
        return cls(**editor["context"])

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def right_end(self, style: str | None) -> tuple[int, ...]:
        """The tokens after the text when an insertion is predicted."""
        if style is not None and style not in self.styles:
            known = f"one of {', '.join(self.styles)}" if self.styles else "none: this model has no styles"
            raise ValueError(f"style must be {known}, got {style!r}.")
        if style is None and self.styles and not self.style_optional:
            raise ValueError(
                f"style must be one of {', '.join(self.styles)}: this model was never trained without a style."
            )
        of_style = () if style is None else (self.styles[style],)
        if self.xlnet:
            return (*of_style, self.sep, self.cls)
        return of_style or (self.sep,)

    @property
    def correcting_end(self) -> tuple[int, ...]:
        """The tokens after a text that is to be corrected, with a slot at its start and one behind every word."""
        if self.correct is None:
            raise ValueError("This model has not learnt to correct.")
        return (self.correct, self.sep, self.cls) if self.xlnet else (self.correct,)

    @property
    def not_text(self) -> set[int]:
        """The tokens that no text holds and no insertion may."""
        control = () if self.correct is None else (self.correct,)
        return {self.sep, self.cls, self.unk, self.mask, *control, *self.styles.values()}

    @property
    def classifying_end(self) -> tuple[int, ...]:
        """The tokens after the text when its style is predicted, from the state of the last one."""
        return (self.sep, self.cls) if self.xlnet else (self.cls,)

    def with_segments(self, relation: Relation, key_ids: Tensor, *, whole: bool = True) -> Relation:
        """Add what XLNet was pretrained with: `<cls>` is in another segment than all the rest.

        The rows are those of all the keys, then query rows; or, if not `whole`, rows of the inserted sequence only.
        """
        if not self.xlnet:
            return relation
        key_is_cls = key_ids == self.cls  # (B, K)
        content = key_is_cls if whole else key_is_cls[:, :0]
        row_is_cls = pad(content, (0, relation.distance.shape[1] - content.shape[1]))
        other_segment = row_is_cls[:, :, None] != key_is_cls[:, None, :]
        return Relation(relation.distance, relation.visible, other_segment)
