"""`InferenceSession`: onnxruntime's interface over headrace's devices."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import backends
from .backends.spans import Phases
from .errors import DeviceError, InputError
from .feeds import FedConstants, NodeArg, Signature, check_host_nodes, node_arg
from .files import path_of
from .model import Note, load
from .model.load import ModelSource
from .model.shapes import bind_dims

if TYPE_CHECKING:
    from .profile import Profile

PHASES = ("load", "optimize", "lower", "compile", "first run")
MOST_THREADS = 1024  # ONNX Runtime starts as many as it is told, and hangs from some thousands on


class InferenceSession:
    """A model ready to run on one device.

    Args:
        model: path of a `.onnx` file, its bytes, or an onnx.ModelProto.
        device: "auto" (a real GPU if there is one, else the CPU), "cpu" or "webgpu" (a software adapter too).
        fallback: False refuses, with UnsupportedOpError, a model any of whose nodes would leave the device.
        dims: sizes of symbolic dimensions, as {"batch": 1}.
        threads: CPU threads of one operator; default all cores.
        adapter: part of the name of a WebGPU adapter, as "llvmpipe".
        host_nodes: names of nodes that run on the CPU on purpose.
        providers: onnxruntime's way to name devices; ["CPUExecutionProvider"] means device="cpu".
        sess_options: onnxruntime.SessionOptions, of which intra_op_num_threads is read, as `threads`.
        dft_tolerance: how far a weight may be from a DFT basis (over its largest element) to be run as an FFT;
            default 4 units of rounding of the dtype in which it is stored.

    Raises:
        ModelError: the model cannot be read or is not valid.
        UnsupportedOpError: nodes that cannot run, all of them.
        DeviceError: no such device or adapter.
        InputError: unknown names in `dims`, or an argument out of range.
    """

    def __init__(
        self,
        model: ModelSource,
        device: str = "auto",
        *,
        fallback: bool = True,
        dims: Mapping[str, int] | None = None,
        threads: int | None = None,
        adapter: str | None = None,
        host_nodes: Sequence[str] = (),
        providers: Sequence[Any] | str | None = None,
        sess_options: Any = None,
        dft_tolerance: float | None = None,
    ) -> None:
        threads = _threads_of(sess_options) if threads is None else threads
        _check_options(threads, adapter, host_nodes, dft_tolerance)
        options = backends.Options(fallback, tuple(host_nodes), adapter, threads, dft_tolerance)
        self._device = backends.choose_device(device, providers, adapter)
        if adapter is not None and self._device == "cpu":
            raise InputError(f"adapter names a WebGPU adapter: the device is 'cpu', which has none called {adapter!r}.")
        self._phases, self._options = Phases(), options
        self._cold_ms: dict[str, float] | None = None  # by phase, once there was a run
        with self._phases.phase("load"):
            loaded = load(model)
            self._model = bind_dims(loaded, dims) if dims else loaded
        check_host_nodes(self._model, host_nodes)
        self._signature = Signature(self._model)
        self._outputs = {str(v.name): node_arg(v) for v in self._model.graph.outputs}
        self._executable = backends.executable(self._model, self._device, options)
        self._fed = FedConstants(self._model, lambda variant: backends.executable(variant, self._device, options))
        self._closed = False

    @property
    def device(self) -> str:
        """Where the model runs: "cpu" or "webgpu"."""
        return self._device

    @property
    def notes(self) -> Sequence[Note]:
        """What was repaired, rewritten or refused, and why."""
        return self._executable.notes

    @property
    def plan(self) -> Any:
        """The plan of the last run on WebGPU, as plain data; None on the CPU, where ONNX Runtime keeps its own."""
        return self._executable.plan

    def get_inputs(self) -> list[NodeArg]:
        """Inputs that must be fed; an initializer that is also listed as an input is not among them."""
        return list(self._signature.inputs.values())

    def get_outputs(self) -> list[NodeArg]:
        """Outputs in the model's order."""
        return list(self._outputs.values())

    def get_providers(self) -> list[str]:
        """onnxruntime's name of the device."""
        return [backends.PROVIDER_OF[self._device]]

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: Any = None,
        *,
        keep_on_device: bool = False,
    ) -> list[Any]:
        """Run the model once.

        Args:
            output_names: names of the wanted outputs; None for all, in the model's order.
            input_feed: an array for each input, by name, with the model's dtype and shape.
            run_options: accepted for onnxruntime's sake, ignored.
            keep_on_device: on WebGPU, return device arrays, which feed another session without a copy.

        Returns:
            numpy arrays (device arrays with `keep_on_device`), one for each name.

        Raises:
            InputError: unknown or missing names, wrong dtype, rank or dimension.
            DeviceError: the session is closed, or the device was lost.
        """
        if self._closed:
            raise DeviceError("This session is closed: create another one.")
        names = list(self._outputs) if output_names is None else self._checked_names(output_names)
        feeds, constants = self._signature.checked(input_feed)
        if self._cold_ms is None:
            return self._first_run(names, feeds, constants, keep_on_device)
        return self._run(names, feeds, constants, keep_on_device)

    def _run(self, names: Sequence[str], feeds: dict[str, Any], constants: Any, keep_on_device: bool) -> list[Any]:
        if not constants:
            return self._executable.run(names, feeds, keep_on_device)
        executable, extra = self._fed.executable_for(constants)
        return executable.run(names, feeds | extra, keep_on_device)

    def _first_run(
        self, names: Sequence[str], feeds: dict[str, Any], constants: Any, keep_on_device: bool
    ) -> list[Any]:
        """A run whose time, without what is made for it, ends the cold start."""
        before, start = self._executable.phases.total, time.perf_counter()
        results = self._run(names, feeds, constants, keep_on_device)
        made = self._executable.phases.total - before
        first = {"first run": (time.perf_counter() - start) * 1e3 - made}
        phases = self._phases.ms | self._executable.phases.ms | first
        self._cold_ms = {name: phases.get(name, 0.0) for name in PHASES}
        return results

    def profile(
        self, feeds: Mapping[str, Any], runs: int = 20, *, progress: Callable[[int], None] | None = None
    ) -> Profile:
        """Run the model and say where the time goes.

        Args:
            feeds: as for `run`.
            runs: recorded runs; medians over them are reported. Up to 5 runs that are not recorded come between.
            progress: called with the number of runs done.

        Returns:
            The profile: times of every kernel, copy, wait and host step, and the cliffs among them. It can be printed,
            saved, and written as a trace or a page.

        Raises:
            InputError, DeviceError: as `run`; `runs` is not a positive integer.
        """
        from .profile.measure import Subject, profile_executable

        if self._closed:
            raise DeviceError("This session is closed: create another one.")
        runs = _checked_runs(runs)
        checked, constants = self._signature.checked(feeds)
        if self._cold_ms is None:
            self._first_run(list(self._outputs), checked, constants, False)
        executable, extra = self._fed.executable_for(constants) if constants else (self._executable, {})
        name = self._model.path.name if self._model.path is not None else self._model.graph.name or "model"
        subject = Subject(self._model, name, self._device, executable, self._options, list(self._outputs))
        return profile_executable(subject, checked | extra, runs, self._cold_ms or {}, progress or (lambda _: None))

    def _checked_names(self, names: Sequence[str]) -> list[str]:
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise InputError(f"Outputs are asked for as a list of names, not {names!r}.")
        names = list(names)
        unknown = [n for n in names if n not in self._outputs]
        if unknown:
            raise InputError(
                f"No such output: {', '.join(map(repr, unknown))}. The model has: {', '.join(self._outputs)}."
            )
        return names

    def close(self) -> None:
        """Free everything that the session holds; a second call does nothing."""
        if not self._closed:
            self._closed = True
            self._executable.close()
            self._fed.close()

    def __enter__(self) -> InferenceSession:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return (
            f"InferenceSession(device={self._device!r}, inputs={list(self._signature.inputs)}, "
            f"outputs={list(self._outputs)})"
        )


def _threads_of(sess_options: Any) -> int | None:
    """The threads that onnxruntime's options ask for; 0 there means all cores."""
    if sess_options is None:
        return None
    threads = getattr(sess_options, "intra_op_num_threads", None)
    if not isinstance(threads, int):
        raise InputError(f"sess_options are onnxruntime.SessionOptions, not {sess_options!r}.")
    return threads or None


def _checked_runs(runs: Any) -> int:
    try:
        count = 0 if isinstance(runs, bool) else operator.index(runs)
    except TypeError:
        count = 0
    if count < 1:
        raise InputError(f"runs must be a positive integer, not {runs!r}.")
    return count


def _check_options(threads: Any, adapter: Any, host_nodes: Any, dft_tolerance: Any) -> None:
    if threads is not None and (not isinstance(threads, int) or not 1 <= threads <= MOST_THREADS):
        raise InputError(f"threads must be an integer from 1 to {MOST_THREADS}, not {threads!r}.")
    if adapter is not None and not isinstance(adapter, str):
        raise InputError(f"adapter is part of an adapter's name, not {adapter!r}.")
    if isinstance(host_nodes, str) or not isinstance(host_nodes, Iterable):
        raise InputError(f"host_nodes is a list of names, not {host_nodes!r}.")
    if dft_tolerance is not None and not (isinstance(dft_tolerance, (int, float)) and dft_tolerance >= 0):
        raise InputError(f"dft_tolerance must be a number that is not negative, not {dft_tolerance!r}.")


def optimize(
    model: ModelSource, output: str | Path, dims: Mapping[str, int] | None = None, *, dft_tolerance: float | None = None
) -> Sequence[Note]:
    """Rewrite a model into standard ONNX that any runtime runs, and write it to `output`.

    Args:
        model: path of a `.onnx` file, its bytes, or an onnx.ModelProto.
        output: path of the file to write; weights over 2 GB go to a file beside it.
        dims: sizes of symbolic dimensions; what pays depends on them.
        dft_tolerance: see InferenceSession.

    Returns:
        Notes on what was rewritten or refused, and why.

    Raises:
        ModelError: the model cannot be read, or `output` cannot be written.
        InputError: unknown names in `dims`.
    """
    from .model.save import save
    from .rules import Target, optimize_model

    _check_options(None, None, (), dft_tolerance)
    file = path_of(output)
    loaded = load(model)
    rewritten = optimize_model(bind_dims(loaded, dims) if dims else loaded, Target.EXPORT, dft_tolerance=dft_tolerance)
    save(rewritten, file)
    return rewritten.notes
