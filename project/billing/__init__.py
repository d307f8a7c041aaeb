"""Example domain: invoices that are dunned when they lapse."""
