"""A profile as one page that needs nothing else."""

from __future__ import annotations

import json
from importlib import resources

from .record import Profile

PLACE = "/*profile*/null"


def html(profile: Profile) -> str:
    """The page: its styles and scripts are in it, and the record as JSON."""
    page = (resources.files(__package__) / "report.html").read_text(encoding="utf-8")
    data = json.dumps(profile.as_dict()).replace("<", "\\u003c")  # no text of the model can end the script
    return page.replace(PLACE, data)
