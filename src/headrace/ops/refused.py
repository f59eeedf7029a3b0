"""Operators that have no kernel for a reason of their own, so that the reason is what the user reads."""

from __future__ import annotations

from typing import NoReturn

from .registry import Call, Refuse, op

REASONS = {
    "NonMaxSuppression": "how many boxes it keeps is known only after it has run",
    "Unique": "how many values differ is known only after it has run",
    "ImageDecoder": "image files are decoded on the host",
    "RandomNormal": "random numbers come from the host",
    "RandomNormalLike": "random numbers come from the host",
    "RandomUniform": "random numbers come from the host",
    "RandomUniformLike": "random numbers come from the host",
    "Multinomial": "random numbers come from the host",
    "StringNormalizer": "strings stay on the host",
    "StringConcat": "strings stay on the host",
    "StringSplit": "strings stay on the host",
    "RegexFullMatch": "strings stay on the host",
}


@op(*REASONS, since=1, dtypes="", note="on the host")
def refused(call: Call) -> NoReturn:
    """Always refuses."""
    raise Refuse(REASONS[call.op_type])
