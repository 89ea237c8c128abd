"""Fields that several request bodies have."""
