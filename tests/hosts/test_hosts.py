"""All hosts together, as one project."""

import pytest
from django.apps import apps
from django.core import checks

from idempotent_actions import testing
from idempotent_actions.registry import registry

HOSTS = [config for config in apps.get_app_configs() if config.label.startswith("host_")]


def test_no_system_check_has_anything_to_say_about_a_host() -> None:
    assert HOSTS
    said = checks.run_checks(app_configs=HOSTS)
    # An effect of the ledger's own tests has a short lease on purpose.
    assert [each for each in said if "ledger.short_lease" not in each.msg] == []


@pytest.mark.parametrize("host", HOSTS, ids=lambda config: config.label)
def test_the_actions_of_every_host_are_found_by_themselves(host: object) -> None:
    assert [each for each in registry if each.model._meta.app_config is host]


@pytest.mark.django_db
def test_one_tick_runs_the_actions_of_all_hosts() -> None:
    reports = testing.tick()
    assert [each.action for each in reports] == [each.name for each in registry]
