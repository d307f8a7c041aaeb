"""The ledger of effects: its states, keys, parameters, a person's decisions, and odd effects."""
