"""A page in headless Chromium, served from a folder of the test's own. A missing browser is an error, not a skip."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

FLAGS = [
    "--enable-unsafe-webgpu", "--enable-webgpu-developer-features", "--disable-quic", "--no-first-run", "--no-sandbox",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
]  # fmt: skip
PLAYER = Path(__file__).parents[2] / "src" / "headrace" / "web"


class Handler(SimpleHTTPRequestHandler):
    extensions_map: ClassVar[dict[str, str]] = {**SimpleHTTPRequestHandler.extensions_map, ".js": "text/javascript"}

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A served folder and its URL; the player is in it."""
    root = tmp_path_factory.mktemp("site")
    for source in PLAYER.glob("*.js"):
        shutil.copy(source, root)
    (root / "index.html").write_text("<!doctype html><title>test</title>")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=root))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield root, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    path = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)
    assert path, "Chromium is missing: apt install chromium"
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Any, site: tuple[Path, str]) -> Iterator[Any]:
    """A fresh page on the site, with what it logs as errors in `page.errors`."""
    opened = browser.new_page()
    opened.errors = []
    opened.on("console", lambda m: opened.errors.append(m.text) if m.type in ("error", "warning") else None)
    opened.on("pageerror", lambda e: opened.errors.append(str(e)))
    opened.set_default_timeout(120_000)
    opened.goto(f"{site[1]}/index.html")
    yield opened
    opened.close()
