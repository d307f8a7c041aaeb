"""How texts are shown that may be long, in any script, or both."""

from django.utils.html import format_html
from django.utils.safestring import SafeString

__all__ = ["boxed", "in_its_direction"]


def boxed(text: str, name: str, look: str = "") -> SafeString:
    """Return a text in a box that scrolls, also by keyboard; ``name`` says what it is."""
    if not text:
        return format_html("{}", "-")
    box = '<div class="ia-box {}" dir="auto" tabindex="0" role="group" aria-label="{}">{}</div>'
    return format_html(box, look, name, text)


def in_its_direction(text: str) -> SafeString:
    """Return a short text, read from the right where its script is."""
    return format_html('<span dir="auto">{}</span>', text or "-")
