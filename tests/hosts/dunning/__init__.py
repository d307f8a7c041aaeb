"""Dunning of an existing bill model, on a side row."""
