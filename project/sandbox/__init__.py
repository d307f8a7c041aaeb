"""The outside world of the example: a payment server and a mail server that count what they do."""
