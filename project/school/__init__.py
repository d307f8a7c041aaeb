"""Example domain: no-shows that are brought to somebody's attention."""
