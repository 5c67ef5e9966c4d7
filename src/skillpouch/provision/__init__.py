"""What a tool needs on this machine: packages, programs and interpreters."""
