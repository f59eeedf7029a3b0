"""`headrace web`: what cannot be served or written is told before the model is compiled."""

from __future__ import annotations

import socket

import onnx
import pytest
from typer.testing import CliRunner

from headrace import web
from headrace.cli import app
from headrace.errors import InputError

from .models import normal, one_node


@pytest.fixture
def command(tmp_path, monkeypatch):
    """A function that gives `headrace web` these arguments after the model; the error it raises, or what it prints."""
    onnx.save(one_node("MatMul", ("n", 3), normal((3, 2))), tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        result = CliRunner().invoke(app, ["web", "model.onnx", *map(str, arguments)])
        assert result.exception is None or isinstance(result.exception, InputError), result.exception
        return result.exception or result.output

    return call


@pytest.fixture
def taken_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        yield held.getsockname()[1]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--serve", "--beside", "nowhere"), "onnxruntime-web"),
        (("--serve", "--port", 80000), "port 80000"),
        (("--serve", "--port", -1), "port -1"),
        (("--serve", "--port", "taken"), "port"),
        (("--beside", "nowhere"), "--serve"),
        (("--port", 5), "--serve"),
        (("--port", 0), "--serve"),
        (("--port", 5, "--beside", "."), "--serve"),
        (("-o", ""), "folder"),
    ],
)
def test_bad_options_end_it_before_the_export(command, monkeypatch, taken_port, tmp_path, arguments, text):
    monkeypatch.setattr(web.bundle, "load", lambda model: pytest.fail("the model was loaded"))
    told = command("-o", "site", *(taken_port if a == "taken" else a for a in arguments))
    assert isinstance(told, InputError) and text in str(told)
    assert [f.name for f in tmp_path.iterdir()] == ["model.onnx"]


def test_files_that_are_not_a_bundles_stay(command, tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("mine")
    assert isinstance(command("-o", "site"), InputError)
    assert [f.name for f in (tmp_path / "site").iterdir()] == ["index.html"]


def test_it_writes_a_bundle_twice(command, tmp_path):
    for _ in range(2):
        assert not isinstance(command("-o", "site[/bold]"), InputError)
        assert (tmp_path / "site[/bold]" / "plan.json").is_file()
