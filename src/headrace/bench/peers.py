"""Other runtimes on the same model and inputs. One that is not installed, or cannot run the model, is left out."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from ..errors import InputError

Runner = Callable[[], Any]
PEERS = ("onnxruntime", "openvino", "torch")


def installed(names: list[str] | None) -> list[str]:
    """The peers to run: those asked for, else those that are installed.

    Raises:
        InputError: a name that is no peer's, or a peer that was asked for and is not installed.
    """
    for name in names or ():
        if name not in PEERS:
            raise InputError(f"No peer is called {name!r}: choose from {', '.join(PEERS)}.")
        if importlib.util.find_spec(name) is None:
            raise InputError(f"{name} is not installed: pip install {name}.")
    return names if names is not None else [name for name in PEERS if importlib.util.find_spec(name)]


def runner(name: str, model: str | bytes, feeds: Mapping[str, np.ndarray], threads: int) -> Runner | None:
    """A call that runs `model` once in the peer, or None if it cannot."""
    make = {"onnxruntime": _onnxruntime, "openvino": _openvino, "torch": _torch}[name]
    try:
        return make(model, feeds, threads)
    except Exception:  # a peer that cannot run the model is no contender; its reasons are its own
        return None


def _onnxruntime(model: str | bytes, feeds: Mapping[str, np.ndarray], threads: int) -> Runner:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, dict(feeds))


def _openvino(model: str | bytes, feeds: Mapping[str, np.ndarray], threads: int) -> Runner:
    import openvino as ov

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        if isinstance(model, bytes):
            path.write_bytes(model)
        core = ov.Core()
        core.set_property("CPU", {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"})
        compiled = core.compile_model(str(path if isinstance(model, bytes) else model), "CPU")
    request = compiled.create_infer_request()
    return lambda: list(request.infer(dict(feeds)).values())


def _torch(model: str | bytes, feeds: Mapping[str, np.ndarray], threads: int) -> Runner | None:
    """torch runs no ONNX; a model of one convolution is said to it in its own terms."""
    import torch

    proto = onnx.load_model_from_string(model) if isinstance(model, bytes) else onnx.load(model)
    nodes = proto.graph.node
    if len(nodes) != 1 or nodes[0].op_type not in ("Conv", "ConvTranspose") or len(nodes[0].input) != 2:
        return None
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in nodes[0].attribute}
    if set(attributes) - {"strides", "group", "pads", "kernel_shape"}:
        return None
    w = torch.from_numpy(onnx.numpy_helper.to_array(proto.graph.initializer[0]).copy())
    x = torch.from_numpy(next(iter(feeds.values())))
    spatial = w.ndim - 2
    pads = attributes.get("pads", [0] * 2 * spatial)
    if pads[:spatial] != pads[spatial:]:
        return None
    kind = "conv_transpose" if nodes[0].op_type == "ConvTranspose" else "conv"
    function = getattr(torch.nn.functional, f"{kind}{spatial}d")
    options = {"stride": attributes.get("strides", 1), "padding": pads[:spatial], "groups": attributes.get("group", 1)}
    torch.set_num_threads(threads)

    def run() -> list[np.ndarray]:
        with torch.no_grad():
            return [function(x, w, **options).numpy()]

    return run
