"""A model as a folder of static files that a browser plays: plan, weights, player."""

from .bundle import export_web

__all__ = ["export_web"]
