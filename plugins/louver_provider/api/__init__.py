"""What Louver adds to the API server."""

from __future__ import annotations
