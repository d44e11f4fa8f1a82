"""
How risky an order looks: models behind one interface, and what is done with what they say.

``models`` holds them, ``assessments`` the one form in which an answer is believed, and ``evaluation`` the
fixed set that every model is measured on. A model may be wrong, broken or away; then a person looks at the
order.
"""

from __future__ import annotations

__all__: list[str] = []
