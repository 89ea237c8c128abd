"""Which phonemes belong to which written words."""
