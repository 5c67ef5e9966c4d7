"""Shell scripts: positional parameters, variables, what they ask for."""
