"""Programs that load a script and call its function; run by path, inside the confinement."""
