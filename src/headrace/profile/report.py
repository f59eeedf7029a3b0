"""A profile as one page that needs nothing else: its styles, scripts and the record are in it."""

from __future__ import annotations

import json
from importlib import resources

from .record import Profile


def html(profile: Profile) -> str:
    """The page as text."""
    data = json.dumps(profile.as_dict()).replace("<", "\\u003c")  # no name in a model can end the script
    page = _file("report.html")
    parts = {
        "/*style*/": _file("report.css"),
        "/*profile*/null": data,
        "/*script*/": _file("graph.js") + _file("report.js"),
    }
    for place, text in parts.items():
        head, found, rest = page.partition(place)
        assert found, f"report.html has no {place}"
        page = head + text + rest
    return page


def _file(name: str) -> str:
    return (resources.files(__package__) / "page" / name).read_text(encoding="utf-8")
