"""The overview: what is gathered for it, how it is drawn, and what its page shows to whom."""
