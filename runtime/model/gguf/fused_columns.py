"""How wide a fused matrix may be: for conversions, and for models that are fused when they are opened."""

from __future__ import annotations

from typing import Final

MAX_FUSED_COLUMNS: Final = 4096
"""The most columns of a fused matmul. Splitting a wider result costs a prefill more than fusing saves."""
