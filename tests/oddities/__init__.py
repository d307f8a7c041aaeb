"""Well-made models that no example has: parcels with their own state machine, seals beside them."""
