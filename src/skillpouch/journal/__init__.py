"""The journal: one record per call, written before it starts and completed before it returns."""
