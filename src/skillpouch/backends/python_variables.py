"""What every Python program of a skill finds in its environment, whatever it is called with."""


def python_variables() -> dict[str, str]:
    """Return what keeps Python from writing beside its sources, and from threads at import."""
    return {
        # The skill is read-only, and the user's own packages are out of sight.
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
        # Linear algebra starts its threads at import, and they would not survive a fork.
        "OPENBLAS_NUM_THREADS": "1",
    }
