"""The runner of the common scenarios."""
