"""A GPU made of the processor: tensors that say ``cuda:0`` and are as strict.

    with strict_device() as record:
        model.to("cuda")(x.to("cuda"))
    print(record.waits)

They compute on the CPU, forward and backward, also under autocast. An operator that is
given tensors of the GPU and of the CPU raises as PyTorch does. What makes the processor
wait for the device is counted, by kind and place.

To PyTorch's C++ they are of a device of its own, for which there is no driver to ask: a
real ``cuda:0`` needs one in the backward pass.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from unittest.mock import patch

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import (
    _DummyBackendModule,
    _setup_privateuseone_for_python_backend,
)

CUDA = torch.device("cuda:0")
NAME = "strict"  # of the device to PyTorch's C++
MEMORY = (40 << 30, 80 << 30)  # free and total bytes

# Operators whose result the processor has to read before it can go on: a value, or a
# size that depends on values.
WAITS = {
    "_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_dim",
    "unique_consecutive", "bincount", "equal", "is_nonzero",
}  # fmt: skip
INDEXING = {
    "index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index",
    "_unsafe_index_put",
}  # fmt: skip
# Arguments, by their places, that may be on the CPU though the others are not.
CPU_ARGUMENTS = {
    "_pack_padded_sequence": {1},
    "_pack_padded_sequence_backward": {2},
    "_pad_packed_sequence": {1},
    "_ctc_loss": {1, 2, 3},
    "_ctc_loss_backward": {2, 3, 4},
}
# Operators that take not even a number (a tensor without dimensions) of another device.
NO_CPU_NUMBERS = {
    "embedding", "gather", "scatter", "index_select", "cat", "bmm", "mm", "addmm",
}  # fmt: skip
NO_INTEGERS = {"mm", "bmm", "addmm", "baddbmm", "addmv", "mv", "dot", "convolution"}
OURS = ("/espnet_ext/", "/espnet2/", "/egs/", "/transformers/")


@dataclass
class Record:
    """What has happened on the device: waits by (kind, place), and operators."""

    waits: Counter[tuple[str, str]] = field(default_factory=Counter)
    operators: Counter[str] = field(default_factory=Counter)

    def wait(self, kind: str) -> None:
        """Count a wait at the innermost line of ESPnet's code or ours."""
        self.waits[kind, _place()] += 1

    def reset(self) -> None:
        """Forget all that was counted."""
        self.waits.clear()
        self.operators.clear()


_record = Record()


def _place() -> str:
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if any(folder in name for folder in OURS):
            return f"{'/'.join(name.split('/')[-2:])}:{frame.f_lineno}"
        frame = frame.f_back
    return "elsewhere"


class StrictTensor(torch.Tensor):
    """A tensor that says ``cuda:0``; ``inner`` holds its values, on the CPU."""

    inner: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> "StrictTensor":
        tensor = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=f"{NAME}:0",
            layout=inner.layout,
            requires_grad=False,
        )
        tensor.inner = inner
        return tensor

    @classmethod
    def __torch_dispatch__(
        cls, operator: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        return run_operator(operator, args, kwargs or {})

    @property
    def device(self) -> torch.device:
        return CUDA

    @property
    def is_cuda(self) -> bool:
        return True

    def get_device(self) -> int:
        return 0

    def __repr__(self, **options: Any) -> str:
        return f"StrictTensor({self.inner!r})"

    def __format__(self, spec: str) -> str:
        if self.dim():
            return object.__format__(self, spec)
        _record.wait("format")
        return format(self.inner.item(), spec)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.inner.detach().__reduce_ex__(protocol)

    def tolist(self) -> Any:
        _record.wait("tolist")
        return self.inner.tolist()

    def numpy(self, *args: Any, **options: Any) -> Any:
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    __array__ = numpy

    def untyped_storage(self) -> Any:
        return self.inner.untyped_storage()

    def data_ptr(self) -> int:
        return self.inner.data_ptr()


def wrap(x: Any) -> Any:
    """Put a tensor of the CPU on the strict device; anything else stays."""
    if isinstance(x, torch.Tensor) and not isinstance(x, StrictTensor):
        return StrictTensor(x)
    return x


def unwrap(x: Any) -> Any:
    """Take a tensor off the strict device; anything else stays."""
    return x.inner if isinstance(x, StrictTensor) else x


def _tensor_arguments(args: tuple, kwargs: dict) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield the tensors among the arguments, each with its place; -1: by name."""
    for place, argument in enumerate(args):
        for each in tree_leaves(argument):
            if isinstance(each, torch.Tensor):
                yield place, each
    for each in tree_leaves(kwargs):
        if isinstance(each, torch.Tensor):
            yield -1, each


def run_operator(operator: Any, args: tuple, kwargs: dict) -> Any:
    """Compute an operator on the CPU, after the checks of a GPU."""
    name = operator.overloadpacket.__name__
    device = kwargs.get("device")
    to_cuda = device is not None and torch.device(device).type in (NAME, "cuda")
    if name == "_to_copy":
        return _copy_to(operator, args[0], kwargs, to_cuda)
    if name == "copy_":
        return _copy_into(operator, *args, **kwargs)
    tensors = list(_tensor_arguments(args, kwargs))
    on_device = any(isinstance(tensor, StrictTensor) for _, tensor in tensors)
    if not on_device and not to_cuda:
        return operator(*args, **kwargs)
    if on_device and device is not None and not to_cuda:  # zeros_like(x, device="cpu")
        return operator(*tree_map(unwrap, args), **tree_map(unwrap, kwargs))
    _record.operators[name] += 1
    if on_device:
        _check_devices(name, args, tensors)
        _count_waits(name, args, kwargs)
    if device is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    result = _compute(name, operator, tree_map(unwrap, args), tree_map(unwrap, kwargs))
    return _wrap_result(name, operator, args, kwargs, result)


def _copy_to(operator: Any, source: Any, kwargs: dict, to_cuda: bool) -> Any:
    if kwargs.get("device") is None:  # another type of numbers, on the same device
        result = operator(unwrap(source), **kwargs)
        return wrap(result) if isinstance(source, StrictTensor) else result
    if isinstance(source, StrictTensor) and not to_cuda:
        _record.wait("copy to the CPU")
    to_gpu = to_cuda and not isinstance(source, StrictTensor)
    if to_gpu and not kwargs.get("non_blocking"):
        _record.wait("copy to the GPU")
    result = operator(unwrap(source), **{**kwargs, "device": torch.device("cpu")})
    return wrap(result) if to_cuda else result


def _copy_into(operator: Any, target: Any, source: Any, *rest: Any, **more: Any) -> Any:
    if isinstance(target, StrictTensor) != isinstance(source, StrictTensor):
        _record.wait("copy between devices")
    operator(unwrap(target), unwrap(source), *rest, **more)
    return target


def _check_devices(
    name: str, args: tuple, tensors: list[tuple[int, torch.Tensor]]
) -> None:
    def refuse(what: str) -> None:
        shapes = ", ".join(f"{t.device.type}{list(t.shape)}" for _, t in tensors)
        raise RuntimeError(
            "Expected all tensors to be on the same device: "
            f"{name}: {what} ({shapes}; {_place()})"
        )

    indexed = name in INDEXING
    if indexed and not isinstance(args[0], StrictTensor):
        refuse("what is indexed is on the CPU, and the index on the GPU")
    if name == "_pack_padded_sequence" and isinstance(args[1], StrictTensor):
        refuse("lengths must be on the CPU")
    if name in NO_INTEGERS and not (
        args[0].is_floating_point() or args[0].is_complex()
    ):
        refuse(f"not implemented for {args[0].dtype}")
    for place, tensor in tensors:
        number = not tensor.dim() and name not in NO_CPU_NUMBERS
        allowed = number or place in CPU_ARGUMENTS.get(name, ())
        if isinstance(tensor, StrictTensor) or allowed:
            continue
        if indexed and place == 1:
            _record.wait("index of the CPU")
        else:
            refuse(f"argument {place} is on the CPU")


def _count_waits(name: str, args: tuple, kwargs: dict) -> None:
    if name in WAITS:
        _record.wait(name)
    if name in INDEXING:
        kinds = {index.dtype for index in args[1] if index is not None}
        if kinds & {torch.bool, torch.uint8}:
            _record.wait("index by a mask")
    if name == "repeat_interleave" and not kwargs.get("output_size"):
        _record.wait("repeat_interleave")


def _compute(name: str, operator: Any, args: Any, kwargs: Any) -> Any:
    """Compute on the CPU what only a GPU has a kernel for, or does otherwise."""
    if name in ("_use_cudnn_ctc_loss", "_use_miopen_ctc_loss", "_is_pinned"):
        return False
    if name == "_thnn_fused_lstm_cell":
        return _lstm_cell(*args)
    if name == "_thnn_fused_lstm_cell_backward_impl":
        return _lstm_cell_backward(*args)
    args = list(args)
    if name in ("_softmax", "_log_softmax") and len(args) > 2 and args[2]:
        # a GPU's kernel goes from half precision to float32 at once
        args[0], args[2] = args[0].float(), False
    if name in ("_softmax_backward_data", "_log_softmax_backward_data"):
        wanted, args[3] = args[3], args[0].dtype
        return operator(*args, **kwargs).to(wanted)
    return operator(*args, **kwargs)


def _wrap_result(
    name: str, operator: Any, args: tuple, kwargs: dict, result: Any
) -> Any:
    if name == "_local_scalar_dense":
        return result
    if name == "_pack_padded_sequence":
        return wrap(result[0]), result[1]
    if isinstance(args[0] if args else None, StrictTensor) and result is args[0].inner:
        return args[0]  # computed in place
    if "out" in kwargs:
        return kwargs["out"]
    return tree_map(wrap, result)


def _lstm_cell(
    from_input: torch.Tensor,
    from_hidden: torch.Tensor,
    cells: torch.Tensor,
    input_bias: torch.Tensor | None = None,
    hidden_bias: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    gates = from_input + from_hidden
    if input_bias is not None:
        gates = gates + input_bias + hidden_bias
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    new = f * cells + i * g
    return o * new.tanh(), new, torch.cat((i, f, g, o), 1)


def _lstm_cell_backward(
    of_hidden: torch.Tensor | None,
    of_cells: torch.Tensor | None,
    before: torch.Tensor,
    after: torch.Tensor,
    gates: torch.Tensor,
    has_bias: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    i, f, g, o = gates.chunk(4, 1)
    squashed = after.tanh()
    if of_hidden is None:
        of_hidden = torch.zeros_like(before)
    total = of_hidden * o * (1 - squashed * squashed)
    if of_cells is not None:
        total = total + of_cells
    of_gates = torch.cat(
        (
            total * g * i * (1 - i),
            total * before * f * (1 - f),
            total * i * (1 - g * g),
            of_hidden * squashed * o * (1 - o),
        ),
        1,
    )
    return of_gates, total * f, of_gates.sum(0) if has_bias else None


class _Operators(TorchDispatchMode):
    """Also operators without a tensor of the device, as ``zeros(3, device="cuda")``."""

    def __torch_dispatch__(
        self, operator: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        return run_operator(operator, args, kwargs or {})


class _Functions(TorchFunctionMode):
    """Calls that PyTorch answers before it comes to an operator."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(function, "__name__", "")
        if name == "cuda" and args:
            return args[0].to(f"{NAME}:0")
        own = args and isinstance(args[0], StrictTensor)
        if own and name in ("tolist", "numpy", "untyped_storage", "data_ptr"):
            return getattr(StrictTensor, name)(args[0])
        if name == "to" or ("device" in kwargs and function is not torch.device):
            args = tuple(_to_strict(each) for each in args)
            kwargs = {key: _to_strict(value) for key, value in kwargs.items()}
        if own and name in ("new", "new_tensor") and isinstance(args[1], (list, tuple)):
            kwargs = {"dtype": args[0].dtype, "device": f"{NAME}:0", **kwargs}
            function, args = torch.tensor, args[1:]
        if own and name in ("__getitem__", "__setitem__"):
            args = (args[0], _copy_lists(args[1]), *args[2:])
        if function in (torch.tensor, torch.as_tensor, torch.asarray):
            return _make_tensor(function, args, kwargs)
        return function(*args, **kwargs)


def _make_tensor(function: Callable, args: tuple, kwargs: dict) -> Any:
    """Make a tensor of numbers: on the CPU first, as PyTorch does without telling."""
    device = kwargs.pop("device", None)
    data = args[0] if args else kwargs["data"]
    if device is None or isinstance(data, torch.Tensor):
        made = function(*args, **kwargs)
    else:
        made = function(*tree_map(_to_number, args), **kwargs)
    return made if device is None else made.to(device)


def _copy_lists(index: Any) -> Any:
    """Copy the lists of numbers in an index to the device, as PyTorch does."""
    if isinstance(index, tuple):
        return tuple(map(_copy_lists, index))
    if isinstance(index, list):
        return torch.tensor(index).to(f"{NAME}:0")
    return index


def _to_number(x: Any) -> Any:
    return x.item() if isinstance(x, StrictTensor) else x


def _to_strict(x: Any) -> Any:
    """Turn ``cuda`` into the device's name in C++; anything else stays."""
    if isinstance(x, (str, torch.device)) and str(x).startswith("cuda"):
        return torch.device(f"{NAME}:0")
    return x


class _Hidden(_DummyBackendModule):
    """The device's module: who looks for an accelerator is told that there is none."""

    def is_available(self) -> bool:
        return False


@cache
def _register_device() -> None:
    _setup_privateuseone_for_python_backend(NAME, backend_module=_Hidden())


@contextmanager
def strict_device() -> Iterator[Record]:
    """Have a strict ``cuda`` inside the block; yield what is counted there."""
    answers: dict[str, Callable] = {
        "_lazy_init": lambda: None,
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "is_bf16_supported": lambda *_, **__: True,
        "mem_get_info": lambda *_: MEMORY,
        "memory_reserved": lambda *_: 0,
        "memory_allocated": lambda *_: 0,
        "get_rng_state": lambda *_: torch.get_rng_state(),
        "set_rng_state": lambda state, *_: torch.set_rng_state(state),
        "synchronize": lambda *_: None,
        "empty_cache": lambda *_: None,
        "manual_seed": lambda *_: None,
        "manual_seed_all": lambda *_: None,
        "is_current_stream_capturing": lambda: False,
        "get_device_capability": lambda *_: (8, 0),
    }
    _register_device()
    swapped = torch.__future__.get_overwrite_module_params_on_conversion()
    with ExitStack() as stack:
        for name, answer in answers.items():
            stack.enter_context(patch.object(torch.cuda, name, answer))
        stack.enter_context(torch.backends.cudnn.flags(enabled=False))
        # backward in this thread: that of a device would ask the driver
        stack.enter_context(torch.autograd.set_multithreading_enabled(False))
        torch.__future__.set_overwrite_module_params_on_conversion(True)
        stack.callback(
            torch.__future__.set_overwrite_module_params_on_conversion, swapped
        )
        stack.enter_context(_Operators())
        stack.enter_context(_Functions())
        _record.reset()
        yield _record
