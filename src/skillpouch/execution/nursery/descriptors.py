"""Where a nursery finds what its zygote gave it, after the standard streams."""

JOBS = 3  # calls, from the host
NEST = 4  # its slot
PRINTED = 5  # what an import has printed
FIRST_FREE = 6
