"""Types as texts, which are parsed without Spark where that is easy."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import _parse_datatype_string

from nabla.engine.types import type_of

TYPES = {
    "int": "int",
    "BIGINT": "bigint",
    "decimal(10,2)": "decimal(10,2)",
    "interval day to second": "interval day to second",
    "interval year to month": "interval year to month",
    "variant": "variant",
    "array<int>": "array<int>",
    "array<array<decimal(3, 1)>>": "array<array<decimal(3,1)>>",
    "map<string,array<int>>": "map<string,array<int>>",
    "map<string,struct<a:int,b:map<int,date>>>": "map<string,struct<a:int,b:map<int,date>>>",
    "struct<a:int,b:array<struct<x:decimal(5,2),y:string>>>": "struct<a:int,b:array<struct<x:decimal(5,2),y:string>>>",
    "STRUCT<Name: STRING, Marks: ARRAY<STRUCT<Mark: INT>>>": "struct<Name:string,Marks:array<struct<Mark:int>>>",
    "struct<a:interval day to second,b:timestamp_ntz>": "struct<a:interval day to second,b:timestamp_ntz>",
}
ODD = ("struct<`odd name`:int,b:string>", "struct<a:int not null>", "interval day", "string collate UTF8_LCASE")


@pytest.mark.parametrize(("text", "simple"), TYPES.items())
def test_types_are_read_without_spark(text: str, simple: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nabla.engine.types._parse_datatype_string", None)
    type_of.cache_clear()
    assert type_of(text).simpleString() == simple


@pytest.mark.spark
@pytest.mark.parametrize("text", [*TYPES, *ODD])
def test_types_are_what_spark_reads(spark: SparkSession, text: str) -> None:
    type_of.cache_clear()
    assert type_of(text) == _parse_datatype_string(text)
