"""A backend and a sandbox for Skillpouch, as another package provides them."""
