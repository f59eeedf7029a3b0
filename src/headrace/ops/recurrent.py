"""RNN, GRU and LSTM. One matrix product makes the inputs' part of every step; then one kernel a direction walks the
steps, a workgroup to each sequence, with the state in workgroup memory."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from ..kernels.expr import Fill, Heavy, Map, Stored, Tensor, reshaped, transposed
from ..kernels.index import number, variable
from ..kernels.template import Build, Launch, Template, wgsl
from .elementwise import cast
from .matmul import product
from .movement import Concat, sliced
from .registry import Call, Refuse, broadcast, op

QUANTIZED = "DynamicQuantizeLSTM"
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4, QUANTIZED: 4}
KIND = {"RNN": 0, "GRU": 1, "LSTM": 2, QUANTIZED: 2}
LSTM_FUNCTIONS = ("Sigmoid", "Tanh", "Tanh")
DEFAULTS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": LSTM_FUNCTIONS, QUANTIZED: LSTM_FUNCTIONS}
I32 = ir.DataType.INT32
WORDS = 4096  # of workgroup memory, that a device always has
ACTIVATIONS = {
    "relu": ("select(x, 0.0, x < 0.0)", 0.0, 0.0),
    "tanh": ("tanh_safe(x)", 0.0, 0.0),
    "sigmoid": ("sigmoid(x)", 0.0, 0.0),
    "affine": ("{a} * x + {b}", 1.0, 0.0),
    "leakyrelu": ("select({a} * x, x, x >= 0.0)", 0.01, 0.0),
    "thresholdedrelu": ("select(0.0, x, x >= {a})", 1.0, 0.0),
    "scaledtanh": ("{a} * tanh_safe({b} * x)", 1.0, 1.0),
    "hardsigmoid": ("clamp_nan({a} * x + {b}, 0.0, 1.0)", 0.2, 0.5),
    "elu": ("select({a} * expm1(x), x, x >= 0.0)", 1.0, 0.0),
    "softsign": ("x / (1.0 + abs(x))", 0.0, 0.0),
    "softplus": ("softplus(x)", 0.0, 0.0),
}
HELPERS = ("tanh_safe", "sigmoid", "clamp_nan", "expm1", "softplus")


@dataclass(frozen=True)
class Recurrent(Template):
    """Results: y [steps, batch, hidden], zero after a sequence's end; h and, for an LSTM, c by turn, carried on."""

    kind: int
    steps: int
    batch: int
    hidden: int
    functions: tuple[str, ...]
    reverse: bool
    clip: float
    linear_before_reset: bool
    coupled: bool
    quantized: bool
    name = "recurrent"

    def build(self, b: Build) -> Launch:
        gates = (1, 3, 4)[self.kind]
        t, n = variable("t", self.steps), variable("n", self.batch)
        g, j, k = variable("g", gates), variable("j", self.hidden), variable("k", self.hidden, 1)
        h = self.hidden
        b.read("x_in", 0, (t, n, g * h + j), ("t", "n", "g", "j"))
        b.read("weight", 1, (g * h + j, k), ("g", "j"), ("k",), any_map=True)
        b.read("bias", 2, (g * h + j,), ("g", "j"))
        b.read("first_h", 3, (number(0), n, j), ("n", "j"))
        b.read("length_of", 4, (n,), ("n",))
        if self.kind == 2:
            b.read("first_c", 3, (number(1), n, j), ("n", "j"))
            b.read("peephole", 2, (variable("g", 3) * h + j + 4 * h,), ("g", "j"))
        else:
            b.text.functions.append("fn first_c(n: i32, j: i32) -> f32 {\n    return 0.0;\n}\n")
            b.text.functions.append("fn peephole(g: i32, j: i32) -> f32 {\n    return 0.0;\n}\n")
        b.text.const(KIND=self.kind, HIDDEN=h, REVERSE=self.reverse, LINEAR=self.linear_before_reset)
        b.text.const(CLIPPED=self.clip > 0, COUPLED=self.coupled, CELLS=h if self.kind else 1)
        lanes = lanes_of(h)
        b.text.const(WG=lanes, QUANTIZED=self.quantized, ROUNDED=h if self.quantized else 1)
        b.text.const(LANES=lanes if self.quantized else 1)
        b.text.uniform(steps=self.steps, clip=float(self.clip))
        b.text.helpers.setdefault("clamp_nan")
        for name, text in zip("fgh", (*self.functions, "x", "x"), strict=False):
            for helper in HELPERS:
                if f"{helper}(" in text:
                    b.text.helpers.setdefault(helper)
            b.text.functions.append(f"fn act_{name}(x: f32) -> f32 {{\n    return {text};\n}}\n")
        at, turn = (t, n, j), (variable("s", self.steps), n, j)
        coords, values = [at, turn], [("y", "f32"), ("h", "f32")]
        if self.kind == 2:
            coords, values = [*coords, turn], [*values, ("c", "f32")]
        b.store("store_all", ["t", "s", "n", "j"], coords, values)
        extra = ", c" if self.kind == 2 else ""
        b.text.functions.append(
            "fn store_out(t: i32, s: i32, n: i32, j: i32, y: f32, h: f32, c: f32) {\n"
            f"    store_all(t, s, n, j, y, h{extra});\n}}\n"
        )
        flops = 2 * self.steps * self.batch * gates * h * h
        shared = 4 * (h + 2 * max(h, 1) + (h + 2 * lanes if self.quantized else 3))
        return Launch(wgsl(__file__, "recurrent.wgsl"), (self.batch, 1, 1), flops, (lanes, 1, 1), shared)


def lanes_of(hidden: int) -> int:
    """Threads that walk one sequence."""
    return 64 if hidden <= 64 else 128 if hidden <= 128 else 256


def steps_at_once(gates: int, hidden: int, loops: int) -> int:
    """How many steps one launch may walk with `loops` iterations of an invocation."""
    rounds = -(-hidden // lanes_of(hidden))
    return max(1, loops // (rounds * (gates * (hidden // 4 + 4) + 4) + lanes_of(hidden) + 2))


def _functions(call: Call, direction: int) -> tuple[str, ...]:
    """WGSL of a direction's activations, their parameters in place."""
    count = len(DEFAULTS[call.op_type])
    names = call.attr("activations") or DEFAULTS[call.op_type] * 2
    names = [n.decode() if isinstance(n, bytes) else n for n in names]
    alphas, betas = list(call.attr("activation_alpha") or ()), list(call.attr("activation_beta") or ())
    texts = []
    for i, name in enumerate(names):
        if name.lower() not in ACTIVATIONS:
            raise Refuse(f"the activation {name}")
        text, a, b = ACTIVATIONS[name.lower()]
        a = alphas.pop(0) if "{a}" in text and alphas else a
        b = betas.pop(0) if "{b}" in text and betas else b
        if i // count == direction:
            texts.append(text.format(a=float(a), b=float(b)))
    return tuple(texts)


def _part(x: Tensor, start: int, stop: int, node: str) -> Tensor:
    """x[start:stop]."""
    rest = len(x.shape) - 1
    return sliced(x, [start, *[0] * rest], [1] * (rest + 1), (stop - start, *x.shape[1:]), node)


def _drop(x: Tensor, i: int, node: str) -> Tensor:
    """x[i]."""
    return reshaped(_part(x, i, i + 1, node), x.shape[1:], node)


def _direction(call: Call, x: Tensor, d: int, reverse: bool, state: dict[str, Tensor]) -> list[Tensor]:
    """Results of one direction."""
    kind, gates = KIND[call.op_type], GATES[call.op_type]
    w, r = _drop(call.x(1), d, call.node), _drop(call.x(2), d, call.node)
    (steps, batch, _), hidden = x.shape, r.shape[-1]
    most = (WORDS - 512) // (4 if call.op_type == QUANTIZED else 3)
    if hidden > most:
        raise Refuse(f"a hidden size of {hidden}: at most {most} fit a workgroup's memory")
    given = product(call, x, transposed(w, (1, 0), call.node), x.dtype)
    recurrent: Tensor = Fill(0, (gates * hidden,), x.dtype)
    if call.has(3):
        both = _drop(call.x(3), d, call.node)
        recurrent = _part(both, gates * hidden, 2 * gates * hidden, call.node)
        parts = broadcast([given, _part(both, 0, gates * hidden, call.node)], call.node)
        given = Map("{0} + {1}", parts, x.dtype, call.node)
    start = _part(state["h"], d, d + 1, call.node)
    if kind == 2:
        start = _joined([start, _part(state["c"], d, d + 1, call.node)], call.node)
        recurrent = _joined([recurrent, _drop(state["p"], d, call.node)], call.node)
    functions = _functions(call, d)
    lengths, results = state["lengths"], []
    most = steps_at_once(gates, hidden, call.target.loops)
    pieces = [(0, steps)] if steps <= most else [(at, min(at + most, steps)) for at in range(0, int(steps), most)]
    for first, last in reversed(pieces) if reverse else pieces:
        template = _template(call, kind, (last - first, batch, hidden), functions, reverse)
        shape = ((last - first, batch, hidden), x.dtype)
        left = lengths if len(pieces) == 1 else _remaining(lengths, first, last, call.node)
        inputs = [_part(given, first, last, call.node), r, recurrent, start, left]
        y, *carried = Heavy(template, inputs, [shape] * (3 if kind == 2 else 2), call.node).results
        finals = [_drop(c, last - first - 1, call.node) for c in carried]
        results.append((first, y, finals))
        ends = [reshaped(f, (1, batch, hidden), call.node) for f in finals]
        start = _joined(ends, call.node) if kind == 2 else ends[0]
    whole = [y for _, y, _ in sorted(results, key=lambda piece: piece[0])]
    return [whole[0] if len(whole) == 1 else Concat(whole, 0, call.node), *results[-1][2]]


def _remaining(lengths: Tensor, first: int, last: int, node: str) -> Tensor:
    """How many steps of each sequence lie from `first` on and before `last`; less than none where it has ended."""
    if isinstance(lengths, Fill):
        return Fill(min(int(lengths.value), last) - first, lengths.shape, lengths.dtype)
    bounds = [Fill(n, lengths.shape, lengths.dtype) for n in (last, first)]
    return Map("min({0}, {1}) - {2}", [lengths, *bounds], lengths.dtype, node)


def _template(
    call: Call, kind: int, sizes: tuple[int, int, int], functions: tuple[str, ...], reverse: bool
) -> Recurrent:
    return Recurrent(
        kind,
        *sizes,
        functions,
        reverse,
        float(call.attr("clip", 0.0)),
        bool(call.attr("linear_before_reset", 0)),
        bool(call.attr("input_forget", 0)),
        call.op_type == QUANTIZED,
    )


@op("RNN", "GRU", "LSTM")
def recurrent(call: Call) -> list[Tensor]:
    """Every direction, activation, clip, peephole and layout, with sequences of different lengths."""
    x, batch_first = call.x(0), bool(call.attr("layout", 0))
    x = transposed(x, (1, 0, 2), call.node) if batch_first else x
    steps, batch, _ = x.shape
    directions, hidden = call.shape(2)[0], call.shape(2)[-1]
    if not steps or not batch:
        raise Refuse("a sequence of no steps")
    zeros = Fill(0, (directions, batch, hidden), x.dtype)
    lengths = cast(call.x(4), I32, call.node) if call.has(4) else Fill(steps, (batch,), I32)
    state = {"lengths": lengths, "p": call.x(7) if call.has(7) else Fill(0, (directions, 3 * hidden), x.dtype)}
    for name, i in (("h", 5), ("c", 6)):
        given = call.x(i) if call.has(i) else zeros
        state[name] = transposed(given, (1, 0, 2), call.node) if call.has(i) and batch_first else given
    way = call.attr("direction", "forward")
    each = [_direction(call, x, d, way == "reverse" or d == 1, state) for d in range(directions)]
    y = _stacked([reshaped(e[0], (steps, 1, batch, hidden)) for e in each], 1, call.node)
    finals = [
        _stacked([reshaped(e[i], (1, batch, hidden)) for e in each], 0, call.node) for i in range(1, len(each[0]))
    ]
    if batch_first:
        y = transposed(y, (2, 0, 1, 3), call.node)
        finals = [transposed(f, (1, 0, 2), call.node) for f in finals]
    return [y, *finals]


def _joined(parts: list[Tensor], node: str) -> Tensor:
    """One buffer of two, along the first axis: a kernel reads eight at most."""
    first, second = parts
    if isinstance(first, Fill) and isinstance(second, Fill) and first.value == second.value:
        return Fill(first.value, (first.shape[0] + second.shape[0], *first.shape[1:]), first.dtype)
    return Stored(Concat(parts, 0, node), node)


def _stacked(parts: list[Tensor], axis: int, node: str) -> Tensor:
    return parts[0] if len(parts) == 1 else Concat(parts, axis, node)
