"""The 22 queries of CH-benCHmark, in DuckDB's SQL over the described tables.

Source: R. Cole et al., "The mixed workload CH-benCHmark", DBTest 2011. Its constants are drawn from
a seed. Windows of time lie between the load and the newest order, because a run is short. SUPPLIER
has no address and no telephone number, so queries leave them out.
"""

from __future__ import annotations

import datetime
import random
from typing import Any, NamedTuple

SUPPLIERS = 10_000
# What the queries say often.
_PARTS = {
    "supplier": f"(s_w_id::bigint * s_i_id % {SUPPLIERS})",
    "state": "ascii(c_state)",  # a customer's nation
    "of_order": "ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id",
    "of_customer": "c_w_id = o_w_id and c_d_id = o_d_id and c_id = o_c_id",
    "of_stock": "s_w_id = ol_supply_w_id and s_i_id = ol_i_id",
}

_TEXTS = {
    1: """
select ol_number, sum(ol_quantity), sum(ol_amount), avg(ol_quantity), avg(ol_amount), count(*)
from order_line where ol_delivery_d > '{since}' group by ol_number order by ol_number""",
    2: """
select su_suppkey, su_name, n_name, i_id, i_name
from item, stock, supplier, nation, region,
    (select s_i_id as m_i_id, min(s_quantity) as m_quantity
     from stock, supplier, nation, region
     where {supplier} = su_suppkey and su_nationkey = n_nationkey and n_regionkey = r_regionkey
         and r_name like '{region}%' group by s_i_id)
where i_id = s_i_id and {supplier} = su_suppkey and su_nationkey = n_nationkey
    and n_regionkey = r_regionkey and i_data like '%{letter}' and r_name like '{region}%'
    and i_id = m_i_id and s_quantity = m_quantity
order by n_name, su_name, i_id""",
    3: """
select ol_o_id, ol_w_id, ol_d_id, sum(ol_amount) as revenue, o_entry_d
from customer, new_order, orders, order_line
where c_state like '{letter}%' and {of_customer} and no_w_id = o_w_id and no_d_id = o_d_id
    and no_o_id = o_id and {of_order} and o_entry_d > '{since}'
group by ol_o_id, ol_w_id, ol_d_id, o_entry_d order by revenue desc, o_entry_d""",
    4: """
select o_ol_cnt, count(*) from orders
where o_entry_d >= '{since}' and o_entry_d < '{until}' and exists
    (select * from order_line where {of_order} and ol_delivery_d >= o_entry_d)
group by o_ol_cnt order by o_ol_cnt""",
    5: """
select n_name, sum(ol_amount) as revenue
from customer, orders, order_line, stock, supplier, nation, region
where {of_customer} and {of_order} and {of_stock} and {supplier} = su_suppkey
    and {state} = su_nationkey and su_nationkey = n_nationkey and n_regionkey = r_regionkey
    and r_name = '{region}' and o_entry_d >= '{since}'
group by n_name order by revenue desc""",
    6: """
select sum(ol_amount) from order_line
where ol_delivery_d >= '{since}' and ol_delivery_d < '{until}'
    and ol_quantity between {low} and {high}""",
    7: """
select su_nationkey, substr(c_state, 1, 1) as of_customer, year(o_entry_d) as of_year,
    sum(ol_amount)
from supplier, stock, order_line, orders, customer, nation n1, nation n2
where {of_stock} and {supplier} = su_suppkey and {of_order} and {of_customer}
    and su_nationkey = n1.n_nationkey and {state} = n2.n_nationkey
    and ((n1.n_name = '{nation}' and n2.n_name = '{other}')
        or (n1.n_name = '{other}' and n2.n_name = '{nation}'))
    and ol_delivery_d between '{since}' and '{until}'
group by su_nationkey, of_customer, of_year order by su_nationkey, of_customer, of_year""",
    8: """
select year(o_entry_d) as of_year,
    sum(case when n2.n_name = '{nation}' then ol_amount else 0 end) / sum(ol_amount)
from item, supplier, stock, order_line, orders, customer, nation n1, nation n2, region
where i_id = s_i_id and {of_stock} and {supplier} = su_suppkey and {of_order} and {of_customer}
    and n1.n_nationkey = {state} and n1.n_regionkey = r_regionkey and r_name = '{region}'
    and ol_i_id < 1000 and su_nationkey = n2.n_nationkey and i_data like '%{letter}'
    and o_entry_d between '{since}' and '{until}'
group by of_year order by of_year""",
    9: """
select n_name, year(o_entry_d) as of_year, sum(ol_amount)
from item, stock, supplier, order_line, orders, nation
where {of_stock} and {supplier} = su_suppkey and {of_order} and i_id = ol_i_id
    and su_nationkey = n_nationkey and i_data like '%{letter}'
group by n_name, of_year order by n_name, of_year desc""",
    10: """
select c_w_id, c_d_id, c_id, c_last, sum(ol_amount) as revenue, c_city, c_phone, n_name
from customer, orders, order_line, nation
where {of_customer} and {of_order} and o_entry_d >= '{since}' and o_entry_d <= ol_delivery_d
    and n_nationkey = {state}
group by c_w_id, c_d_id, c_id, c_last, c_city, c_phone, n_name order by revenue desc""",
    11: """
with of_nation as
    (select s_i_id, s_order_cnt from stock, supplier, nation
     where {supplier} = su_suppkey and su_nationkey = n_nationkey and n_name = '{nation}')
select s_i_id, sum(s_order_cnt) as orders from of_nation group by s_i_id
having sum(s_order_cnt) > (select sum(s_order_cnt) * 0.005 from of_nation)
order by orders desc""",
    12: """
select o_ol_cnt, sum(case when o_carrier_id in (1, 2) then 1 else 0 end) as high,
    sum(case when o_carrier_id in (1, 2) then 0 else 1 end) as low
from orders, order_line
where {of_order} and o_entry_d <= ol_delivery_d and ol_delivery_d < '{until}'
group by o_ol_cnt order by o_ol_cnt""",
    13: """
select orders, count(*) as customers from
    (select c_id, count(o_id) as orders
     from customer left join orders on {of_customer} and o_carrier_id > {carrier}
     group by c_id)
group by orders order by customers desc, orders desc""",
    14: """
select 100.00 * sum(case when i_data like '{letter}%' then ol_amount else 0 end)
    / (1 + sum(ol_amount))
from order_line, item
where ol_i_id = i_id and ol_delivery_d >= '{since}' and ol_delivery_d < '{until}'""",
    15: """
with revenue as
    (select {supplier} as number, sum(ol_amount) as total from order_line, stock
     where {of_stock} and ol_delivery_d >= '{since}' group by number)
select su_suppkey, su_name, total from supplier, revenue
where su_suppkey = number and total = (select max(total) from revenue) order by su_suppkey""",
    16: """
select i_name, substr(i_data, 1, 3) as brand, i_price, count(distinct {supplier}) as suppliers
from stock, item
where i_id = s_i_id and i_data not like '{letter}%' and {supplier} not in
    (select su_suppkey from supplier where su_comment like '%Complaints%')
group by i_name, brand, i_price order by suppliers desc""",
    17: """
select sum(ol_amount) / 2.0 from order_line,
    (select i_id, avg(ol_quantity) as mean from item, order_line
     where i_data like '%{letter}' and ol_i_id = i_id group by i_id)
where ol_i_id = i_id and ol_quantity < mean""",
    18: """
select c_last, c_id, o_w_id, o_d_id, o_id, o_entry_d, o_ol_cnt, sum(ol_amount) as total
from customer, orders, order_line where {of_customer} and {of_order}
group by c_last, c_id, o_w_id, o_d_id, o_id, o_entry_d, o_ol_cnt having sum(ol_amount) > 200
order by total desc, o_entry_d""",
    19: """
select sum(ol_amount) from order_line, item
where ol_i_id = i_id and ol_quantity between 1 and 10 and i_price between {low} and {price}
    and ((i_data like '%a' and ol_w_id in (1, 2, 3)) or (i_data like '%b' and ol_w_id in (1, 2, 4))
        or (i_data like '%c' and ol_w_id in (1, 5, 3)))""",
    20: """
select su_name from supplier, nation
where su_suppkey in
    (select {supplier} from stock, order_line
     where s_i_id in (select i_id from item where i_data like '{letter}%') and {of_stock}
         and ol_delivery_d > '{since}'
     group by s_i_id, s_w_id, s_quantity having 2 * s_quantity > sum(ol_quantity))
    and su_nationkey = n_nationkey and n_name = '{nation}'
order by su_name""",
    21: """
select su_name, count(*) as waiting from supplier, order_line l1, orders, stock, nation
where l1.ol_w_id = o_w_id and l1.ol_d_id = o_d_id and l1.ol_o_id = o_id
    and s_w_id = l1.ol_supply_w_id and s_i_id = l1.ol_i_id and {supplier} = su_suppkey
    and l1.ol_delivery_d > o_entry_d and su_nationkey = n_nationkey and n_name = '{nation}'
    and not exists (select * from order_line l2
        where l2.ol_o_id = l1.ol_o_id and l2.ol_w_id = l1.ol_w_id and l2.ol_d_id = l1.ol_d_id
            and l2.ol_delivery_d > l1.ol_delivery_d)
group by su_name order by waiting desc, su_name""",
    22: """
with callers as
    (select c_w_id, c_d_id, c_id, c_state, c_balance from customer
     where substr(c_phone, 1, 1) between '{digit}' and '7')
select substr(c_state, 1, 1) as country, count(*), sum(c_balance) from callers
where c_balance > (select avg(c_balance) from callers where c_balance > 0)
    and not exists (select * from orders where {of_customer})
group by country order by country""",
}
NUMBERS = tuple(_TEXTS)


class Ages(NamedTuple):
    """When the oldest and the newest order were entered."""

    oldest: datetime.datetime
    newest: datetime.datetime


def ages(report: Any) -> Ages:
    """Of the orders in a report."""
    (found,) = report.sql("select min(o_entry_d), max(o_entry_d) from orders").fetchall()
    return Ages(*found)


def text(number: int, draw: random.Random, between: Ages) -> str:
    """Query `number`, from 1 to 22, with drawn constants."""
    span = between.newest - between.oldest
    low = draw.randint(1, 5)
    nation, other = draw.sample("ABCDEFGHIJKLMNOPQRSTUVWXYZ", 2)
    constants = {
        "since": (between.oldest + span * draw.uniform(0, 0.3)).isoformat(" "),
        "until": (between.oldest + span * draw.uniform(0.7, 1)).isoformat(" "),
        "region": draw.choice(("Africa", "America", "Asia", "Europe", "Oceania")),
        "nation": f"Nation {nation}",
        "other": f"Nation {other}",
        "letter": draw.choice("abcdefgh"),
        "digit": draw.randint(1, 4),
        "carrier": draw.randint(5, 8),
        "low": low,
        "high": low + draw.randint(1, 5),
        "price": draw.randint(50, 100),
    }
    return _TEXTS[number].format(**_PARTS, **constants)
