"""Muon (Jordan et al. 2024): the matrices of the layers move along their orthogonalised momentum, the rest as AdamW's.

Torch's own Muon always computes in bfloat16, which many CPUs do slowly or not at all, and refuses XLNet's attention
weights, which have three axes (d_model, heads, d_head). A learning rate means the same for both kinds: an update of a
matrix is scaled to the size that AdamW's typically has (Liu et al. 2025).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

MOMENTUM = 0.95
# Five rounds of this odd polynomial take every singular value near one, fast rather than exactly.
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ROUNDS = 5
SIZE_OF_ADAMW = 0.2  # root mean square of its updates, in learning rates


class Muon(torch.optim.Optimizer):
    """Parameters of a group that says `is_hidden` are matrices: their first axis by all the others."""

    def __init__(
        self,
        groups: list[dict[str, Any]],
        lr: float,
        betas: tuple[float, float],
        products: torch.dtype = torch.float32,
    ) -> None:
        self.products = products  # what it multiplies matrices in
        # `fused` tells torch, where it loads a checkpoint, that AdamW's steps belong on the parameters' device.
        settings = {"lr": lr, "betas": betas, "eps": 1e-8, "weight_decay": 0.0, "is_hidden": False, "fused": True}
        super().__init__(groups, settings)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        assert closure is None  # nobody who trains here evaluates the loss again
        for group in self.param_groups:
            trained = [parameter for parameter in group["params"] if parameter.grad is not None]
            if group["is_hidden"]:
                for parameter in trained:
                    self._orthogonal_step(parameter, group["lr"], group["weight_decay"])
            else:
                self._adamw_step(trained, group)

    def _orthogonal_step(self, parameter: Tensor, lr: float, weight_decay: float) -> None:
        assert parameter.grad is not None
        state = self.state[parameter]
        if not state:
            state["momentum"] = torch.zeros_like(parameter)
        momentum = state["momentum"]
        momentum.mul_(MOMENTUM).add_(parameter.grad)
        ahead = torch.add(parameter.grad, momentum, alpha=MOMENTUM).flatten(1)  # Nesterov's
        update = orthogonalised(ahead.to(self.products)).to(parameter.dtype).view_as(parameter)
        size = SIZE_OF_ADAMW * max(ahead.shape) ** 0.5  # an orthogonal matrix has entries of 1 / √(its longer side)
        parameter.mul_(1 - lr * weight_decay).add_(update, alpha=-lr * size)

    def _adamw_step(self, parameters: list[Tensor], group: dict[str, Any]) -> None:
        for parameter in parameters:
            if not self.state[parameter]:
                self.state[parameter].update(
                    step=torch.zeros((), device=parameter.device),
                    mean=torch.zeros_like(parameter),
                    mean_square=torch.zeros_like(parameter),
                )
        states = [self.state[parameter] for parameter in parameters]
        beta1, beta2 = group["betas"]
        adamw(
            parameters,
            [parameter.grad for parameter in parameters if parameter.grad is not None],
            [state["mean"] for state in states],
            [state["mean_square"] for state in states],
            [],
            [state["step"] for state in states],
            fused=True,
            amsgrad=False,
            beta1=beta1,
            beta2=beta2,
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            maximize=False,
        )


def orthogonalised(matrix: Tensor) -> Tensor:
    """About UVᵀ, where the matrix is UΣVᵀ, by Newton and Schulz's iteration. *Shape:* (m, n) → (m, n)."""
    a, b, c = COEFFICIENTS
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.t() if is_tall else matrix
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(ROUNDS):
        square = x @ x.t()
        x = torch.addmm(x, torch.addmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x.t() if is_tall else x


def parameter_groups(
    model: nn.Module, decayed: Collection[str] = (), weight_decay: float = 0.0
) -> list[dict[str, Any]]:
    """All parameters, by whether they are hidden matrices and whether they decay."""
    groups: dict[tuple[bool, bool], list[Tensor]] = {}
    for name, parameter in model.named_parameters():
        groups.setdefault((is_hidden_matrix(name, parameter), name in decayed), []).append(parameter)
    return [
        {"params": parameters, "is_hidden": is_hidden, "weight_decay": weight_decay * is_decayed}
        for (is_hidden, is_decayed), parameters in groups.items()
    ]


def is_hidden_matrix(name: str, parameter: nn.Parameter) -> bool:
    """Whether a weight takes one layer's states to others: no embedding, no bias (XLNet's have two axes), no norm."""
    in_layer = ".layer." in name or ".layers." in name
    return in_layer and parameter.dim() > 1 and not name.endswith(("_bias", "seg_embed"))
