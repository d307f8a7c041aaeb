"""Makes the effect known to delivery. There is no action here: people ask for a sync."""

from project.partners.effects import post_invoice

__all__ = ["post_invoice"]
