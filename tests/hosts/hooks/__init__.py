"""Models whose save() and signals do more than store."""
