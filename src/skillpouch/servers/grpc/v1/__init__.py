"""Messages and client of `skillpouch.v1`, generated from skillpouch.proto."""
