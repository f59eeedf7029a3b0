"""DETR with a ResNet-50 backbone: the graph as torch exports it, with random weights that keep activations in range."""

from __future__ import annotations

import functools
import gzip
import json
import zlib
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

GRAPH = Path(__file__).parent / "data" / "detr-resnet-50.graph.onnx.gz"
MASK_NODES = ("/m/model/backbone/Cast_2", "/m/model/backbone/Gather_2")  # the mask at the size of the features


@functools.cache
def detr() -> onnx.ModelProto:
    """Inputs pixel_values [batch, 3, h, w] float32 and pixel_mask [batch, 64, 64] int64. The file says of each weight
    its name, shape, mean and deviation."""
    model = onnx.load_model_from_string(gzip.decompress(GRAPH.read_bytes()))
    recipe = json.loads(next(p.value for p in model.metadata_props if p.key == "random_weights"))
    del model.metadata_props[:]
    for name, shape, mean, deviation in recipe:
        noise = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape, dtype=np.float32)
        weight = np.float32(mean) + np.float32(_scale(name, shape, deviation)) * noise
        model.graph.initializer.append(numpy_helper.from_array(weight, name))
    return model


def _scale(name: str, shape: list[int], deviation: float) -> float:
    """Weights so that activations keep their size; norms, shifts and queries so that each of them matters."""
    if "Expand" in name:
        return 1.0
    if "onnx::Mul" in name or "onnx::Add" in name:
        return 0.1
    if name.endswith("norm.weight"):
        return 0.2
    if len(shape) > 1 and max(shape) > 1 and deviation:
        return float(1 / np.sqrt(np.prod(shape[1:]) if len(shape) > 2 else shape[0]))
    return deviation or 0.1


def feeds(height: int, width: int, seed: int = 0) -> dict[str, np.ndarray]:
    """A random image, and a mask that leaves out its lower right edge."""
    mask = np.ones((1, 64, 64), np.int64)
    mask[:, 56:], mask[:, :, 60:] = 0, 0
    image = np.random.default_rng(seed).standard_normal((1, 3, height, width), dtype=np.float32)
    return {"pixel_values": image, "pixel_mask": mask}
