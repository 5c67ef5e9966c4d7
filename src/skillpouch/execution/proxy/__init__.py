"""A proxy in the host process, by which a confined tool reaches the hosts granted to it."""
