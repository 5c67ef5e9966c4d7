"""On PYTHONPATH of a skill's tools: what runs at the start of every Python."""
