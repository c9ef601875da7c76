"""Stop training when a loss, a gradient or the state is no longer finite."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from coder_core.console.faults import Fault, InputError
from coder_core.data.batches import Batch
from coder_core.training.step import Losses

SAMPLES_NAMED = 5


class NotFiniteError(InputError):
    """Error for a loss, gradient or state with NaN or Inf; the step that produced it is not saved."""


def check_losses(losses: Losses, batch: Batch, step: int) -> None:
    """Raise NotFiniteError, naming the step, the term and the samples, if the loss is not finite."""
    if bool(torch.isfinite(losses.total)):
        return
    terms = [name for name, value in losses.parts.items() if not bool(torch.isfinite(value))]
    rows = (~torch.isfinite(losses.per_pair)).nonzero().flatten()[:SAMPLES_NAMED]
    pairs = zip(batch.text_ids[rows].tolist(), batch.image_ids[rows].tolist(), strict=True)
    named = ", ".join(f"caption {text} of image {image}" for text, image in pairs)
    bad = batch.image_ids[~batch.regions.flatten(1).isfinite().all(1)]
    cause = f"; the features of image {int(bad[0])} are not finite" if len(bad) else ""
    message = f"the loss term {', '.join(terms) or 'total'} is not finite ({named or 'every sample'}{cause})"
    fix = "lower --learning-rate, or check the data with python -m coder_core.check_data"
    raise _not_finite(step, message, "losses", fix)


def check_gradients(parameters: Mapping[str, nn.Parameter], norm: Tensor, batch: Batch, step: int) -> None:
    """Raise NotFiniteError, naming the parameters, if a gradient is not finite; call it before the optimizer step."""
    if bool(torch.isfinite(norm)):
        return
    bad = [name for name, p in parameters.items() if p.grad is not None and not bool(p.grad.isfinite().all())]
    named = ", ".join(map(str, batch.text_ids[:SAMPLES_NAMED].tolist()))
    message = f"the gradient of {', '.join(bad[:SAMPLES_NAMED]) or 'the loss'} is not finite"
    message += f" (captions {named} … of a batch of {len(batch.text_ids)})"
    raise _not_finite(step, message, "gradients", "lower --learning-rate or raise --temperature")


def check_state(tensors: Mapping[str, Mapping[str, Tensor]], step: int) -> None:
    """Raise NotFiniteError, naming the tensors, if a state to be saved contains NaN or Inf; without this check, only
    the next step's loss would reveal it. `tensors`: file stem → name → tensor."""
    every = {f"{stem} {name}": tensor for stem, named in tensors.items() for name, tensor in named.items()}
    decimals = {name: tensor for name, tensor in every.items() if tensor.is_floating_point()}
    bad = [name for name, tensor in decimals.items() if not bool(tensor.isfinite().all())]
    if bad:
        message = f"{', '.join(bad[:SAMPLES_NAMED])} would be saved with values that are not finite"
        raise _not_finite(step, message, "weights, moments and keys", "lower --learning-rate")


def _not_finite(step: int, message: str, expected: str, fix: str) -> NotFiniteError:
    fix += "; this step was not saved"
    return NotFiniteError(Fault(f"step {step}", message, f"finite {expected}", fix))
