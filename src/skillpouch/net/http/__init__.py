"""Requests to web services: what is sent, where it may go, and how much of the answer is kept."""
