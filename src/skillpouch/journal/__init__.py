"""The journal: one record per call, made before it starts, complete before it is answered."""
