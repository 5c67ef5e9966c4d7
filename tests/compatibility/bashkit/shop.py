"""The e-commerce tools of the Bashkit document, in Python."""

import json
from typing import Any, Literal

from skillpouch import ScriptedTool, ToolArgs, ToolDef

USERS = {1: {"id": 1, "name": "Alice", "tier": "gold"}, 2: {"id": 2, "name": "Bob", "tier": "new"}}
ORDERS = {
    1: [{"id": 10, "sku": "pen", "total": 25.5}, {"id": 11, "sku": "ink", "total": 74.5}],
    2: [{"id": 20, "sku": "pen", "total": 5}],
}
STOCK = {"pen": 3, "ink": 0}

Engine = Literal["worker", "inproc"]


class NotFoundError(Exception):
    pass


def schema(**types: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": kind} for name, kind in types.items()}}


def get_user(args: ToolArgs) -> str:
    user = USERS.get(args.param_i64("id") or 0)
    if user is None:
        raise NotFoundError(f"no user {args.params.get('id')}")
    return json.dumps(user) + "\n"


def list_orders(args: ToolArgs) -> str:
    return json.dumps(ORDERS.get(args.param_i64("user_id") or 0, [])) + "\n"


async def get_inventory(args: ToolArgs) -> str:
    sku = args.param_str("sku") or ""
    return json.dumps({"sku": sku, "in_stock": STOCK.get(sku, 0)}) + "\n"


def create_discount(args: ToolArgs) -> str:
    percent = args.param_f64("percent")
    return json.dumps({"code": f"SAVE{percent:g}", "user": args.param_i64("user_id")}) + "\n"


def upper(args: ToolArgs) -> str:
    return (args.stdin or "nothing").upper()


def echo_params(args: ToolArgs) -> str:
    return json.dumps(args.params, sort_keys=True) + "\n"


def shop(engine: Engine = "inproc") -> ScriptedTool:
    """Return the document's example, each tool a definition and a callback."""
    return (
        ScriptedTool.builder("ecommerce_api", engine=engine)
        .short_description("Users, orders, stock and discounts of a shop")
        .tool(ToolDef("get_user", "Fetch user by ID").with_schema(schema(id="integer")), get_user)
        .tool(
            ToolDef("list_orders", "List orders for user").with_schema(schema(user_id="integer")),
            list_orders,
        )
        .tool(
            ToolDef("get_inventory", "Check the stock of a product").with_schema(
                schema(sku="string")
            ),
            get_inventory,
        )
        .tool(
            ToolDef("create_discount", "Give a user a discount").with_schema(
                schema(user_id="integer", percent="number")
            ),
            create_discount,
        )
        .tool(ToolDef("upper", "Write standard input in capitals"), upper)
        .tool(
            ToolDef("echo_params", "Show what arrived").with_schema(
                schema(id="integer", share="number", verbose="boolean", name="string")
            ),
            echo_params,
        )
        .env("STORE", "Skillpouch & Sons")
        .build()
    )
