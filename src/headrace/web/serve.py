"""A local web server for a bundle: the headers that WebGPU, threads and caches want, on this machine only."""

from __future__ import annotations

from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ..errors import InputError


class Handler(SimpleHTTPRequestHandler):
    """Files with the right types, isolated as a page with wasm threads wants it, silent."""

    extensions_map = {  # noqa: RUF012
        **SimpleHTTPRequestHandler.extensions_map,
        ".js": "text/javascript",
        ".bin": "application/octet-stream",
    }

    def end_headers(self) -> None:
        """Add the isolation headers to every answer."""
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()

    def log_message(self, *args: Any) -> None:
        """Say nothing: the terminal is the user's."""


def server_for(folder: Path, port: int = 0) -> ThreadingHTTPServer:
    """A server of `folder` on 127.0.0.1; port 0 takes a free one.

    Raises:
        InputError: the port is taken.
    """
    try:
        return ThreadingHTTPServer(("127.0.0.1", port), partial(Handler, directory=str(folder)))
    except (OSError, OverflowError) as error:
        raise InputError(f"Cannot serve on port {port}: {error}") from error
