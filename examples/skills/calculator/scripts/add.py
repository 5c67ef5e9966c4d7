def main(a: float, b: float) -> float:
    """Add two numbers.

    Args:
        a: The first number
        b: The number added to it

    Returns:
        The sum
    """
    return a + b
