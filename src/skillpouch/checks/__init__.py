"""What `skillpouch check` looks for beyond loading; each check takes text and returns problems."""
