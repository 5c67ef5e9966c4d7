"""The proxy in the host process, through which a confined program reaches granted hosts."""
