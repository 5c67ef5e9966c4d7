"""The type of a plan's fields as a zygote reads them, without paying for `import typing`."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Fields = dict[str, Any]
