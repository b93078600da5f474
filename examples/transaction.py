"""An order and its parcel: what your transactions do, and what Wherry does, happen together.

`tx=conn` puts a call of Wherry into the transaction that is open on your connection. Nothing is
added to your code to make that so, and nothing has to be undone when it fails.
"""

import psycopg

import wherry

app = wherry.App("embedded:")


@app.task(queue="parcels")
def pack(order: int) -> None:
    """Store the parcel and end the task, both or neither: there is never a second parcel."""
    with psycopg.connect(app.dsn) as conn:
        conn.execute("insert into wherry_example.parcels (order_id) values (%s)", [order])
        wherry.current().complete(tx=conn)


def place(conn: psycopg.Connection, order: int, *, card_is_good: bool) -> None:
    """Store an order and the task to pack it, both or neither."""
    with conn.transaction():
        conn.execute("insert into wherry_example.orders (id) values (%s)", [order])
        pack.using(tx=conn).enqueue(order=order)
        if not card_is_good:
            # As any error would: the order is not stored, and so its parcel is never packed.
            raise psycopg.Rollback


def main() -> None:
    """Place three orders, one of them with a bad card, and work until all is packed."""
    with psycopg.connect(app.dsn, autocommit=True) as conn:
        conn.execute("drop schema if exists wherry_example cascade")
        conn.execute("create schema wherry_example")
        conn.execute("create table wherry_example.orders (id int primary key)")
        conn.execute("create table wherry_example.parcels (order_id int)")

        place(conn, 1, card_is_good=True)
        place(conn, 2, card_is_good=False)
        place(conn, 3, card_is_good=True)
        app.work(until_empty=True)

        for (order,) in conn.execute("table wherry_example.parcels order by order_id"):
            print("packed:", order)


if __name__ == "__main__":
    main()
