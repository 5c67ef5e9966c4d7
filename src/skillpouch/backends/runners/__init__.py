"""Programs that run inside the confinement, by path: they load a script and call its function."""
