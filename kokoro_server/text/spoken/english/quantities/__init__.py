"""Numbers with units, sizes, and fractions."""
