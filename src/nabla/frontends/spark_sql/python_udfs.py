"""Python functions that views call. The lake keeps them with the view, so that any process can maintain it."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.core.rdd import _prepare_for_python_RDD
from pyspark.sql import SparkSession

from nabla.errors import NablaError


@dataclass(frozen=True)
class PythonFunction:
    """A Python UDF: pickled code, the type of its results, and its kind. `python` is the version that pickled it; another
    version may not run its code."""

    code: str
    type: str
    kind: int
    deterministic: bool
    python: str

    @classmethod
    def of(cls, udf: Any) -> PythonFunction:
        """The function of a Catalyst expression."""
        function = udf.func()
        code = bytes(int(byte) & 0xFF for byte in function.command().mkString(",").split(","))
        return cls(
            base64.b64encode(code).decode(),
            udf.dataType().json(),
            udf.evalType(),
            udf.udfDeterministic(),
            function.pythonVer(),
        )

    @property
    def name(self) -> str:
        """A name made from the code, so that it means the same function in every session."""
        return "nabla_" + hashlib.sha256(repr(self).encode()).hexdigest()[:12]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def register(self, session: SparkSession) -> None:
        """Register the function in a session under its name."""
        context: Any = session.sparkContext
        if context.pythonVer != self.python:
            raise NablaError(
                "NABLA_PYTHON_VERSION",
                f"a function of the view was made by Python {self.python}, and this is Python {context.pythonVer}",
                remedy=f"Use Python {self.python}, or make the view again with rebuild=True.",
            )
        _, _, environment, includes = _prepare_for_python_RDD(context, None)
        wrapped = context._jvm.SimplePythonFunction(
            bytearray(base64.b64decode(self.code)),
            environment,
            includes,
            context.pythonExec,
            self.python,
            context._jvm.java.util.ArrayList(),
            context._javaAccumulator,
        )
        java: Any = session._jsparkSession
        type_ = context._jvm.org.apache.spark.sql.types.DataType.fromJson(self.type)
        no_rewrites = [] if context.version < "4.3" else [context._jvm.java.util.ArrayList() for _ in range(2)]
        made = context._jvm.org.apache.spark.sql.execution.python.UserDefinedPythonFunction(
            self.name, wrapped, type_, self.kind, self.deterministic, *no_rewrites
        )  # from Spark 4.3 on it takes the Python code rewritten as Catalyst expressions, too: there are none here
        java.udf().registerPython(self.name, made)
