#!/usr/bin/env python3
"""Multiply two or more numbers."""

import argparse
import math


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("numbers", type=float, nargs="+", help="the factors")
    parser.add_argument("--digits", type=int, default=6, help="digits kept after the point")
    args = parser.parse_args()

    product = round(math.prod(args.numbers), args.digits)
    print(int(product) if product.is_integer() else product)


if __name__ == "__main__":
    main()
