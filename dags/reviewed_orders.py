"""
Orders, some of which a person looks at: what the order workflow becomes when a model may decide.

``risk_check`` asks a model: a small local one, or fixed rules, by the run's parameter ``model``. Its answer
has to keep to a form; what does not, and every decision that ``route`` does not know, goes to
``manual_review``. Which model of which version it was stands in the result of ``risk_check``. A confirmation
is not sent later than ``notify_within`` minutes after the order came in.
"""

from __future__ import annotations

from airflow.sdk import Param

from louver_provider.dag_builder import build_dag
from shop.reviewed_workflow import reviewed_orders
from shop.risk.models import MODELS

dag = build_dag(
    reviewed_orders.definition(),
    tasks=reviewed_orders.tasks,
    params={
        "order_id": Param("order-2001", type="string", title="Order"),
        "customer_id": Param("customer-77", type="string", title="Customer"),
        "currency": Param("EUR", type="string", title="Currency"),
        "amount": Param(
            "129.90", type="string", title="Amount", description='Decimal text, such as "129.90".'
        ),
        "items": Param(
            [{"sku": "mug-blue", "quantity": 2}, {"sku": "teapot", "quantity": 1}],
            type="array",
            items={"type": "object"},
            title="Items",
        ),
        "model": Param("logistic", enum=list(MODELS), title="Risk model"),
        "notify_within": Param(60, type="number", minimum=0, title="Minutes within which to confirm"),
    },
    description="A model says how risky an order is; a person decides where it cannot.",
    doc_md=__doc__,
)
