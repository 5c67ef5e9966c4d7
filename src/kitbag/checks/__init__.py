"""What `kitbag check` looks for beyond loading: each file one question, text in, problems out."""
