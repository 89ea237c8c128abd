"""Languages that are read by shared rules, from one table each."""
