"""Reading a model file without reading its weights.

A protobuf parser copies every byte, though most of an ONNX file are the `raw_data` of large initializers, which are
better memory-mapped when they are needed. `without_weights` walks the wire format (protobuf encoding guide: varint
keys, field number << 3 | type) down ModelProto.graph.initializer and leaves each large raw_data out, naming its place
in the file as external data instead.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

import onnx

GRAPH, INITIALIZER = 7, 5  # ModelProto.graph, GraphProto.initializer
RAW_DATA, EXTERNAL_DATA, DATA_LOCATION = 9, 13, 14  # of TensorProto
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
LEAST_BYTES = 1 << 16

Buffer = memoryview | bytes


def without_weights(path: Path) -> onnx.ModelProto | None:
    """The model in `path` with its large initializers as external data in that same file.

    None where the file is not written as expected; a whole parse then tells what it is.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            view = memoryview(mapped)
            try:
                stripped = b"".join(_model(view, path.name))
            finally:
                view.release()
        model: onnx.ModelProto = onnx.ModelProto.FromString(stripped)
        return model
    except (ValueError, IndexError, OSError):
        return None
    except Exception as error:  # protobuf's DecodeError derives from Exception directly
        if type(error).__name__ == "DecodeError":
            return None
        raise


def _model(view: memoryview, location: str) -> Iterator[bytes]:
    for number, kind, start, body, end in _fields(view, 0, len(view)):
        if number == GRAPH and kind == BYTES:
            graph = b"".join(_graph(view, body, end, location))
            yield _key(GRAPH, BYTES) + _varint(len(graph)) + graph
        else:
            yield bytes(view[start:end])


def _graph(view: memoryview, begin: int, end: int, location: str) -> Iterator[bytes]:
    for number, kind, start, body, stop in _fields(view, begin, end):
        if number == INITIALIZER and kind == BYTES and stop - body >= LEAST_BYTES:
            tensor = b"".join(_tensor(view, body, stop, location))
            yield _key(INITIALIZER, BYTES) + _varint(len(tensor)) + tensor
        else:
            yield bytes(view[start:stop])


def _tensor(view: memoryview, begin: int, end: int, location: str) -> Iterator[bytes]:
    for number, kind, start, body, stop in _fields(view, begin, end):
        if number != RAW_DATA or kind != BYTES or stop - body < LEAST_BYTES:
            yield bytes(view[start:stop])
            continue
        for key, value in (("location", location), ("offset", str(body)), ("length", str(stop - body))):
            entry = onnx.StringStringEntryProto(key=key, value=value).SerializeToString()
            yield _key(EXTERNAL_DATA, BYTES) + _varint(len(entry)) + entry
        yield _key(DATA_LOCATION, VARINT) + _varint(onnx.TensorProto.EXTERNAL)


def _fields(view: memoryview, begin: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
    """(field number, wire type, start of the key, start of the content, end of the content) of every field.

    Raises:
        ValueError: no protobuf.
    """
    at = begin
    while at < end:
        key, body = _read_varint(view, at)
        number, kind = key >> 3, key & 7
        if kind == BYTES:
            length, body = _read_varint(view, body)
            stop = body + length
        elif kind == VARINT:
            stop = _read_varint(view, body)[1]
        elif kind in (FIXED64, FIXED32):
            stop = body + (8 if kind == FIXED64 else 4)
        else:
            raise ValueError(f"wire type {kind}")
        if number == 0 or stop > end:
            raise ValueError("a field reaches past the end")
        yield number, kind, at, body, stop
        at = stop


def _read_varint(view: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = view[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a varint of more than ten bytes")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _key(number: int, kind: int) -> bytes:
    return _varint(number << 3 | kind)
