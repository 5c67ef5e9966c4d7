"""A shop whose four tools are the commands of one bash script: `python examples/scripted_tool.py`.

Needs the extra `bash`: `pip install '.[bash]'` in the folder above this one. Each function is a tool;
an agent writes one script instead of calling them one after the other.
"""

from skillpouch import ScriptedTool, ToolArgs, ToolDef
from skillpouch.shell.errors import ToolError

USERS = {
    1: {"id": 1, "name": "Alice", "tier": "premium"},
    2: {"id": 2, "name": "Bob", "tier": "basic"},
    3: {"id": 3, "name": "Carol", "tier": "premium"},
}
ORDERS = [
    {"id": 10, "user_id": 1, "sku": "lamp", "total": 40.5},
    {"id": 11, "user_id": 1, "sku": "desk", "total": 210.0},
    {"id": 12, "user_id": 2, "sku": "lamp", "total": 40.5},
    {"id": 13, "user_id": 3, "sku": "chair", "total": 99.0},
]
STOCK = {"lamp": 7, "desk": 0, "chair": 12}


def flags(**kinds: str) -> dict:
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in kinds.items()},
        "required": list(kinds),
    }


def get_user(args: ToolArgs) -> dict:
    user = USERS.get(args.param_i64("id"))
    if user is None:
        raise ToolError(f"no user {args.param_i64('id')}", code=4, hint=f"ids are {list(USERS)}")
    return user


def list_orders(args: ToolArgs) -> list:
    return [order for order in ORDERS if order["user_id"] == args.param_i64("user_id")]


async def get_inventory(args: ToolArgs) -> dict:
    return {"sku": args.param_str("sku"), "in_stock": STOCK.get(args.param_str("sku"), 0)}


def create_discount(args: ToolArgs) -> dict:
    percent = args.param_f64("percent")
    return {"code": f"SAVE{percent:g}-{args.param_i64('user_id')}", "percent": percent}


def shop() -> ScriptedTool:
    return (
        ScriptedTool.builder("ecommerce_api")
        .short_description("Users, orders, stock and discounts of a shop")
        .tool(
            ToolDef("get_user", "Fetch user by ID").with_schema(flags(id="integer")).with_effects("read"),
            get_user,
        )
        .tool(
            ToolDef("list_orders", "List orders of a user")
            .with_schema(flags(user_id="integer"))
            .with_effects("read"),
            list_orders,
        )
        .tool(
            ToolDef("get_inventory", "Stock of an article")
            .with_schema(flags(sku="string"))
            .with_effects("read"),
            get_inventory,
        )
        .tool(
            ToolDef("create_discount", "Give a user a discount")
            .with_schema(flags(user_id="integer", percent="number"))
            .with_effects("write"),
            create_discount,
        )
        .build()
    )


SCRIPTS = {
    "One call, and jq": "get_user --id 1 | jq -r .name",
    "Users and what they ordered": """
for id in 1 2 3; do
    name=$(get_user --id $id | jq -r .name)
    total=$(list_orders --user_id $id | jq 'map(.total) | add')
    echo "$name: $total"
done
""",
    "What is sold out, all articles at once": """
printf 'lamp\\ndesk\\nchair\\n' | pmap -j 3 get_inventory --sku {} |
    jq -r 'select(.in_stock == 0).sku'
""",
    "A discount for premium users, as a value": """
for id in 1 2 3; do
    if [ "$(get_user --id $id | jq -r .tier)" = premium ]; then
        create_discount --user_id $id --percent 10
    fi
done | jq -s 'map(.code)' | result
""",
    "An error that the script handles": 'get_user --id 9 || echo "no such user ($?)"',
}


def main() -> None:
    tool = shop()
    print(tool.system_prompt())
    for title, script in SCRIPTS.items():
        ran = tool.execute_sync(script)
        print(f"## {title}: {ran.status}, {len(ran.calls)} calls")
        print(ran.stdout or ran.result)
        print(ran.stderr, end="")


if __name__ == "__main__":
    main()
