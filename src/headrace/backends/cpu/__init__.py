"""The CPU device."""

from .executable import CpuExecutable

__all__ = ["CpuExecutable"]
