"""Protocols of other speech servers, for their clients: thin layers over the same synthesizer."""
