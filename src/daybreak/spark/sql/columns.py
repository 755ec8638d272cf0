"""Columns of results that every sink can hold."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StructType, VariantType

from daybreak.spark.sql.allowlist import Refused
from daybreak.spark.sql.messages import first_line


def check_columns(schema: StructType) -> None:
    """``Refused`` unless each column has a name of its own and a type that can be written."""
    seen: set[str] = set()
    for name in schema.names:
        if name.lower() in seen:
            raise Refused(f"has two columns {name!r}", "name them apart with AS")
        seen.add(name.lower())
    if not seen:
        raise Refused("has no columns", "select at least one")
    for column in schema.fields:
        kinds = _kinds(column.dataType)
        if NullType in kinds:
            raise Refused(f"column {column.name!r} has no type", "cast its NULL to one")
        if VariantType in kinds:  # Arrow has it as a struct that no reader knows as a variant
            raise Refused(
                f"has a column no sink can hold ({column.name!r} is a variant)",
                "take values out of it with variant_get, or write it with to_json",
            )
        try:
            to_arrow_schema(StructType([column]), timezone="UTC")
        except PySparkException as error:
            raise Refused(
                f"has a column no sink can hold ({column.name!r}: {first_line(str(error))})",
                "cast it to a text",
            ) from error


def _kinds(kind: DataType) -> set[type[DataType]]:
    """The classes of a type and of all types in it."""
    match kind:
        case StructType():
            inner = [field.dataType for field in kind.fields]
        case ArrayType():
            inner = [kind.elementType]
        case MapType():
            inner = [kind.keyType, kind.valueType]
        case _:
            inner = []
    return {type(kind)}.union(*(_kinds(one) for one in inner))
