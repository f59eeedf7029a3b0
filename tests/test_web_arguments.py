"""`export_web`: odd arguments are InputErrors that say what, where and what to do; nothing raw from below."""

from __future__ import annotations

import gzip
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import headrace
from headrace.target import Target
from headrace.web.bundle import PLAYER_FILES

from .models import model_of, normal, one_node


def up_model():
    return one_node(
        "ConvTranspose", ("batch", 6, "time"), normal((6, 4, 7), 1), normal([4], 2), strides=[3], pads=[2, 1]
    )


SHAPES = {
    "a list of lists": [[1, 6, 5]],
    "a list of ints": [1, 6, 5],
    "a tuple of pairs": (("x", (1, 6, 5)),),
    "text": "x=1,6,5",
    "bytes": b"x",
    "a number": 5,
    "nothing in the list": [],
    "floats": {"x": (1.0, 6.0, 5.0)},
    "a float array": {"x": np.float32([1, 6, 5])},
    "a negative size": {"x": (1, 6, -5)},
    "a bool": {"x": (True, 6, 5)},
    "a string size": {"x": (1, 6, "5")},
    "a string shape": {"x": "165"},
    "None as a shape": {"x": None},
    "None as a size": {"x": (1, 6, None)},
    "a number as a shape": {"x": 6},
    "a dict as a shape": {"x": {1: 6}},
    "a nested shape": {"x": ((1, 6, 5),)},
    "an unknown name": {"z": (1, 6, 5)},
    "a name that is no text": {3: (1, 6, 5)},
    "another fixed size": {"x": (1, 7, 5)},
    "another rank": {"x": (1, 6)},
    "a scalar": {"x": ()},
    "a bad one among good ones": [{"x": (1, 6, 5)}, {"x": (1, 6, 2.5)}],
    "None among good ones": [{"x": (1, 6, 5)}, None],
}


@pytest.mark.parametrize("name", SHAPES)
def test_odd_input_shapes(tmp_path, name):
    with pytest.raises(headrace.InputError) as caught:
        headrace.export_web(up_model(), tmp_path, input_shapes=SHAPES[name])
    assert "input_shapes" in str(caught.value) or "'x'" in str(caught.value) or "'z'" in str(caught.value)
    assert not list(tmp_path.iterdir())


NO_FOLDERS = {"None": None, "a number": 3, "bytes": b"site", "no text": "", "a NUL": "a\0b", "a list": ["site"]}


@pytest.mark.parametrize("name", NO_FOLDERS)
def test_odd_folders(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(headrace.InputError, match="folder"):
        headrace.export_web(up_model(), NO_FOLDERS[name])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("target", [None, "m1", 3, Target])
def test_odd_targets(tmp_path, target):
    with pytest.raises(headrace.InputError, match="target"):
        headrace.export_web(up_model(), tmp_path, target=target)


FOREIGN = {
    "a page": {"index.html": "mine"},
    "weights of another": {"weights-0.bin": "mine", "weights-old.bin": "mine"},
    "a plan of another": {"plan.json": '{"steps": ["buy milk"]}', "note.txt": "mine"},
    "a plan that is no JSON": {"plan.json": "{"},
    "a plan that is a list": {"plan.json": "[]"},
    "anything": {"src/main.js": "mine"},
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_folder_with_other_files_is_left_alone(tmp_path, name):
    for path, text in FOREIGN[name].items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    with pytest.raises(headrace.InputError, match="not a bundle's"):
        headrace.export_web(up_model(), tmp_path)
    found = {str(f.relative_to(tmp_path)): f.read_text() for f in tmp_path.rglob("*") if f.is_file()}
    assert found == FOREIGN[name]


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "site").write_text("mine")
    for path in ("site", "site/inner"):
        with pytest.raises(headrace.HeadraceError, match="site"):
            headrace.export_web(up_model(), tmp_path / path)
    assert (tmp_path / "site").read_text() == "mine"


def test_a_bundle_is_replaced_and_its_neighbours_stay(tmp_path):
    (tmp_path / ".gitkeep").write_text("")
    headrace.export_web(up_model(), tmp_path)
    kept = {"weights-old.bin", "weights.bin", "weights-1.bin.orig", "page.html"}
    for name in (*kept, "weights-7.bin"):
        (tmp_path / name).write_text("mine")
    headrace.export_web(up_model(), str(tmp_path))
    assert {n for n in kept if (tmp_path / n).read_text() == "mine"} == kept
    assert not (tmp_path / "weights-7.bin").exists()


def test_the_hash_names_the_weights(tmp_path):
    """Equal for equal weights, another for any other; the sizes of inputs do not matter."""

    def hash_of(seed, **export):
        model = one_node("ConvTranspose", (1, 64, "time"), normal((64, 8, 16), seed), strides=[8])
        return headrace.export_web(model, tmp_path, **export)["weights"]["hash"]

    hashes = [hash_of(1), hash_of(1), hash_of(2), hash_of(1, f16=True)]
    assert hashes[0] == hashes[1] and len(set(hashes)) == 3 and all(hashes)


def test_the_player_is_as_small_as_is_said():
    """Its files together, each gzipped as a server sends it; where a size is told, it is this one."""
    root = Path(__file__).parents[1]
    files = [(root / "src" / "headrace" / "web" / n).read_bytes() for n in PLAYER_FILES if n.endswith(".js")]
    plain, zipped = sum(map(len, files)), sum(len(gzip.compress(f)) for f in files)
    assert zipped <= 12_000
    for path in ("README.md", "packages/web/README.md"):
        assert (
            f"{plain / 1000:.0f} kB" in (text := (root / path).read_text())
            and f"({zipped / 1000:.0f} kB gzipped)" in text
        )
    assert f"{zipped / 1000:.0f} kB, compressed" in (root / "src/headrace/web/index.html").read_text()


def test_the_npm_readme_links_nothing_outside_its_package():
    text = (Path(__file__).parents[1] / "packages" / "web" / "README.md").read_text()
    assert not re.findall(r"\]\((?!https?://|#)[^)]*\)", text)


DIMS = {
    "text": "batch=1",
    "a list": [1, 2],
    "unknown": {"height": 5},
    "zero": {"batch": 0},
    "a float": {"batch": 1.0},
    "a bool": {"batch": True},
    "a name that is no text": {3: 5},
}


@pytest.mark.parametrize("name", DIMS)
def test_odd_dims(tmp_path, name):
    with pytest.raises(headrace.InputError, match=r"[Dd]im"):
        headrace.export_web(up_model(), tmp_path, dims=DIMS[name])


@pytest.mark.parametrize("shape", [(1, 6, 5), [1, 6, 5], np.int64([1, 6, 5]), (np.int32(1), 6, 5)])
def test_shapes_of_any_integers(tmp_path, shape):
    bundle = headrace.export_web(up_model(), tmp_path, input_shapes={"x": shape})
    assert bundle["example"] == {"x": [1, 6, 5]} and "sizes" not in bundle


def test_dims_fix_some_and_leave_others(tmp_path):
    bundle = headrace.export_web(up_model(), tmp_path, dims={"batch": 2})
    assert [d["name"] for d in bundle["dims"]] == ["time"] and bundle["example"]["x"][:2] == [2, 6]
    assert "sizes" not in headrace.export_web(up_model(), tmp_path, dims={"batch": 2, "time": 7})


def unranked():
    model = model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": (3,)}, ["y"])
    model.graph.input[0].type.tensor_type.ClearField("shape")
    return model


def test_an_input_of_unknown_rank(tmp_path):
    with pytest.raises(headrace.InputError, match=r"'x'.*input_shapes"):
        headrace.export_web(unranked(), tmp_path)
    assert headrace.export_web(unranked(), tmp_path, {"x": (2, 3)})["example"] == {"x": [2, 3]}


@pytest.mark.parametrize("shape", [(3,), ("n",)])
def test_an_input_that_no_device_holds(tmp_path, shape):
    model = model_of([helper.make_node("Identity", ["x"], ["y"])], {"x": shape}, ["y"], dtype=TensorProto.STRING)
    with pytest.raises(headrace.HeadraceError, match="string"):
        headrace.export_web(model, tmp_path)


def test_unused_inputs_are_in_the_example(tmp_path):
    model = model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": (3,), "unused": ("n", 2)}, ["y"])
    assert headrace.export_web(model, tmp_path, {"unused": (4, 2)})["example"] == {"x": [3], "unused": [4, 2]}
    assert headrace.export_web(model, tmp_path)["example"]["unused"][1] == 2


def test_both_together(tmp_path):
    bundle = headrace.export_web(up_model(), tmp_path, [{"x": (2, 6, 5)}, {"x": (2, 6, 9)}], {"batch": 2})
    assert bundle["plans"] and "sizes" not in bundle
    with pytest.raises(headrace.InputError, match="cannot have the shape"):
        headrace.export_web(up_model(), tmp_path, {"x": (1, 6, 5)}, {"batch": 2})


def test_a_wrong_plan_for_all_sizes_is_noticed(tmp_path, monkeypatch):
    """The export compares with a plan made for one other size."""
    from headrace.plan.general import General

    right = General.at

    def wrong(self, dims):
        plan = right(self, dims)
        return replace(
            plan, readbacks=tuple(replace(r, shape=(*r.shape[:-1], r.shape[-1] + 1)) for r in plan.readbacks)
        )

    monkeypatch.setattr(General, "at", wrong)
    with pytest.raises(headrace.DeviceError, match="give input_shapes"):
        headrace.export_web(up_model(), tmp_path)


def test_a_model_whose_sizes_nobody_can_guess(tmp_path):
    """A Reshape to a constant size fits one product of sizes only, and no square is 91."""
    nodes = [helper.make_node("Reshape", ["x", "to"], ["y"])]
    model = model_of(nodes, {"x": ("n", "n")}, ["y"], {"to": np.int64([7, 13])})
    with pytest.raises(headrace.InputError, match="input_shapes"):
        headrace.export_web(model, tmp_path)
    assert headrace.export_web(model, tmp_path, {"x": (13, 7)})["plans"]
