"""The shape of the code itself: imports point one way, pieces stay small, the guides are true."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "headrace"
LONGEST_FILE, LONGEST_FUNCTION = 600, 80

LAYERS = (  # a module imports from its own layer and those before it
    ("errors", "version", "dtypes", "decode", "files"),
    ("model",),
    ("rules",),
    ("target", "kernels", "ops", "plan"),
    ("backends",),
    ("feeds", "profile", "session", "explanation"),
    ("bench", "web"),
    ("cli", "__main__", "__init__"),
)
LAYER = {name: i for i, names in enumerate(LAYERS) for name in names}
ALONE = {"jax", "torch"}


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def imported(path: Path) -> set[str]:
    """First parts, below `headrace`, of what a module imports when it is itself imported."""
    package = path.relative_to(SOURCE).parent.parts
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            names = [node.module.split(".")[0]] if node.module and not base else []
            found |= set(base[:1] or names or [alias.name for alias in node.names])
    return found


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_one_way(path):
    parts = path.relative_to(SOURCE).parts
    own = parts[0].removesuffix(".py")
    if own in ALONE:
        assert imported(path) <= {own, "errors"}
        return
    assert own in LAYER, f"{own} has no layer: add it to LAYERS and to ARCHITECTURE.md"
    later = {name for name in imported(path) if LAYER.get(name, -1) > LAYER[own]}
    assert not later, f"{own} imports {later}"


def test_pieces_stay_small(capsys):
    files = sorted(((len(p.read_text().splitlines()), p) for p in modules()), reverse=True)
    functions = sorted(
        (
            (node.end_lineno - node.lineno + 1, f"{p.relative_to(ROOT)}:{node.lineno} {node.name}")
            for p in modules()
            for node in ast.walk(ast.parse(p.read_text()))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ),
        reverse=True,
    )
    with capsys.disabled():
        print(f"\nlargest file: {files[0][0]} lines, {files[0][1].name}")
        print(f"largest function: {functions[0][0]} lines, {functions[0][1]}")
    assert files[0][0] <= LONGEST_FILE and functions[0][0] <= LONGEST_FUNCTION


def test_architecture_is_one_page_and_names_real_folders():
    lines = (ROOT / "ARCHITECTURE.md").read_text().splitlines()
    assert len(lines) <= 150
    for folder in (p.name for p in SOURCE.iterdir() if p.is_dir() and any(p.glob("*.py")) and p.name != "__pycache__"):
        assert any(f"`{folder}/`" in line for line in lines), f"ARCHITECTURE.md does not name {folder}/"
