"""Crashes at every step of a delivery, and everything else that may happen between two steps."""
