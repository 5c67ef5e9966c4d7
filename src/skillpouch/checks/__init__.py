"""What `skillpouch check` looks for beyond loading: a question per file, text in, problems out."""
