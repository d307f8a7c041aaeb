"""Trials that expire and can be renewed."""
