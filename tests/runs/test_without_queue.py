"""With django-q2 taken out of INSTALLED_APPS everything but the scheduling works."""

import json
from datetime import timedelta

import pytest
from django.utils import timezone

from idempotent_actions.models import Capture, Run
from tests.invoices import climbed, make_invoice
from tests.processes import manage

pytestmark = pytest.mark.django_db(transaction=True)

SETTINGS = "tests.settings_without_queue"


def test_a_tick_by_cron_climbs_delivers_and_is_watched() -> None:
    invoice = make_invoice(due_at=timezone.now() - timedelta(days=1))
    ticked = manage("tick", "--json", settings=SETTINGS)
    assert ticked.returncode == 0, ticked.stderr
    assert climbed(invoice) == ["reminder"]
    assert Capture.objects.get().state == "succeeded"
    watched = manage("check_heartbeat", "--json", settings=SETTINGS)
    assert json.loads(watched.stdout.splitlines()[-1])["ok"], watched.stderr
    Run.objects.update(finished_at=None)
    assert manage("check_heartbeat", settings=SETTINGS).returncode == 1


def test_the_checks_are_quiet_about_it() -> None:
    checked = manage("check", "--database", "default", settings=SETTINGS)
    assert (checked.returncode, checked.stdout) == (
        0,
        "System check identified no issues (0 silenced).\n",
    ), checked.stderr


def test_what_needs_it_says_so() -> None:
    synced = manage("sync_schedules", settings=SETTINGS)
    assert synced.returncode == 2
    assert "django_q" in synced.stderr
