"""Documents to audiobooks."""
