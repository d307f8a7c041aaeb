"""A ladder for each student and programme."""
