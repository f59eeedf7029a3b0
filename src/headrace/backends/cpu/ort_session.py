"""ONNX Runtime sessions: created from a file, bytes or a proto with shared weights; its errors made ours."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from ...errors import DeviceError, HeadraceError, InputError, ModelError, UnsupportedNode, UnsupportedOpError
from ...model.proto import SharedProto

FATAL_ONLY = 4
UNKNOWN_OP = ("is not a registered function/op", "Could not find an implementation", "No Op registered")


def default_threads() -> int:
    """All cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def create(
    source: Path | bytes | SharedProto,
    threads: int,
    spinning: bool = True,
    folder: Path | None = None,
    profiles: Path | None = None,
) -> Any:
    """An onnxruntime.InferenceSession on the CPU.

    Args:
        source: a file, a serialized model, or a proto whose large weights are shared by reference.
        threads: of one operator.
        spinning: whether its threads wait for more work in a loop after a run; off where other work follows.
        folder: where external data of a serialized model lies.
        profiles: a folder for the session's profile; none is written by default.

    Raises:
        ModelError, UnsupportedOpError, DeviceError: what ONNX Runtime said, in our terms.
    """
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = FATAL_ONLY
    if not spinning:
        options.add_session_config_entry("session.force_spinning_stop", "1")
    if folder is not None:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
    if profiles is not None:
        options.enable_profiling = True
        options.profile_file_prefix = str(profiles / "run")
    model: Any = source
    if isinstance(source, SharedProto):
        if source.arrays:
            values = [
                ort.OrtValue.ortvalue_from_numpy(np.require(a, requirements=["C", "A"])) for a in source.arrays.values()
            ]
            options.add_external_initializers(list(source.arrays), values)
        model = source.proto.SerializeToString()
    elif isinstance(source, Path):
        model = str(source)
    try:
        return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's own classes derive from Exception directly
        raise translated(error) from error


SOURCE = re.compile(r"\S*onnxruntime_src/\S+:\d+ (?:.*? was false\. ?)?", re.DOTALL)  # file, function and assertion
PREFIX = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")
NO_KERNEL = re.compile(r"implementation for (\w+)\(\d+\) node with name '(.*?)'")
NODE_FAILED = re.compile(r"running (\w+) node\. Name:'(.*?)' Status Message: (.*)", re.DOTALL)


def translated(error: Exception) -> HeadraceError:
    """An error of ONNX Runtime as one of headrace's, without its codes."""
    text, kind = SOURCE.sub("", PREFIX.sub("", str(error))).strip() or type(error).__name__, type(error).__name__
    failed = NODE_FAILED.search(text)
    if failed:
        text = f"Node {failed[2]!r} ({failed[1]}) fails on these inputs: {failed[3].strip()}"
        return InputError(text)
    if kind == "NotImplemented" or any(mark in text for mark in UNKNOWN_OP):
        missing = NO_KERNEL.search(text)
        name, op = (missing[2], missing[1]) if missing else ("", "?")
        return UnsupportedOpError([UnsupportedNode(name, op, "", text)])
    if kind == "InvalidArgument" and "Got invalid dimensions" in text:
        return InputError(text)
    if kind in ("RuntimeException", "EPFail", "EngineError"):
        return DeviceError(f"ONNX Runtime failed: {text}")
    return ModelError(f"ONNX Runtime refuses the model: {text}")
