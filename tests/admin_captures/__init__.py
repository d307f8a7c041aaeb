"""The queue of captures and a person's decisions; the audit trail, runs, leases, deferred calls."""
