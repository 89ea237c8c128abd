"""Who is calling, and how much each caller may have under way."""
