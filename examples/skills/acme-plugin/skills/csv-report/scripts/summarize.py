import asyncio
import csv
from pathlib import Path


def summarize_column(values):
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        return {"different": len(set(values))}
    return {
        "total": sum(numbers),
        "mean": sum(numbers) / len(numbers),
        "lowest": min(numbers),
        "highest": max(numbers),
    }


async def handler(args: dict) -> dict:
    """Summarise the columns of a CSV file whose first line names them.

    Args:
        path (str): The CSV file
        columns (list[str], optional): Only these columns; all of them when left out
        delimiter (str, optional): What separates the columns. Defaults to ",".

    Returns:
        dict: The number of rows, and what is in each column
    """
    text = await asyncio.to_thread(Path(args["path"]).read_text, encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines(), delimiter=args.get("delimiter", ",")))
    if not rows:
        raise ValueError(f"{args['path']} has no rows")

    columns = args.get("columns") or list(rows[0])
    unknown = [column for column in columns if column not in rows[0]]
    if unknown:
        raise ValueError(f"there is no column {unknown[0]!r}, only {', '.join(rows[0])}")
    return {
        "rows": len(rows),
        "columns": {column: summarize_column([row[column] for row in rows]) for column in columns},
    }
