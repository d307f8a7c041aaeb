"""A guided tour: both example domains escalate at once, and nobody climbs twice."""
