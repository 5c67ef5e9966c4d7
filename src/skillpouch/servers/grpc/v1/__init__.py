"""The messages and the client of `skillpouch.v1`, as generated from skillpouch.proto."""
