"""Primary keys and managers of every kind on a ladder."""
