"""Example domain: invoices in a partner's ledger, and a search index. The queue's tools at work."""
