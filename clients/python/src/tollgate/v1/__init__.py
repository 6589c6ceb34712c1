"""Generated message classes of the protocol, for calls that the library does not cover."""
