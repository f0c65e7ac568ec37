"""What values look like: shapes and fields as authors write them, checking values, reading replies, making samples."""

from skillrun.language.declarations import input_type
from skillrun.language.fields import Coerced, Field, coerce
from skillrun.language.picoschema import ShapeSpec, parse_shape
from skillrun.language.replies import parse_reply
from skillrun.language.samples import sample
from skillrun.language.schemas import Shape, ShapeError

__all__ = [
    "Coerced",
    "Field",
    "Shape",
    "ShapeError",
    "ShapeSpec",
    "coerce",
    "input_type",
    "parse_reply",
    "parse_shape",
    "sample",
]
