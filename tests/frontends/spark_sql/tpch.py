"""The shapes of the 22 TPC-H queries over a miniature of its tables, with constants that fit the few rows there are."""

from __future__ import annotations

import random
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

SCHEMAS = {
    "region": "r_regionkey INT, r_name STRING",
    "nation": "n_nationkey INT, n_name STRING, n_regionkey INT",
    "supplier": "s_suppkey INT, s_name STRING, s_address STRING, s_nationkey INT, s_phone STRING, s_acctbal DECIMAL(15,2), "
    "s_comment STRING",
    "customer": "c_custkey INT, c_name STRING, c_address STRING, c_nationkey INT, c_phone STRING, c_acctbal DECIMAL(15,2), "
    "c_mktsegment STRING, c_comment STRING",
    "part": "p_partkey INT, p_name STRING, p_mfgr STRING, p_brand STRING, p_type STRING, p_size INT, p_container STRING, "
    "p_retailprice DECIMAL(15,2)",
    "partsupp": "ps_partkey INT, ps_suppkey INT, ps_availqty INT, ps_supplycost DECIMAL(15,2)",
    "orders": "o_orderkey INT, o_custkey INT, o_orderstatus STRING, o_totalprice DECIMAL(15,2), o_orderdate DATE, "
    "o_orderpriority STRING, o_shippriority INT, o_comment STRING",
    "lineitem": "l_orderkey INT, l_partkey INT, l_suppkey INT, l_linenumber INT, l_quantity DECIMAL(15,2), "
    "l_extendedprice DECIMAL(15,2), l_discount DECIMAL(15,2), l_tax DECIMAL(15,2), l_returnflag STRING, l_linestatus STRING, "
    "l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, l_shipinstruct STRING, l_shipmode STRING",
}

NATIONS = ["FRANCE", "GERMANY", "BRAZIL", "CANADA", "SAUDI ARABIA"]
BRANDS = ["Brand#12", "Brand#23", "Brand#34"]
TYPES = ["ECONOMY ANODIZED STEEL", "PROMO BURNISHED BRASS", "MEDIUM POLISHED TIN"]


def rows(seed: int = 7) -> dict[str, list[tuple[Any, ...]]]:
    """Few keys, so that all joins meet; some NULLs; some rows twice."""
    r = random.Random(seed)

    def maybe(value: Any) -> Any:
        return None if r.random() < 0.05 else value

    def money(most: int) -> Decimal:
        return Decimal(r.randrange(most * 100)) / 100

    def day() -> date:
        return date(1994, 1, 1) + timedelta(days=r.randrange(700))

    def line(n: int) -> tuple[Any, ...]:
        shipped = day()
        return (
            r.randrange(20), maybe(r.randrange(8)), maybe(r.randrange(6)), n % 4, Decimal(r.randrange(1, 50)), money(1000),
            Decimal(r.randrange(11)) / 100, Decimal(r.randrange(9)) / 100, r.choice("RAN"), r.choice("OF"), shipped,
            shipped + timedelta(days=r.randrange(-20, 20)), maybe(shipped + timedelta(days=r.randrange(1, 30))),
            r.choice(["DELIVER IN PERSON", "NONE"]), r.choice(["MAIL", "SHIP", "AIR", "AIR REG"]),
        )  # fmt: skip

    data: dict[str, list[tuple[Any, ...]]] = {
        "region": [(0, "EUROPE"), (1, "AMERICA"), (2, "ASIA")],
        "nation": [(i, name, i % 3) for i, name in enumerate(NATIONS)],
        "supplier": [
            (i, f"S{i}", f"a{i}", i % 5, f"{10 + i}-1", money(500), maybe(r.choice(["fine", "Customer Complaints"])))
            for i in range(6)
        ],
        "customer": [
            (
                i,
                f"C{i}",
                f"a{i}",
                maybe(i % 5),
                f"{r.choice([13, 31, 23])}-{i}",
                maybe(money(900)),
                r.choice(["BUILDING", "AUTOMOBILE"]),
                "c",
            )
            for i in range(10)
        ],
        "part": [
            (
                i,
                r.choice(["green forest", "red rose"]),
                "M1",
                r.choice(BRANDS),
                r.choice(TYPES),
                r.randrange(1, 16),
                r.choice(["SM CASE", "MED BAG", "LG BOX"]),
                money(100),
            )
            for i in range(8)
        ],
        "partsupp": [(i % 8, maybe(i % 6), r.randrange(100), money(50)) for i in range(24)],
        "orders": [
            (
                i,
                maybe(r.randrange(10)),
                r.choice("FOP"),
                money(5000),
                day(),
                r.choice(["1-URGENT", "2-HIGH", "5-LOW"]),
                0,
                maybe(r.choice(["special requests", "plain"])),
            )
            for i in range(20)
        ],
        "lineitem": [line(n) for n in range(80)],
    }
    data["lineitem"] += data["lineitem"][:3]
    data["partsupp"] += data["partsupp"][:2]
    return data


QUERIES = {
    "q1": """
        select l_returnflag, l_linestatus, sum(l_quantity) as sum_qty, sum(l_extendedprice) as sum_base_price,
            sum(l_extendedprice * (1 - l_discount)) as sum_disc_price,
            sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) as sum_charge,
            avg(l_quantity) as avg_qty, avg(l_extendedprice) as avg_price, avg(l_discount) as avg_disc, count(*) as count_order
        from lineitem where l_shipdate <= date '1995-12-01' - interval '90' day
        group by l_returnflag, l_linestatus order by l_returnflag, l_linestatus""",
    "q2": """
        select s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
        from part, supplier, partsupp, nation, region
        where p_partkey = ps_partkey and s_suppkey = ps_suppkey and p_size < 12 and p_type like '%S%'
            and s_nationkey = n_nationkey and n_regionkey = r_regionkey and r_name = 'EUROPE'
            and ps_supplycost = (select min(ps_supplycost) from partsupp, supplier, nation, region
                where p_partkey = ps_partkey and s_suppkey = ps_suppkey and s_nationkey = n_nationkey
                    and n_regionkey = r_regionkey and r_name = 'EUROPE')
        order by s_acctbal desc, n_name, s_name, p_partkey limit 100""",
    "q3": """
        select l_orderkey, sum(l_extendedprice * (1 - l_discount)) as revenue, o_orderdate, o_shippriority
        from customer, orders, lineitem
        where c_mktsegment = 'BUILDING' and c_custkey = o_custkey and l_orderkey = o_orderkey
            and o_orderdate < date '1995-03-15' and l_shipdate > date '1994-03-15'
        group by l_orderkey, o_orderdate, o_shippriority order by revenue desc, o_orderdate limit 10""",
    "q4": """
        select o_orderpriority, count(*) as order_count from orders
        where o_orderdate >= date '1994-07-01' and o_orderdate < date '1994-07-01' + interval '9' month
            and exists (select * from lineitem where l_orderkey = o_orderkey and l_commitdate < l_receiptdate)
        group by o_orderpriority order by o_orderpriority""",
    "q5": """
        select n_name, sum(l_extendedprice * (1 - l_discount)) as revenue
        from customer, orders, lineitem, supplier, nation, region
        where c_custkey = o_custkey and l_orderkey = o_orderkey and l_suppkey = s_suppkey and c_nationkey = s_nationkey
            and s_nationkey = n_nationkey and n_regionkey = r_regionkey and r_name = 'EUROPE'
            and o_orderdate >= date '1994-01-01' and o_orderdate < date '1994-01-01' + interval '1' year
        group by n_name order by revenue desc""",
    "q6": """
        select sum(l_extendedprice * l_discount) as revenue from lineitem
        where l_shipdate >= date '1994-01-01' and l_shipdate < date '1994-01-01' + interval '1' year
            and l_discount between 0.06 - 0.04 and 0.06 + 0.01 and l_quantity < 24""",
    "q7": """
        select supp_nation, cust_nation, l_year, sum(volume) as revenue
        from (select n1.n_name as supp_nation, n2.n_name as cust_nation, extract(year from l_shipdate) as l_year,
                l_extendedprice * (1 - l_discount) as volume
            from supplier, lineitem, orders, customer, nation n1, nation n2
            where s_suppkey = l_suppkey and o_orderkey = l_orderkey and c_custkey = o_custkey
                and s_nationkey = n1.n_nationkey and c_nationkey = n2.n_nationkey
                and ((n1.n_name = 'FRANCE' and n2.n_name = 'GERMANY') or (n1.n_name = 'GERMANY' and n2.n_name = 'FRANCE'))
                and l_shipdate between date '1994-01-01' and date '1995-12-31') as shipping
        group by supp_nation, cust_nation, l_year order by supp_nation, cust_nation, l_year""",
    "q8": """
        select o_year, sum(case when nation = 'BRAZIL' then volume else 0 end) / sum(volume) as mkt_share
        from (select extract(year from o_orderdate) as o_year, l_extendedprice * (1 - l_discount) as volume,
                n2.n_name as nation
            from part, supplier, lineitem, orders, customer, nation n1, nation n2, region
            where p_partkey = l_partkey and s_suppkey = l_suppkey and l_orderkey = o_orderkey and o_custkey = c_custkey
                and c_nationkey = n1.n_nationkey and n1.n_regionkey = r_regionkey and r_name = 'AMERICA'
                and s_nationkey = n2.n_nationkey and p_type = 'ECONOMY ANODIZED STEEL') as all_nations
        group by o_year order by o_year""",
    "q9": """
        select nation, o_year, sum(amount) as sum_profit
        from (select n_name as nation, extract(year from o_orderdate) as o_year,
                l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity as amount
            from part, supplier, lineitem, partsupp, orders, nation
            where s_suppkey = l_suppkey and ps_suppkey = l_suppkey and ps_partkey = l_partkey and p_partkey = l_partkey
                and o_orderkey = l_orderkey and s_nationkey = n_nationkey and p_name like '%green%') as profit
        group by nation, o_year order by nation, o_year desc""",
    "q10": """
        select c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) as revenue, c_acctbal, n_name, c_address, c_phone,
            c_comment
        from customer, orders, lineitem, nation
        where c_custkey = o_custkey and l_orderkey = o_orderkey and o_orderdate >= date '1994-01-01'
            and o_orderdate < date '1994-10-01' + interval '3' month and l_returnflag = 'R' and c_nationkey = n_nationkey
        group by c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment
        order by revenue desc, c_custkey limit 20""",
    "q11": """
        select ps_partkey, sum(ps_supplycost * ps_availqty) as value from partsupp, supplier, nation
        where ps_suppkey = s_suppkey and s_nationkey = n_nationkey and n_name = 'GERMANY'
        group by ps_partkey having sum(ps_supplycost * ps_availqty) > (
            select sum(ps_supplycost * ps_availqty) * 0.1 from partsupp, supplier, nation
            where ps_suppkey = s_suppkey and s_nationkey = n_nationkey and n_name = 'GERMANY')
        order by value desc""",
    "q12": """
        select l_shipmode,
            sum(case when o_orderpriority = '1-URGENT' or o_orderpriority = '2-HIGH' then 1 else 0 end) as high_line_count,
            sum(case when o_orderpriority <> '1-URGENT' and o_orderpriority <> '2-HIGH' then 1 else 0 end) as low_line_count
        from orders, lineitem
        where o_orderkey = l_orderkey and l_shipmode in ('MAIL', 'SHIP') and l_commitdate < l_receiptdate
            and l_shipdate < l_commitdate and l_receiptdate >= date '1994-01-01'
        group by l_shipmode order by l_shipmode""",
    "q13": """
        select c_count, count(*) as custdist
        from (select c_custkey, count(o_orderkey) as c_count from customer left outer join orders
                on c_custkey = o_custkey and o_comment not like '%special%requests%' group by c_custkey) as c_orders
        group by c_count order by custdist desc, c_count desc""",
    "q14": """
        select 100.00 * sum(case when p_type like 'PROMO%' then l_extendedprice * (1 - l_discount) else 0 end)
            / sum(l_extendedprice * (1 - l_discount)) as promo_revenue
        from lineitem, part where l_partkey = p_partkey and l_shipdate >= date '1994-09-01'
            and l_shipdate < date '1994-09-01' + interval '1' year""",
    "q15": """
        with revenue as (select l_suppkey as supplier_no, sum(l_extendedprice * (1 - l_discount)) as total_revenue
            from lineitem where l_shipdate >= date '1994-01-01' and l_shipdate < date '1994-01-01' + interval '1' year
            group by l_suppkey)
        select s_suppkey, s_name, s_address, s_phone, total_revenue from supplier, revenue
        where s_suppkey = supplier_no and total_revenue = (select max(total_revenue) from revenue) order by s_suppkey""",
    "q16": """
        select p_brand, p_type, p_size, count(distinct ps_suppkey) as supplier_cnt from partsupp, part
        where p_partkey = ps_partkey and p_brand <> 'Brand#12' and p_type not like 'MEDIUM POLISHED%'
            and p_size in (1, 2, 3, 4, 5, 6, 7, 8, 9)
            and ps_suppkey not in (select s_suppkey from supplier where s_comment like '%Customer%Complaints%')
        group by p_brand, p_type, p_size order by supplier_cnt desc, p_brand, p_type, p_size""",
    "q17": """
        select sum(l_extendedprice) / 7.0 as avg_yearly from lineitem, part
        where p_partkey = l_partkey and p_brand = 'Brand#23'
            and l_quantity < (select 0.9 * avg(l_quantity) from lineitem where l_partkey = p_partkey)""",
    "q18": """
        select c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity) from customer, orders, lineitem
        where o_orderkey in (select l_orderkey from lineitem group by l_orderkey having sum(l_quantity) > 100)
            and c_custkey = o_custkey and o_orderkey = l_orderkey
        group by c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice order by o_totalprice desc, o_orderdate limit 100""",
    "q19": """
        select sum(l_extendedprice * (1 - l_discount)) as revenue from lineitem, part
        where (p_partkey = l_partkey and p_brand = 'Brand#12' and p_container in ('SM CASE', 'MED BAG') and l_quantity >= 1
                and p_size between 1 and 5 and l_shipmode in ('AIR', 'AIR REG') and l_shipinstruct = 'DELIVER IN PERSON')
            or (p_partkey = l_partkey and p_brand = 'Brand#23' and p_container in ('MED BAG', 'LG BOX') and l_quantity <= 30
                and p_size between 1 and 10 and l_shipmode in ('AIR', 'AIR REG') and l_shipinstruct = 'DELIVER IN PERSON')""",
    "q20": """
        select s_name, s_address from supplier, nation
        where s_suppkey in (select ps_suppkey from partsupp
                where ps_partkey in (select p_partkey from part where p_name like 'green%')
                    and ps_availqty > (select 0.5 * sum(l_quantity) from lineitem
                        where l_partkey = ps_partkey and l_suppkey = ps_suppkey and l_shipdate >= date '1994-01-01'))
            and s_nationkey = n_nationkey and n_name <> 'CANADA' order by s_name""",
    "q21": """
        select s_name, count(*) as numwait from supplier, lineitem l1, orders, nation
        where s_suppkey = l1.l_suppkey and o_orderkey = l1.l_orderkey and o_orderstatus = 'F'
            and l1.l_receiptdate > l1.l_commitdate
            and exists (select * from lineitem l2 where l2.l_orderkey = l1.l_orderkey and l2.l_suppkey <> l1.l_suppkey)
            and not exists (select * from lineitem l3 where l3.l_orderkey = l1.l_orderkey and l3.l_suppkey <> l1.l_suppkey
                and l3.l_receiptdate > l3.l_commitdate and l3.l_quantity > 45)
            and s_nationkey = n_nationkey and n_name <> 'CANADA'
        group by s_name order by numwait desc, s_name limit 100""",
    "q22": """
        select cntrycode, count(*) as numcust, sum(c_acctbal) as totacctbal
        from (select substring(c_phone from 1 for 2) as cntrycode, c_acctbal from customer
            where substring(c_phone from 1 for 2) in ('13', '31', '23')
                and c_acctbal > (select avg(c_acctbal) from customer
                    where c_acctbal > 0.00 and substring(c_phone from 1 for 2) in ('13', '31', '23'))
                and not exists (select * from orders where o_custkey = c_custkey and o_totalprice > 3000)) as custsale
        group by cntrycode order by cntrycode""",
}
