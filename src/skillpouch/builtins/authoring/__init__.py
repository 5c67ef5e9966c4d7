"""Tools that an agent makes for itself while it works: `define_tool` and `remove_tool`."""
