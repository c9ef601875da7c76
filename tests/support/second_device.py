"""A simulated second device, for machines without a GPU: it finds code that would mix devices on a GPU.

`register()` adds a device "second" to PyTorch through its interface for back ends in Python. Each of its tensors holds
a CPU tensor, on which operations run. An operation on tensors of both devices is an error, as with CUDA; only copies,
single numbers and CPU indices are allowed. Code that asks for the kind of device takes the same branch as on a GPU.
CUDA's kernels, streams, bfloat16 and speed are not covered.

Registration affects the whole process, so the tests register it in a separate one.
"""

import traceback
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.utils import rnn
from torch.utils import backend_registration

NAME = "second"
_KEY = "PrivateUse1"
_COPIES = {"aten::copy_", "aten::_copy_from", "aten::_to_copy"}
# Lengths and sizes stay on the CPU.
_PACKED = {"aten::_pack_padded_sequence", "aten::_pack_padded_sequence_backward"}
# Operations for which the program waits for a GPU, because a number or a size of theirs is needed on the CPU.
_WAITING = {
    "aten::_local_scalar_dense",
    "aten::nonzero",
    "aten::masked_select",
    "aten::equal",
    "aten::_unique2",
}
_WAITING |= {"aten::unique_dim", "aten::unique_consecutive", "aten::repeat_interleave", "aten::bincount"}
_waits = None  # places of the package that wait, while `waits` records them
_kept = {}  # storage of a tensor on the device -> CPU tensor with its values
_libraries = []


class _Tensor(Tensor):
    """Subclass that makes PyTorch mark tensors as parameters instead of creating new objects."""

    __torch_function__ = torch._C._disabled_torch_function_impl


class _Module(backend_registration._DummyBackendModule):
    def get_amp_supported_dtype(self):
        return []


@contextmanager
def waits():
    """Yield a list to which the place of each operation that waits for the device is added: "pairs.py nonzero"."""
    global _waits
    _waits = []
    try:
        yield _waits
    finally:
        _waits = None


def _note_a_wait(name, args, kwargs):
    """Record an operation that waits: for a number, for a size that depends on values, or for a copy."""
    devices = [value.device.type for value in args if isinstance(value, Tensor)]
    waiting = name in _WAITING
    if name == "aten::_to_copy" and not kwargs.get("non_blocking"):
        target = kwargs.get("device")
        waiting = target is not None and target.type not in devices
    elif name in ("aten::copy_", "aten::_copy_from"):
        blocking = not (kwargs.get("non_blocking") or any(value is True for value in args))
        waiting = blocking and len(set(devices)) > 1
    elif name.startswith("aten::index"):
        indices = [index for value in args if isinstance(value, list | tuple) for index in value]
        tensors = [index for index in indices if isinstance(index, Tensor)]
        waiting = any(index.dtype == torch.bool or index.device.type == "cpu" for index in tensors)
    if waiting:
        frames = [frame for frame in traceback.extract_stack() if "/coder_core/" in frame.filename]
        place = Path(frames[-1].filename).name if frames else "elsewhere"
        _waits.append(f"{place} {frames[-1].name if frames else ''}: {name.removeprefix('aten::')}")


def register():
    """Register the device in this process and return it."""
    backend_registration._setup_privateuseone_for_python_backend(NAME, _Module())
    everything = torch.library.Library("_", "IMPL")
    aten = torch.library.Library("aten", "IMPL")
    _libraries.extend((everything, aten))
    everything.fallback(_run, _KEY)
    for operation in _operations_of_every_device():
        aten.impl(operation.name().removeprefix("aten::"), _as_function(operation), _KEY)
    # quantile changes shapes in place internally.
    aten.impl("quantile", _as_function(torch.ops.aten.quantile.default), _KEY)
    aten.impl("_thnn_fused_gru_cell", _gru_cell, _KEY)
    aten.impl("_thnn_fused_gru_cell_backward", _gru_cell_backward, _KEY)
    rnn._VF._pad_packed_sequence = _pad_packed
    Tensor.pin_memory = lambda self, device=None: self
    return torch.device(NAME)


def _operations_of_every_device():
    """Return the operations whose PyTorch kernel works on any device but needs access to its memory."""
    found = []
    kinds = ("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
    for name in torch._C._dispatch_get_all_op_names():
        library, _, rest = name.partition("::")
        packet_name, _, overload = rest.partition(".")
        packet = getattr(torch.ops.aten, packet_name, None) if library == "aten" else None
        known = packet is not None and (overload or "default") in packet.overloads()
        if known and any(torch._C._dispatch_has_kernel_for_dispatch_key(name, kind) for kind in kinds):
            found.append(getattr(packet, overload or "default"))
    return found


def _as_function(operation):
    return lambda *args, **kwargs: _run(operation, *args, **kwargs)


def _wrap(values):
    wrapped = torch._C._acc.create_empty_tensor(list(values.shape), values.dtype)
    wrapped.__class__ = _Tensor
    _kept[wrapped.untyped_storage()._cdata] = values
    return wrapped


def _real(tensor):
    values = _kept[tensor.untyped_storage()._cdata]
    if values.shape != tensor.shape:
        raise RuntimeError(f"the device does not know a tensor of shape {tuple(tensor.shape)}")
    return values


def _run(operation, *args, **kwargs):
    """Run one operation on the underlying CPU tensors. RuntimeError: it would mix devices."""
    name = operation._schema.name
    if _waits is not None:
        _note_a_wait(name, args, kwargs)
    tensors = []
    given = {}

    def behind(value):
        if isinstance(value, torch.device):
            return torch.device("cpu") if value.type == NAME else value
        if not isinstance(value, Tensor):
            return value
        tensors.append(value)
        if value.device.type != NAME:
            return value
        values = _real(value)
        given[id(values)] = value
        return values

    plain_args = [_each(value, behind) for value in args]
    plain_kwargs = {key: _each(value, behind) for key, value in kwargs.items()}
    _refuse_a_mixture(name, tensors)
    to_cpu = name == "aten::_to_copy" and kwargs.get("device") == torch.device("cpu")
    if name in ("aten::view", "aten::_unsafe_view"):  # strides of the two tensors may differ
        operation = torch.ops.aten.reshape.default
    with torch.no_grad():
        result = operation(*plain_args, **plain_kwargs)
    if to_cpu:
        return result
    if name == "aten::_pack_padded_sequence":
        return _wrap(result[0]), result[1]

    def back(value):
        """Wrap a result, or return the given tensor if the operation worked in place."""
        if not isinstance(value, Tensor):
            return value
        return given[id(value)] if id(value) in given else _wrap(value)

    return _each(result, back)


def _each(value, change):
    """Apply `change` to a value, or to every item of a list or tuple; operations have no deeper nesting."""
    nested = isinstance(value, list | tuple)
    return type(value)(_each(part, change) for part in value) if nested else change(value)


def _refuse_a_mixture(name, tensors):
    if name in _COPIES or name in _PACKED or not any(tensor.device.type == NAME for tensor in tensors):
        return
    indexed = name.startswith("aten::index") and tensors[0].device.type == NAME
    for position, tensor in enumerate(tensors):
        is_index = indexed and position > 0 and not tensor.is_floating_point()
        if tensor.device.type != NAME and tensor.dim() > 0 and not is_index:
            message = f"{name}: a CPU tensor of shape {tuple(tensor.shape)} beside one of the device {NAME!r}"
            raise RuntimeError(message)


def _gru_cell(from_input, from_state, state, *biases):
    """Compute one GRU step, which PyTorch implements for accelerators only."""
    from_input, from_state, state = map(_real, (from_input, from_state, state))
    of_input, of_state = [None if bias is None else _real(bias) for bias in biases] or (None, None)
    if of_input is not None and of_state is not None:
        from_input = from_input + of_input
        from_state = from_state + of_state
    (input_r, input_z, input_n) = from_input.chunk(3, 1)
    (state_r, state_z, state_n) = from_state.chunk(3, 1)
    reset = torch.sigmoid(input_r + state_r)
    update = torch.sigmoid(input_z + state_z)
    new = torch.tanh(input_n + reset * state_n)
    workspace = torch.cat([reset, update, new, state, state_n], 1)
    return _wrap((1 - update) * new + update * state), _wrap(workspace)


def _gru_cell_backward(grad, workspace, has_bias):
    grad = _real(grad)
    reset, update, new, state, state_n = _real(workspace).chunk(5, 1)
    to_new = grad * (1 - update) * (1 - new * new)
    to_update = grad * (state - new) * update * (1 - update)
    to_reset = to_new * state_n * reset * (1 - reset)
    to_input = torch.cat([to_reset, to_update, to_new], 1)
    to_state = torch.cat([to_reset, to_update, to_new * reset], 1)
    biases = [_wrap(gates.sum(0)) if has_bias else None for gates in (to_input, to_state)]
    return _wrap(to_input), _wrap(to_state), _wrap(grad * update), *biases


def _pad_packed(data, sizes, batch_first, value, total):
    """Pad by index: PyTorch's own version writes into views, whose strides this device does not keep."""
    longest = max(len(sizes), total)
    most = int(sizes[0])
    lengths = (sizes[:, None] > torch.arange(most)).sum(0)
    index = torch.full((longest, most), len(data))
    starts = (sizes.cumsum(0) - sizes).tolist()
    for step, (start, size) in enumerate(zip(starts, sizes.tolist(), strict=True)):
        index[step, :size] = start + torch.arange(size)
    index = index.T if batch_first else index
    filled = torch.cat([data, torch.full_like(data[:1], value)])
    rows = filled.index_select(0, index.reshape(-1).to(data.device, non_blocking=True))
    return rows.reshape(*index.shape, *data.shape[1:]), lengths
