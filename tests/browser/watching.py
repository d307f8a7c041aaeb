"""A browser window that is watched: nothing from other hosts, no error, no serious violation."""

import re
from pathlib import Path
from typing import Any

import pytest

__all__ = ["Watched"]

AXE = Path(__file__).parent.parent.parent / "node_modules" / "axe-core" / "axe.min.js"
# The search box of a list is Django's own: its label is a picture.
CHECK = "axe.run({include: [['#content']], exclude: [['#changelist-search']]})"
# Colours fade from one scheme to the other: look when they have.
FADED = """
    new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))
        .then(() => Promise.all(document.getAnimations().map(each => each.finished)))
"""
PHONE, DESK = {"width": 375, "height": 740}, {"width": 1280, "height": 900}


class Watched:
    """One window. ``complaints`` says what was wrong with the pages that it showed."""

    def __init__(self, context: Any, host: str, folder: Path) -> None:
        self.context = context
        self.host = host
        self.folder = folder
        self.complaints: list[str] = []
        context.route(lambda url: not url.startswith(host), self._refuse)
        self.page = self.tab()

    def tab(self) -> Any:
        """Open another page in the same window."""
        page = self.context.new_page()
        page.on("pageerror", lambda error: self.complaints.append(f"{page.url}: {error}"))
        page.on("response", self._note_failure)
        return page

    def photograph(self, name: str) -> None:
        """Keep the page in light and dark and on a phone's width, where nothing may stick out."""
        self.folder.mkdir(exist_ok=True)
        for scheme in ("light", "dark"):
            self.page.emulate_media(color_scheme=scheme)
            self.page.screenshot(path=self.folder / f"{name}-{scheme}.png", full_page=True)
        self.page.emulate_media(color_scheme="light")
        self.page.set_viewport_size(PHONE)
        self.page.screenshot(path=self.folder / f"{name}-phone.png", full_page=True)
        wide = self.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        self.page.set_viewport_size(DESK)
        if wide > 0:
            self.complaints.append(f"{name}: sticks out by {wide} pixels on a phone")

    def violations(self) -> list[str]:
        """Return what axe-core finds serious or critical on the page, in light and in dark."""
        if not AXE.exists():
            pytest.skip("there is no axe-core: npm install --no-save axe-core")
        found = []
        for scheme in ("light", "dark"):
            self.page.emulate_media(color_scheme=scheme)
            self.page.evaluate(f"{FADED}.then(() => null)")
            self.page.evaluate(AXE.read_text())
            results = self.page.evaluate(CHECK)
            found += [
                f"{scheme}: {each['id']}: {node['html'][:200]}"
                for each in results["violations"]
                if each["impact"] in ("serious", "critical")
                for node in each["nodes"]
            ]
        self.page.emulate_media(color_scheme="light")
        return found

    def text(self) -> str:
        """Return what the page says, in one line."""
        return re.sub(r"\s+", " ", self.page.inner_text("#content, #container"))

    def _refuse(self, route: Any) -> None:
        self.complaints.append(f"asked another host: {route.request.url}")
        route.abort()

    def _note_failure(self, response: Any) -> None:
        if response.status >= 400 and not response.url.endswith("/favicon.ico"):
            self.complaints.append(f"{response.status}: {response.url}")
