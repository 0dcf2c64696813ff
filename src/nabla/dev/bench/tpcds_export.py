"""Writes the tables and queries of TPC-DS, by the extension of the DuckDB that runs this file: a program of its own, because
there is an extension for few versions of DuckDB, and Nabla has another.

    python tpcds_export.py FOLDER SCALE
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main(folder: Path, scale: float) -> None:
    import duckdb
    import duckdb_extension_tpcds

    package = Path(duckdb_extension_tpcds.__file__).parent
    extension = next(package.glob(f"extensions/v{duckdb.__version__}/*.duckdb_extension"))
    connection = duckdb.connect(str(folder / "generating.duckdb"))
    connection.execute(f"LOAD '{extension}'")
    queries = connection.execute("SELECT query_nr, query FROM tpcds_queries()").fetchall()
    (folder / "queries.json").write_text(json.dumps(dict(queries)), encoding="utf-8")
    connection.execute(f"CALL dsdgen(sf = {scale})")
    for (table,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
        connection.execute(f"COPY {table} TO '{folder / table}.parquet' (FORMAT parquet)")
    connection.close()
    (folder / "generating.duckdb").unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
