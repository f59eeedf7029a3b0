"""Times what the CPU device runs: ONNX Runtime's own profile of each of its nodes, and a clock around our steps."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx_ir as ir

from ...model import Model
from ...model.shapes import infer_shapes
from ...rules.driver import label, origins
from ...rules.flops import node_cost
from ..spans import HOST, Recorder, Span

CONTROL = {"If", "Loop", "Scan"}  # their time is that of the nodes inside, which have events of their own
SUFFIX = "_kernel_time"  # ONNX Runtime's, after a node's name
BLOCKED = "_nchwc"  # its blocked convolutions are called after the tensor that they write


def named(model: Model) -> Model:
    """The model with a name for each node, also within If and Loop: ONNX Runtime's profile tells nodes by name only."""
    if all(n.name for n in model.graph.all_nodes()):
        return model
    copy = model.clone()
    copy.changed = True
    for node in copy.graph.all_nodes():
        node.name = label(node)
    return copy


@dataclass(slots=True)
class Watched:
    """An ONNX Runtime session that writes its profile, and when each of its runs began."""

    session: Any
    runs: list[tuple[Recorder, int]] = field(default_factory=list)


class Watch:
    """Given to a CpuExecutable, it makes its sessions write profiles; `collect` turns those into spans, after the last
    run: ONNX Runtime closes a profile once and for all."""

    def __init__(self) -> None:
        self.recorder: Recorder | None = None  # of the run at hand
        self.folder = Path(tempfile.mkdtemp(prefix="headrace-profile-"))
        self._sessions: list[Watched] = []

    def session(self, session: Any) -> Callable[..., list[Any]]:
        """The session's `run`, watched."""
        watched = Watched(session)
        self._sessions.append(watched)

        def run(names: Sequence[str] | None, feeds: Mapping[str, Any]) -> list[Any]:
            if self.recorder is not None:
                watched.runs.append((self.recorder, time.perf_counter_ns()))
            results: list[Any] = session.run(names, feeds)
            return results

        return run

    def step(self, node: ir.Node, run: Callable[[list[Any]], list[Any]]) -> Callable[[list[Any]], list[Any]]:
        """A step's `run`, watched."""

        def timed(arrays: list[Any]) -> list[Any]:
            if self.recorder is None:
                return run(arrays)
            with self.recorder.span("step", HOST, type(node.meta["step"]).__name__) as span:
                results = run(arrays)
            span.nodes, span.tensors = origins(node), tuple(str(v.name) for v in node.outputs)
            span.bytes = sum(a.nbytes for a in (*arrays, *results) if a is not None)
            return results

        return timed

    def collect(self, model: Model, inputs: Mapping[str, tuple[int, ...]]) -> None:
        """Add the spans of ONNX Runtime's nodes to the recorders of their runs. `model` is what it runs, `inputs` are
        the shapes that were fed."""
        nodes = _Nodes(model, inputs)
        for watched in self._sessions:
            if watched.runs:
                _add_spans(json.loads(Path(watched.session.end_profiling()).read_text("utf-8")), watched.runs, nodes)

    def close(self) -> None:
        """Remove the files."""
        for watched in self._sessions:
            with contextlib.suppress(Exception):  # closed before
                watched.session.end_profiling()
        self._sessions.clear()
        shutil.rmtree(self.folder, ignore_errors=True)


def _add_spans(events: Sequence[Mapping[str, Any]], runs: Sequence[tuple[Recorder, int]], nodes: _Nodes) -> None:
    """ONNX Runtime's clock is not ours: each of its runs is put where we saw it begin. Runs before the first of `runs`
    were not asked for."""
    starts = sorted(e["ts"] for e in events if e.get("name") == "model_run")[-len(runs) :]
    placed = sorted((e for e in events if e.get("cat") == "Node" and e["name"].endswith(SUFFIX)), key=lambda e: e["ts"])
    edges = [*starts[1:], float("inf")]
    for (recorder, began), start, end in zip(runs, starts, edges, strict=True):
        for e in placed:
            if start <= e["ts"] < end:
                at = began + (e["ts"] - start) * 1000
                recorder.spans.append(nodes.span(e, at, at + e["dur"] * 1000))


class _Nodes:
    """Finds the nodes of the user's model behind the names in ONNX Runtime's profile."""

    def __init__(self, model: Model, inputs: Mapping[str, tuple[int, ...]]) -> None:
        nodes = list(model.graph.all_nodes())
        self._by_name = {label(n): n for n in nodes}
        self._by_output = {str(v.name): n for n in nodes for v in n.outputs}
        self._shapes = infer_shapes(model, inputs)

    def span(self, event: Mapping[str, Any], start: int, end: int) -> Span:
        """One event of the profile as a span."""
        args, name = event["args"], event["name"].removesuffix(SUFFIX)
        found = self._behind(name, args["op_name"])
        costs = [c for n in found if (c := node_cost(n, self._shapes)) is not None]
        moved = sum(int(args.get(k, 0)) for k in ("activation_size", "parameter_size", "output_size"))
        if len(found) == 1 and costs:
            moved = costs[0].bytes  # with weights that were packed beforehand, which the profile leaves out
        labels = tuple(dict.fromkeys(o for n in found for o in origins(n)))
        kind = "control" if args["op_name"] in CONTROL else "operator"
        return Span(kind, HOST, args["op_name"], start, end, labels, (), moved, sum(c.flops for c in costs))

    def _behind(self, name: str, op: str) -> list[ir.Node]:
        if name.endswith(BLOCKED):
            return self._chain(self._by_output.get(name.removesuffix(BLOCKED)), op)
        found = self._by_name.get(name)
        while found is None and "/" in name.rstrip("/"):
            name = name.rstrip("/").rpartition("/")[0]  # a fused node is called after one that it came from
            found = self._by_name.get(name) or self._by_name.get(name + "/")
        return [found] if found is not None and not self._is_group(found, op) else []

    @staticmethod
    def _is_group(node: ir.Node, op: str) -> bool:
        """Whether a shortened name hit a node that has nothing to do with the operator."""
        return node.op_type not in op and op not in node.op_type

    def _chain(self, last: ir.Node | None, op: str) -> list[ir.Node]:
        """From the node that wrote the tensor back to the one that does the work: what was fused behind it."""
        chain: list[ir.Node] = []
        while last is not None and len(chain) < 6:
            chain.insert(0, last)
            if last.op_type == op:
                return chain
            before = [self._by_output.get(str(v.name)) for v in last.inputs if v is not None]
            last = next((n for n in before if n is not None), None)
        return chain[-1:]
