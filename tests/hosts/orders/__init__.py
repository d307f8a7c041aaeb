"""Orders with capture and refund, on a state machine of their own."""
