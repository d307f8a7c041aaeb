"""Pages in a browser: logged in, kept to our own host, photographed, looked over by axe-core."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from pytest_django.live_server_helper import LiveServer

from tests.browser.watching import Watched

playwright = pytest.importorskip("playwright.sync_api")

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "screenshots"

# Nothing that looks for hosts elsewhere, no screen, no sandbox where root runs it.
SWITCHES = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
    "--no-sandbox",
]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """The system's browser; playwright's own is never downloaded."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("there is no chromium on this machine")
    # Playwright has an event loop in this thread, in which nothing of Django's runs.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    try:
        with playwright.sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=path, args=SWITCHES)
            yield browser
            browser.close()
    finally:
        del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@pytest.fixture
def live_server(transactional_db: None) -> Iterator[Any]:
    """A server for each test: pytest-django's own keeps its connections while others run."""
    server = LiveServer("127.0.0.1")
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def admin(transactional_db: None) -> User:
    """Who may do everything."""
    return User.objects.create_superuser("ada")


@pytest.fixture
def watched(chromium: Any, live_server: Any, admin: User) -> Iterator[Watched]:
    """A browser window in which ``ada`` is logged in."""
    client = Client()
    client.force_login(admin)
    context = chromium.new_context(base_url=live_server.url)
    cookie = client.cookies[settings.SESSION_COOKIE_NAME].value
    context.add_cookies(
        [{"name": settings.SESSION_COOKIE_NAME, "value": cookie, "url": live_server.url}]
    )
    window = Watched(context, live_server.url, FOLDER)
    yield window
    context.close()
    assert window.complaints == []
