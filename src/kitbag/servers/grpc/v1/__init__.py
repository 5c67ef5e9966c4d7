"""The messages and the client of `kitbag.v1`, as generated from kitbag.proto."""
