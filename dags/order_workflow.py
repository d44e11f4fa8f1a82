"""
The order workflow: validate, then reserve and assess, then a person's approval, then charge, then notify.

All there is to it stands in ``order.json`` (what runs when) and in ``shop.orders`` (what each step does).
Start a run with the form in the UI, or with an event::

    airflow louver submit order_workflow --event dags/examples/order_event.json
"""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import Param

from louver_provider.dag_builder import dag_from_file

# The form's fields are the members of an order event's data; the defaults are an order that the shop takes.
ORDER_FORM = {
    "order_id": Param("order-1001", type="string", title="Order", description="Your id of the order."),
    "customer_id": Param("customer-77", type="string", title="Customer"),
    "currency": Param("EUR", type="string", title="Currency", description="Three capital letters."),
    "amount": Param("129.90", type="string", title="Amount", description='Decimal text, such as "129.90".'),
    "items": Param(
        [{"sku": "mug-blue", "quantity": 2}, {"sku": "teapot", "quantity": 1}],
        type="array",
        # Without it the UI takes the items for lines of text.
        items={"type": "object"},
        title="Items",
        description="A list of sku and quantity.",
    ),
}

order_workflow = dag_from_file(
    Path(__file__).with_name("order.json"),
    params=ORDER_FORM,
    description="Reserve, assess, approve, charge, notify; undone in reverse order where it fails.",
    doc_md=__doc__,
)
