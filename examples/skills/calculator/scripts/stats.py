#!/usr/bin/env python3
"""Summarise a list of numbers."""

import argparse
import statistics


def mean(args: argparse.Namespace) -> float:
    return statistics.fmean(args.numbers)


def median(args: argparse.Namespace) -> float:
    if args.low:
        return statistics.median_low(args.numbers)
    return statistics.median(args.numbers)


def stdev(args: argparse.Namespace) -> float:
    if args.population:
        return statistics.pstdev(args.numbers)
    return statistics.stdev(args.numbers)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    mean_parser = commands.add_parser("mean", help="the arithmetic mean")
    mean_parser.add_argument("numbers", type=float, nargs="+", help="the numbers")
    mean_parser.add_argument("--digits", type=int, default=4, help="digits after the point")
    mean_parser.set_defaults(compute=mean)

    median_parser = commands.add_parser("median", help="the middle value")
    median_parser.add_argument("numbers", type=float, nargs="+", help="the numbers")
    median_parser.add_argument("--digits", type=int, default=4, help="digits after the point")
    median_parser.add_argument(
        "--low", action="store_true", help="of two middle values take the lower, not their mean"
    )
    median_parser.set_defaults(compute=median)

    stdev_parser = commands.add_parser("stdev", help="the standard deviation")
    stdev_parser.add_argument("numbers", type=float, nargs="+", help="the numbers, at least two")
    stdev_parser.add_argument("--digits", type=int, default=4, help="digits after the point")
    stdev_parser.add_argument(
        "--population", action="store_true", help="the numbers are all there are, not a sample"
    )
    stdev_parser.set_defaults(compute=stdev)
    return parser


def main() -> None:
    parser = build_parser()
    args = parser.parse_args()
    try:
        result = round(args.compute(args), args.digits)
    except statistics.StatisticsError as error:
        parser.error(str(error))
    print(int(result) if result.is_integer() else result)


if __name__ == "__main__":
    main()
