"""A local web server for a bundle: the headers that WebGPU, threads and caches want, on this machine only."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote, urlsplit

from ..errors import InputError


class Handler(SimpleHTTPRequestHandler):
    """Files with the right types, isolated as a page with wasm threads wants it, silent. `others` maps paths of URLs to
    files or folders elsewhere."""

    def __init__(self, *args: Any, others: Mapping[str, Path] = MappingProxyType({}), **options: Any) -> None:
        self.others = others
        super().__init__(*args, **options)

    def translate_path(self, path: str) -> str:
        """The file for a URL's path, which cannot leave the folder that it names."""
        wanted = PurePosixPath(unquote(urlsplit(path).path))
        for place, target in self.others.items():
            if wanted == PurePosixPath(place):
                return str(target)
            if wanted.is_relative_to(place) and ".." not in wanted.parts:
                return str(target / wanted.relative_to(place))
        return super().translate_path(path)

    extensions_map = {  # noqa: RUF012
        **SimpleHTTPRequestHandler.extensions_map,
        ".js": "text/javascript",
        ".mjs": "text/javascript",
        ".wasm": "application/wasm",
        ".bin": "application/octet-stream",
    }

    def end_headers(self) -> None:
        """Add the isolation headers to every answer."""
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()

    def log_message(self, *args: Any) -> None:
        """Say nothing: the terminal is the user's."""


def server_for(folder: Path, port: int = 0, others: Mapping[str, Path] = MappingProxyType({})) -> ThreadingHTTPServer:
    """A server of `folder` on 127.0.0.1; port 0 takes a free one. `others` as for Handler.

    Raises:
        InputError: the port is taken.
    """
    try:
        return ThreadingHTTPServer(("127.0.0.1", port), partial(Handler, directory=str(folder), others=others))
    except (OSError, OverflowError) as error:
        raise InputError(f"Cannot serve on port {port}: {error}") from error
