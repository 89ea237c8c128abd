"""How English is read."""
