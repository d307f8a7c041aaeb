"""Queue hygiene: what is let into the queue, what is skipped, and what survives."""
