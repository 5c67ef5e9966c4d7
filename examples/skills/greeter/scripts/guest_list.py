# Greet everyone on a guest list, given as JSON on standard input.
import json
import sys

data = json.load(sys.stdin)
if not isinstance(data, dict):
    data = {"guests": data if isinstance(data, list) else [data]}
for guest in data.get("guests") or ["everyone"]:
    print(f"{data.get('greeting', 'Hello')}, {guest}!")
