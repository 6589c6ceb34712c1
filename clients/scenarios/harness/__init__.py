"""Runs the common scenarios: servers, Redis, the fault proxy, runners and an observer."""
