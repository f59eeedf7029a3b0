"""The command: what it prints, exit codes, no tracebacks."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import headrace
from headrace.bench.record import load_record
from headrace.bench.run import relative_error
from headrace.cli import app
from headrace.errors import HeadraceError, InputError
from headrace.profile import load_profile
from headrace.profile.record import WORK

from .models import model_of, normal, one_node


def headrace_command(*arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([sys.executable, "-m", "headrace", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "up.onnx"
    onnx.save(one_node("ConvTranspose", ("batch", 64, 400), normal((64, 1, 1024)), strides=[256]), path)
    return path


def test_version():
    assert headrace_command("--version").stdout.strip() == f"headrace {headrace.__version__}"


@pytest.mark.parametrize("command", ["run", "explain", "optimize", "devices", "web", "bench", "profile"])
def test_help_has_an_example(command):
    assert f"headrace {command}" in headrace_command(command, "--help").stdout


BENCHMARKS = sorted((Path(__file__).parents[1] / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("script", BENCHMARKS, ids=lambda path: path.name)
def test_benchmarks_explain_themselves(script):
    if "jax" in script.name:
        pytest.importorskip("jax")
    done = subprocess.run([sys.executable, script, "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("usage: ") and not done.stderr


def test_run(model, tmp_path):
    x = normal((2, 64, 400))
    np.save(tmp_path / "x.npy", x)
    arguments = (
        "run",
        model,
        "-i",
        f"x={tmp_path / 'x.npy'}",
        "--device",
        "cpu",
        "--save",
        tmp_path / "out",
        "--json",
        "--repeat",
        2,
    )
    done = headrace_command(*arguments)
    report = json.loads(done.stdout)
    assert report["outputs"]["y"]["shape"] == [2, 1, 399 * 256 + 1024] and len(report["ms"]) == 2
    assert done.stderr == ""
    with headrace.InferenceSession(model, device="cpu") as session:
        np.testing.assert_array_equal(np.load(tmp_path / "out" / "y.npy"), session.run(None, {"x": x})[0])


def test_run_with_random_inputs(model):
    text = headrace_command("run", model, "--dim", "batch=3", "--device", "cpu").stdout
    assert "[3, 1, 103168]" in text and "ms on cpu" in text


def test_explain(model):
    text = re.sub(r"\s+", " ", headrace_command("explain", model).stdout)
    assert "as a convolution of 4 taps" in text and "GFLOP" in text
    told = json.loads(headrace_command("explain", model, "--json", "--dim", "batch=1").stdout)
    assert told["costs"][0]["flops"] == 2 * 64 * 400 * 1024


def test_optimize(model, tmp_path):
    headrace_command("optimize", model, "-o", tmp_path / "out.onnx", "--dim", "batch=1")
    assert "Conv" in [n.op_type for n in onnx.load(tmp_path / "out.onnx").graph.node]


def test_devices():
    assert json.loads(headrace_command("devices", "--json").stdout)[0]["device"] == "cpu"


def test_bench(model):
    done = headrace_command("bench", model, "--against", "onnxruntime", "--device", "cpu", "--seconds", "0.1", "--json")
    (result,) = json.loads(done.stdout)["results"]
    assert set(result["ms"]) == {"headrace", "onnxruntime"} and result["errors"]["onnxruntime"] < 1e-5
    assert all(low <= result["ms"][name] <= high for name, (low, high) in result["spread"].items())


def test_bench_compares_with_an_earlier_record(model, tmp_path):
    record = tmp_path / "record.json"
    options = ("--against", "onnxruntime", "--device", "cpu", "--seconds", "0.1")
    headrace_command("bench", model, *options, "--save", str(record))
    data = json.loads(record.read_text())
    slow = {**data["results"][0], "ms": {"headrace": 1e6}, "spread": {"headrace": [9e5, 2e6]}}
    record.write_text(json.dumps({**data, "results": [slow]}))
    done = headrace_command("bench", model, *options, "--compare", str(record))
    assert "times faster" in done.stdout and "within the spread" not in done.stdout
    assert load_record(record).results[0].ms["headrace"] == 1e6


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"format": 1, "results": [{}]}', '{"format": 7}'])
def test_a_file_that_is_no_record_is_refused(tmp_path, text):
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(InputError, match=r"bad\.json"):
        load_record(tmp_path / "bad.json")


def test_profile(model, tmp_path):
    files = {name: tmp_path / name for name in ("save", "trace", "html")}
    options = [text for name, path in files.items() for text in (f"--{name}", str(path))]
    done = headrace_command("profile", model, "--device", "cpu", "--runs", "2", *options)
    assert "cold start" in done.stdout and "does the work of" in done.stdout
    assert json.loads(files["save"].read_text())["runs"] == 2
    assert json.loads(files["trace"].read_text())["traceEvents"]
    assert files["html"].read_text().startswith("<!doctype html>")
    again = headrace_command("profile", model, "--device", "cpu", "--runs", "1", "--compare", str(files["save"]))
    assert "before, ms" in again.stdout
    found = json.loads(headrace_command("profile", model, "--device", "cpu", "--runs", "1", "--json").stdout)
    assert found["events"] and found["device"] == "cpu" and "comparison" not in found


def test_comparisons_are_in_the_json_which_is_a_record_too(model, tmp_path):
    bench_options = ("--against", "onnxruntime", "--seconds", "0.01")
    for command, options, load in (("profile", ("--runs", 1), load_profile), ("bench", bench_options, load_record)):
        said, compare = (command, model, "--device", "cpu", *options, "--json"), ()
        for _ in range(3):
            found = json.loads(headrace_command(*said, *compare).stdout)
            assert ("comparison" in found) == bool(compare)
            (tmp_path / "old.json").write_text(json.dumps(found))
            load(tmp_path / "old.json")
            compare = ("--compare", tmp_path / "old.json")
    (change,) = found["comparison"]
    assert change["name"] == model.name and change["now_ms"] == found["results"][0]["ms"]["headrace"]


def test_a_comparison_in_json_has_both_times(model, tmp_path):
    said = ("profile", model, "--device", "cpu", "--runs", 1, "--json")
    old = json.loads(headrace_command(*said, "--save", tmp_path / "old.json").stdout)
    new = json.loads(headrace_command(*said, "--dim", "batch=2", "--compare", tmp_path / "old.json").stdout)
    found = new["comparison"]
    assert found["ms"]["run"] == {"before": old["ms"], "now": new["ms"]} and found["differ"] == ["inputs"]
    for side, record in (("before", old), ("now", new)):
        listed = sum(row[side] or 0 for row in found["work"])
        assert listed == pytest.approx(sum(e["ms"] for e in record["events"] if e["kind"] in WORK))


@pytest.mark.parametrize("command", ["profile", "bench"])
def test_files_that_cannot_be_written_are_told_before_the_work(command, model, tmp_path):
    (tmp_path / "file").write_text("")
    options = {"profile": ("--save", "--trace", "--html"), "bench": ("--save",)}[command]
    for option in options:
        for path in (tmp_path / "no" / "r", tmp_path, tmp_path / "file" / "r", tmp_path / ("n" * 300)):
            with pytest.raises(InputError, match="Cannot write"):
                app([command, "no-such-model.onnx", option, str(path)], standalone_mode=False)
    with pytest.raises(HeadraceError, match=r"no-such-model"):
        app([command, "no-such-model.onnx", options[0], str(tmp_path / "new")], standalone_mode=False)
    assert not (tmp_path / "new").exists()


def test_bench_of_strings_compares_them_by_equality(tmp_path):
    text = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.STRING, ["n", 2])
    out = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.STRING, ["n", 2])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Identity", ["x"], ["y"])], "g", [text], [out])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8),
              tmp_path / "m.onnx")  # fmt: skip
    options = ("--device", "cpu", "--against", "onnxruntime", "--seconds", "0.01")
    done = headrace_command("bench", tmp_path / "m.onnx", *options, "--json")
    assert json.loads(done.stdout)["results"][0]["errors"] == {"onnxruntime": 0.0}
    headrace_command("bench", tmp_path / "m.onnx", *options)


@pytest.mark.parametrize(
    ("got", "want", "error"),
    [
        (np.array(["a", "ü"], object), np.array(["a", "ü"]), 0.0),
        (np.array(["a", "b"], object), np.array(["a", "c"], object), np.inf),
        (np.array(["a"], object), np.array(["a", "a"], object), np.inf),
        (np.zeros((0, 2), object), np.zeros((0, 2), object), 0.0),
        (np.array(["1"], object), np.float32([1]), np.inf),
        (np.float32([1, 2]), np.float32([1, 4]), 0.5),
        ([np.float32([1, 2]), np.float32([3])], [np.float32([1, 4]), np.float32([3])], 0.5),
        ([np.float32([1])], [], np.inf),
        ([], [], 0.0),
        (None, None, 0.0),
        (None, np.float32([1]), np.inf),
    ],
)
def test_relative_error_of_all_kinds_of_outputs(got, want, error):
    assert relative_error(got, want) == error


def test_explain_says_which_sizes_it_assumed_where_they_do_not_fit(tmp_path):
    nodes = [onnx.helper.make_node("Reshape", ["x", "to"], ["y"], name="square")]
    onnx.save(model_of(nodes, {"x": ["n", "m"]}, ["y"], {"to": np.int64([7, 13])}), tmp_path / "m.onnx")
    done = headrace_command("explain", tmp_path / "m.onnx", "--target", "m1", code=2)
    assert "square" in done.stderr and "--dim" in done.stderr and "[1, 128]" in done.stderr
    headrace_command("explain", tmp_path / "m.onnx", "--target", "m1", "--dim", "n=7", "--dim", "m=13")


def test_explain_predicts_for_a_gpu_that_is_not_here(model):
    done = headrace_command("explain", model, "--target", "m1")
    said = " ".join(done.stdout.split())
    assert "predicted by roofline, at best on Apple M1" in said and "Nothing was run" in said
    found = json.loads(headrace_command("explain", model, "--target", "rtx4090", "--json").stdout)
    assert found["prediction"]["ms"] > 0 and found["prediction"]["runs"] == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "nowhere.onnx"),
        ("run", "{model}", "--dim", "batch=x"),
        ("run", "{model}", "--dim", "nope=1"),
        ("run", "{model}", "--dim", "batch=²"),
        ("bench", "{model}", "--seconds", "-1"),
        ("bench", "{model}", "--seconds", "nan"),
        ("web", "{model}", "-o", "{out}", "--shape", "x=²,3"),
        ("run", "{model}", "-i", "x"),
        ("run", "{model}", "-i", "x=nowhere.npy"),
        ("run", "{model}", "-i", "z={array}"),
        ("run", "{model}", "-i", "x={array}"),
        ("run", "{model}", "--device", "tpu"),
        ("run", "{text}"),
        ("explain", "{text}"),
        ("optimize", "{text}", "-o", "out.onnx"),
        ("bench", "{model}", "--against", "nothing"),
        ("bench", "{model}", "--compare", "nowhere.json"),
        ("profile", "{model}", "--compare", "nowhere.json"),
        ("profile", "{model}", "--runs", "0"),
        ("profile", "{model}", "--runs", "1", "--device", "cpu", "--adapter", "llvmpipe"),
        ("profile", "{model}", "--runs", "1", "--html", "/nowhere/report.html"),
        ("explain", "{model}", "--target", "no-such-card"),
        ("explain", "{model}", "--target", "m1", "--host-node", "no-such-node"),
        ("web", "{model}", "-o", "{out}", "--dim", "nothing=3"),
        ("web", "{model}", "-o", "{out}", "--shape", "x=a"),
        ("web", "{model}", "-o", "{out}", "--shape", "x=1,2,3"),
        ("run",),
        ("unknown",),
    ],
)
def test_errors_exit_with_2(arguments, model, tmp_path):
    (tmp_path / "text").write_text("not a model")
    np.save(tmp_path / "array.npy", np.zeros(3))
    names = {"out": tmp_path / "out", "model": model, "text": tmp_path / "text", "array": tmp_path / "array.npy"}
    done = headrace_command(*(str(a).format(**names) for a in arguments), code=2)
    assert done.stderr.strip() and "Traceback" not in done.stderr


def test_explain_on_webgpu_names_what_leaves_the_device(tmp_path):
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "w"], ["p"], name="product"),
        onnx.helper.make_node("NonZero", ["p"], ["y"], name="find"),
    ]
    onnx.save(model_of(nodes, {"x": (4, 8)}, ["y"], {"w": normal((8, 8))}, output_dtype=7), tmp_path / "m.onnx")
    told = json.loads(headrace_command("explain", tmp_path / "m.onnx", "--device", "webgpu", "--json").stdout)
    assert [n["name"] for n in told["on_device"]["host"]] == ["find"]
    assert told["on_device"]["dispatches"][0]["nodes"] == ["product"]
    text = headrace_command("explain", tmp_path / "m.onnx", "--device", "webgpu").stdout
    assert "Leaves the device" in text and "find [NonZero]" in text


MARKUP = "[/x][bold]y[/i] :warning: [red]"  # what rich would take for styles, ends of styles and emoji


def squeezed(text):
    """Without spaces, borders and ends of lines, where long texts are folded."""
    return re.sub(r"[\s│┃]", "", text)


@pytest.fixture
def marked(tmp_path):
    """A model whose file, node, input, dimension and output have names that look like markup."""
    node = onnx.helper.make_node("ConvTranspose", [f"x{MARKUP}", "w"], [f"y{MARKUP}"], name=f"n{MARKUP}", strides=[256])
    inputs = {f"x{MARKUP}": [f"d{MARKUP}", 64, 20]}
    path = tmp_path / "up[bold]m[x].onnx"
    onnx.save(model_of([node], inputs, [f"y{MARKUP}"], {"w": normal((64, 1, 1024))}), path)
    return path


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["run"], [f"y{MARKUP}"]),
        (["explain"], ["up[bold]m[x].onnx", f"n{MARKUP}", f"x{MARKUP}"]),
        (["explain", "--target", "m1"], ["up[bold]m[x].onnx", f"n{MARKUP}"]),
        (["explain", "--target", "GPU"], [f"gpu{MARKUP}"]),
        (["optimize", "-o", "OUT"], [f"n{MARKUP}", "out[bold].onnx"]),
        (["profile", "--device", "cpu", "--runs", 1, "--compare", "OLD"], ["up[bold]m[x].onnx", f"was{MARKUP}"]),
        (["bench", "--device", "cpu", "--seconds", 0.01, "--against", "onnxruntime"], ["up[bold]m[x].onnx"]),
    ],
)
def test_names_are_printed_as_they_are(arguments, wanted, marked, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")
    (tmp_path / "gpu.json").write_text(json.dumps({"name": f"gpu{MARKUP}", "gflops": 100, "gbs": 10}))
    if "OLD" in arguments:
        with headrace.InferenceSession(marked, "cpu") as session:
            old = session.profile({f"x{MARKUP}": normal((1, 64, 20))}, 1).as_dict()
        changed = {"model": f"was{MARKUP}", "adapter": MARKUP}
        (tmp_path / "old.json").write_text(json.dumps({**old, **changed}))
        wanted = [*wanted, f"the adapter differ: {MARKUP}"]
    files = {"GPU": "gpu.json", "OUT": "out[bold].onnx", "OLD": "old.json"}
    command, *options = [tmp_path / files[a] if a in files else a for a in arguments]
    printed = squeezed(headrace_command(command, marked, *options).stdout)
    for text in wanted:
        assert squeezed(text) in printed
