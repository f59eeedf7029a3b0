"""Side by side with other runtimes, in one process and one run."""

from .run import Result, bench_cases, bench_model

__all__ = ["Result", "bench_cases", "bench_model"]
