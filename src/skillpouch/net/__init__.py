"""Host names, addresses and the guarded http client."""
