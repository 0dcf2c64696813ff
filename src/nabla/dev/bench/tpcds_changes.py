"""Rounds of changes of TPC-DS: sales with their returns, returns by themselves, inventory, dimensions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import functions as F

from nabla.dev.bench.suite import changed_rows, scattered
from nabla.lake.facade import Lake
from nabla.lake.write.transaction import Transaction

Parts = Callable[[Transaction], None]


@dataclass(frozen=True)
class Channel:
    """A channel of sales: its tables, and their columns for what was bought together."""

    sales: str
    returns: str
    sold: str
    returned: str
    sold_item: str
    returned_item: str


CHANNELS = (
    Channel("store_sales", "store_returns", "ss_ticket_number", "sr_ticket_number", "ss_item_sk", "sr_item_sk"),
    Channel("catalog_sales", "catalog_returns", "cs_order_number", "cr_order_number", "cs_item_sk", "cr_item_sk"),
    Channel("web_sales", "web_returns", "ws_order_number", "wr_order_number", "ws_item_sk", "wr_item_sk"),
)
_STATES = "array('TX', 'GA', 'OH', 'IL', 'KY', 'TN', 'CA')"
_COLOURS = "array('peach', 'saddle', 'slate', 'powder', 'orchid')"
_CATEGORIES = "array('Books', 'Home', 'Sports', 'Music', 'Women', 'Electronics')"
UPDATES: dict[str, tuple[str, dict[str, str]]] = {
    "customer": (
        "c_customer_sk",
        {"c_birth_month": "1 + {any} % 12", "c_preferred_cust_flag": "if({any} % 2 = 0, 'Y', 'N')"},
    ),
    "customer_address": (
        "ca_address_sk",
        {"ca_state": f"element_at({_STATES}, 1 + {{any}} % 7)", "ca_gmt_offset": "-5 - {any} % 4"},
    ),
    "customer_demographics": ("cd_demo_sk", {"cd_purchase_estimate": "500 * (1 + {any} % 20)"}),
    "item": (
        "i_item_sk",
        {
            "i_color": f"element_at({_COLOURS}, 1 + {{any}} % 5)",
            "i_category": f"element_at({_CATEGORIES}, 1 + {{any}} % 6)",
            "i_current_price": "round(i_current_price * 1.1, 2)",
            "i_manager_id": "1 + {any} % 100",
        },
    ),
    "promotion": ("p_promo_sk", {"p_channel_email": "if({any} % 2 = 0, 'Y', 'N')"}),
}
"""The updates of dimensions: columns that the queries look at, as expressions of a number `{any}`."""


def change(lake: Lake, share: float, number: int, kind: str) -> str:
    """Make one round of changes in one transaction; return a description of it."""
    chosen = KINDS[kind]
    tables = dict.fromkeys(table for made in chosen for table in made.tables)
    parts = [part for made in chosen for part in made.make(lake, share, number)]
    before = lake.status()
    with lake.transaction() as tx:
        for part in parts:
            part(tx)
    after = lake.status()
    moved = [table for table in tables if after[table].version != before[table].version]
    return ", ".join(f"{changed_rows(lake, table)} rows of {table}" for table in moved) or "nothing"


def sales(lake: Lake, share: float, number: int) -> list[Parts]:
    """Delete some purchases with their returns, and insert copies of others under new numbers: half of the share each."""
    gone, copied = scattered(share / 2, number)
    parts: list[Parts] = []
    for channel in CHANNELS:
        highest = lake.read(channel.sales).agg(F.max(channel.sold)).first()
        assert highest is not None
        for table, key in ((channel.sales, channel.sold), (channel.returns, channel.returned)):
            rows = lake.read(table).where(copied.format(key=key))
            new = rows.withColumn(key, F.col(key) + F.lit(int(highest[0]))).toArrow()
            parts += [_delete(table, gone.format(key=key)), _insert(table, new)]
    return parts


def returns(lake: Lake, share: float, number: int) -> list[Parts]:
    """Half of the share is deleted; and of other purchases with a return another item is returned, too."""
    gone, repeated = scattered(share / 2, number)
    parts: list[Parts] = []
    for c in CHANNELS:
        columns = lake.read(c.returns).columns
        shown = ", ".join(f"more.item AS {name}" if name == c.returned_item else f"r.{name}" for name in columns)
        rows = lake.sql(
            f"SELECT {shown} FROM {c.returns} r JOIN ("
            f"SELECT {c.sold} AS bought, MIN({c.sold_item}) AS item, MIN({c.returned_item}) AS first FROM {c.sales} "
            f"JOIN {c.returns} ON {c.returned} = {c.sold} WHERE {repeated.format(key=c.sold)} AND NOT EXISTS ("
            f"SELECT 1 FROM {c.returns} x WHERE x.{c.returned} = {c.sold} AND x.{c.returned_item} = {c.sold_item}) "
            f"GROUP BY {c.sold}) more ON r.{c.returned} = more.bought AND r.{c.returned_item} = more.first"
        ).toArrow()
        parts += [_delete(c.returns, gone.format(key=c.returned)), _insert(c.returns, rows)]
    return parts


def inventory(lake: Lake, share: float, number: int) -> list[Parts]:
    """A quarter of the share is deleted, a quarter counted again on another day, and half counted anew."""
    key = "inv_date_sk, inv_item_sk, inv_warehouse_sk"
    gone, again = (text.format(key=key) for text in scattered(share / 4, number))
    updated, _ = (text.format(key=key) for text in scattered(share / 2, number + 1))
    later = f"inv_date_sk + {1 + number % 6}"
    rows = lake.sql(
        f"SELECT {later} AS inv_date_sk, inv_item_sk, inv_warehouse_sk, inv_quantity_on_hand FROM inventory i WHERE {again} "
        f"AND NOT EXISTS (SELECT 1 FROM inventory x WHERE x.inv_date_sk = i.{later} "
        "AND x.inv_item_sk = i.inv_item_sk AND x.inv_warehouse_sk = i.inv_warehouse_sk)"
    ).toArrow()
    quantity = {"inv_quantity_on_hand": f"pmod(hash({key}, {number}), 1000)"}
    return [_update("inventory", quantity, updated), _delete("inventory", gone), _insert("inventory", rows)]


def dimensions(lake: Lake, share: float, number: int) -> list[Parts]:
    parts = []
    for table, (key, values) in UPDATES.items():
        chosen, _ = scattered(share, number)
        any_number = f"pmod(hash({key}, {number}, 1), 1000000)"
        new = {column: text.format(any=any_number) for column, text in values.items()}
        parts.append(_update(table, new, chosen.format(key=key)))
    return parts


def _delete(table: str, where: str) -> Parts:
    return lambda tx: tx.delete(table, where=where)


def _update(table: str, values: dict[str, str], where: str) -> Parts:
    return lambda tx: tx.update(table, set=values, where=where)


def _insert(table: str, rows: pa.Table) -> Parts:
    return lambda tx: tx.insert(table, rows)


@dataclass(frozen=True)
class Change:
    make: Callable[[Lake, float, int], list[Parts]]
    tables: tuple[str, ...]


_RETURN_TABLES = tuple(channel.returns for channel in CHANNELS)
_SALES = Change(sales, (*(channel.sales for channel in CHANNELS), *_RETURN_TABLES))
_RETURNS = Change(returns, _RETURN_TABLES)
_INVENTORY = Change(inventory, ("inventory",))
_DIMENSIONS = Change(dimensions, tuple(UPDATES))
KINDS: dict[str, tuple[Change, ...]] = {
    "facts": (_SALES, _INVENTORY),
    "sales": (_SALES,),
    "returns": (_RETURNS,),
    "inventory": (_INVENTORY,),
    "dimensions": (_DIMENSIONS,),
    "all": (_SALES, _RETURNS, _INVENTORY, _DIMENSIONS),
}
"""The kinds of change: `facts` is sales with their returns, and inventory."""
