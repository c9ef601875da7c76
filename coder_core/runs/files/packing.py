"""Nested training state ↔ tensors and a JSON document, without loss and without pickle.

Optimizer states, schedules and the states of random generators are nests of dictionaries, lists, tuples, numbers and
tensors. `pack_state` lifts the tensors out and spells the rest in JSON; `unpack_state` puts them back. Floats survive
bit for bit (JSON prints the shortest decimal that reads back the same), integers of any size, tuples stay tuples,
dictionaries keep the type of their keys.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

_TAG = "$"


def pack_state(state: Any) -> tuple[dict[str, Tensor], Any]:
    """Split a nest of values into named tensors and a JSON-ready document.

    Args:
        state: any nest of dict, list, tuple, None, bool, int, float, str, bytes, tensors, NumPy arrays and scalars.

    Returns:
        tensors by number ("0", "1", …) and the document that refers to them. Tensors are not copied: write them before
        training goes on.

    Raises:
        TypeError: a value of another type, with the path to it.
    """
    tensors: dict[str, Tensor] = {}
    return tensors, _pack(state, tensors, "state")


def unpack_state(tensors: dict[str, Tensor], document: Any) -> Any:
    """The inverse of `pack_state`. Tensors come back on the device they were loaded to."""
    if isinstance(document, list):
        return [unpack_state(tensors, item) for item in document]
    if not isinstance(document, dict):
        return document
    if _TAG not in document:
        return {key: unpack_state(tensors, value) for key, value in document.items()}
    value = document["value"]
    match document[_TAG]:
        case "tensor":
            return tensors[value]
        case "tuple":
            return tuple(unpack_state(tensors, item) for item in value)
        case "dict":
            return {unpack_state(tensors, key): unpack_state(tensors, item) for key, item in value}
        case "float":
            return float(value)
        case "bytes":
            return tensors[value].numpy().tobytes()
        case "array":
            flat = np.frombuffer(tensors[value].numpy().tobytes(), dtype=document["dtype"])
            return flat.reshape(document["shape"]).copy()
        case "scalar":
            return np.frombuffer(tensors[value].numpy().tobytes(), dtype=document["dtype"])[0]
    raise ValueError(f"unknown kind of packed value {document[_TAG]!r}")


def _pack(value: Any, tensors: dict[str, Tensor], path: str) -> Any:
    if value is None or isinstance(value, bool | str) or type(value) is int:
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {_TAG: "float", "value": repr(value)}
    if isinstance(value, Tensor):
        return {_TAG: "tensor", "value": _lift(value.detach(), tensors)}
    if isinstance(value, bytes):
        return {_TAG: "bytes", "value": _lift(_bytes_tensor(value), tensors)}
    if isinstance(value, np.ndarray | np.generic):
        return _pack_numpy(value, tensors, path)
    if isinstance(value, list):
        return [_pack(item, tensors, f"{path}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, tuple):
        items = [_pack(item, tensors, f"{path}[{index}]") for index, item in enumerate(value)]
        return {_TAG: "tuple", "value": items}
    if isinstance(value, dict):
        return _pack_dict(value, tensors, path)
    raise TypeError(f"{path} is a {type(value).__name__}; a state holds numbers, text, tensors and their nests")


def _pack_dict(value: dict[Any, Any], tensors: dict[str, Tensor], path: str) -> Any:
    if all(isinstance(key, str) for key in value) and _TAG not in value:
        return {key: _pack(item, tensors, f"{path}.{key}") for key, item in value.items()}
    pairs = [[_pack(key, tensors, path), _pack(item, tensors, f"{path}[{key!r}]")] for key, item in value.items()]
    return {_TAG: "dict", "value": pairs}


def _pack_numpy(value: np.ndarray | np.generic, tensors: dict[str, Tensor], path: str) -> Any:
    if value.dtype.hasobject:
        raise TypeError(f"{path} is a NumPy array of Python objects; only numbers can be saved")
    kind = "array" if isinstance(value, np.ndarray) else "scalar"
    key = _lift(_bytes_tensor(value.tobytes()), tensors)
    return {_TAG: kind, "value": key, "dtype": value.dtype.str, "shape": list(value.shape)}


def _lift(tensor: Tensor, tensors: dict[str, Tensor]) -> str:
    key = str(len(tensors))
    tensors[key] = tensor
    return key


def _bytes_tensor(content: bytes) -> Tensor:
    return torch.from_numpy(np.frombuffer(content, dtype=np.uint8).copy())
