"""Real django-q2 clusters on the test database, killed, cut off and started again."""
