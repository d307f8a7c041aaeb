"""The system checks, on models, routers and databases that are really set up that way."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import apps
from django.core import checks
from django.db import connections, models
from django.test import modify_settings, override_settings

from idempotent_actions.checks import check_aliases, check_sqlite, check_time_zone
from idempotent_actions.schedules import sync_schedules
from tests.processes import manage


@pytest.fixture
def misfits() -> Iterator[None]:
    with modify_settings(INSTALLED_APPS={"append": "tests.misfits"}):
        yield


def complaints(app_label: str | None = None) -> list[checks.CheckMessage]:
    """This app's own messages about the models of an app, or of all."""
    configs = None if app_label is None else [apps.get_app_config(app_label)]
    messages = checks.run_checks(app_configs=configs, tags=[checks.Tags.models])
    return [each for each in messages if str(each.id).startswith("idempotent_actions.")]


def about(model: str) -> list[checks.CheckMessage]:
    return [each for each in complaints("misfits") if each.obj is apps.get_model("misfits", model)]


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("FieldForField", "rung"),
        ("SimilarFieldForField", "rung"),
        ("MethodForField", "cycle"),
        ("PropertyForField", "hold_reason"),
        ("FieldForTransition", "cancel"),
        ("UndecoratedTransition", "escalate"),
        ("NothingForTransition", "resolve"),
        ("TransitionOfAMixin", "reopen"),
        ("FieldOfAnotherParent", "rung"),
        ("UndecoratedTransitionOfAProxy", "exhaust"),
    ],
)
@pytest.mark.usefixtures("misfits")
def test_e001_what_replaces_something_of_ladder_model_is_named(model: str, name: str) -> None:
    (message,) = about(model)
    assert (message.id, message.level) == ("idempotent_actions.E001", checks.ERROR)
    assert f"misfits.{model}.{name} replaces {name} of LadderModel" in message.msg
    assert f"Rename your own {name}" in str(message.hint)
    assert "side row" in str(message.hint)


@pytest.mark.parametrize(
    ("model", "lost"),
    [
        ("WithoutIndexes", [["status", "due_at"], ["status", "next_at"]]),
        ("WithOneIndex", [["status", "next_at"]]),
        ("WithTooSmallAnIndex", [["status", "due_at"]]),
    ],
)
@pytest.mark.usefixtures("misfits")
def test_w001_a_meta_of_its_own_that_lost_an_index_is_named(
    model: str, lost: list[list[str]]
) -> None:
    messages = about(model)
    assert {message.id for message in messages} == {"idempotent_actions.W001"}
    assert [message.level for message in messages] == [checks.WARNING] * len(lost)
    for message, fields in zip(messages, lost, strict=True):
        assert f"misfits.{model} has no index on {fields}" in message.msg
        assert "inherit LadderModel.Meta" in str(message.hint)


@pytest.mark.parametrize(
    "model", ["WellMade", "WithLongerIndexes", "ChildOfAWellMadeOne", "ProxyOfAWellMadeOne"]
)
@pytest.mark.usefixtures("misfits")
def test_well_made_models_are_passed_in_silence(model: str) -> None:
    assert about(model) == []


def test_the_examples_are_passed_in_silence() -> None:
    assert complaints("billing") == complaints("school") == complaints("oddities") == []


@pytest.mark.usefixtures("misfits")
def test_a_check_of_some_apps_leaves_the_others_out() -> None:
    assert complaints("billing") == []
    assert complaints("misfits") == [
        each for each in complaints() if each.obj._meta.app_label == "misfits"
    ]


class BillingElsewhere:
    """A router that parts the invoices from their audit rows."""

    def db_for_write(self, model: type[models.Model], **hints: Any) -> str | None:
        return "elsewhere" if model._meta.app_label == "billing" else None


class AllElsewhere:
    """A router that keeps all together."""

    def db_for_write(self, model: type[models.Model], **hints: Any) -> str:
        return "elsewhere"


@pytest.fixture
def elsewhere() -> Iterator[dict[str, Any]]:
    """A second database, SQLite, that nobody connects to; yields its settings."""
    databases = connections.configure_settings(
        {"default": {}, "elsewhere": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
    )
    connections.settings["elsewhere"] = databases["elsewhere"]
    try:
        yield databases["elsewhere"]
    finally:
        if hasattr(connections._connections, "elsewhere"):  # type: ignore[attr-defined]
            del connections["elsewhere"]
        del connections.settings["elsewhere"]


def test_e002_subjects_on_another_alias_than_their_audit_rows_are_named(elsewhere: Any) -> None:
    with override_settings(DATABASE_ROUTERS=[f"{__name__}.BillingElsewhere"]):
        message = next(each for each in check_aliases(None) if each.obj.__name__ == "Invoice")
    assert (message.id, message.level) == ("idempotent_actions.E002", checks.ERROR)
    assert message.obj is apps.get_model("billing", "Invoice")
    assert "billing.Invoice is written to the database 'elsewhere'" in message.msg
    assert "audit rows to 'default'" in message.msg
    assert "to one alias" in str(message.hint)


def test_e002_is_silent_where_a_router_keeps_them_together(elsewhere: Any) -> None:
    assert check_aliases(None) == []
    with override_settings(DATABASE_ROUTERS=[f"{__name__}.AllElsewhere"]):
        assert check_aliases(None) == []


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"transaction_mode": None},
        {"transaction_mode": "DEFERRED"},
    ],
)
def test_e003_sqlite_must_begin_its_transactions_immediate(
    options: dict[str, Any], elsewhere: dict[str, Any]
) -> None:
    elsewhere["OPTIONS"] = options
    with override_settings(DATABASE_ROUTERS=[f"{__name__}.AllElsewhere"]):
        (message,) = check_sqlite(None)
    assert (message.id, message.level) == ("idempotent_actions.E003", checks.ERROR)
    assert "The database 'elsewhere' is SQLite" in message.msg
    assert "['OPTIONS']['transaction_mode'] = 'IMMEDIATE'" in str(message.hint)


@pytest.mark.parametrize("mode", ["IMMEDIATE", "immediate"])
def test_e003_is_silent_on_sqlite_that_does(mode: str, elsewhere: dict[str, Any]) -> None:
    elsewhere["OPTIONS"] = {"transaction_mode": mode}
    with override_settings(DATABASE_ROUTERS=[f"{__name__}.AllElsewhere"]):
        assert check_sqlite(None) == []


def test_e003_is_silent_on_databases_that_no_action_writes_to(elsewhere: dict[str, Any]) -> None:
    assert check_sqlite(None) == []


@pytest.mark.django_db
def test_a_project_that_is_well_set_up_passes_all_checks() -> None:
    sync_schedules()
    messages = checks.run_checks(include_deployment_checks=False, databases=["default"])
    ours = [each for each in messages if str(each.id).startswith("idempotent_actions.")]
    # An effect of the ledger's own tests has a short lease on purpose.
    assert [each for each in ours if "ledger.short_lease" not in each.msg] == []


@pytest.mark.parametrize(
    ("use_tz", "zone", "found"),
    [
        (False, "Europe/Berlin", ["idempotent_actions.W015"]),
        (False, "America/Phoenix", []),
        (False, "UTC", []),
        (True, "Europe/Berlin", []),
    ],
)
def test_local_time_that_jumps_is_warned_of(use_tz: bool, zone: str, found: list[str]) -> None:
    with override_settings(USE_TZ=use_tz, TIME_ZONE=zone):
        assert [each.id for each in check_time_zone(None)] == found


@pytest.mark.django_db
def test_a_host_without_time_zones_registers_its_actions_and_ticks() -> None:
    done = manage("tick", "--dry-run", settings="tests.naive_settings")
    assert done.returncode == 0, done.stderr
    assert "escalate_overdue:billing.invoice: 0 would be applied" in done.stdout
