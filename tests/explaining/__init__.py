"""What a person is told beforehand: the preview, the explanation, and that the tick keeps to it."""
