"""Plan: from a graph and concrete shapes to plain data that a player runs. lower -> fuse -> compile -> verify."""

from .compile import make_plan
from .lower import Graph, Spec, Walk, host_inputs, prepare_graph
from .plan import Binding, Constant, Dispatch, HostStep, Kernel, Plan, Readback, Slot, Upload
from .verify import verify_plan

__all__ = [
    "Binding",
    "Constant",
    "Dispatch",
    "Graph",
    "HostStep",
    "Kernel",
    "Plan",
    "Readback",
    "Slot",
    "Spec",
    "Upload",
    "Walk",
    "host_inputs",
    "make_plan",
    "prepare_graph",
    "verify_plan",
]
