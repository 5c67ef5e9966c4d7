"""The only code that starts processes: confined, bounded, and gone when the call ends."""
