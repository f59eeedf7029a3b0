"""A profile as one page that needs nothing else: its styles, scripts and the record are in it."""

from __future__ import annotations

import json
from importlib import resources

from .record import Profile


def html(profile: Profile) -> str:
    """The page as text."""
    data = json.dumps(profile.as_dict()).replace("<", "\\u003c")  # no name in a model can end the script
    rest, done = _file("report.html"), ""
    for place, text in (
        ("/*style*/", _file("report.css")),
        ("/*profile*/null", data),
        ("/*script*/", _file("graph.js") + _file("report.js")),
    ):
        before, found, rest = rest.partition(place)  # in the template alone: a name in the model may look like a place
        assert found, f"report.html has no {place}"
        done += before + text
    return done + rest


def _file(name: str) -> str:
    return (resources.files(__package__) / "page" / name).read_text(encoding="utf-8")
