"""The XCom backend."""

from __future__ import annotations
