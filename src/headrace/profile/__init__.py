"""Where the time goes: recorded runs as events, cliffs in sentences, a table, a trace and a page."""

from .record import Cliff, Event, NodeFate, Peaks, Profile, load_profile

__all__ = ["Cliff", "Event", "NodeFate", "Peaks", "Profile", "load_profile"]
