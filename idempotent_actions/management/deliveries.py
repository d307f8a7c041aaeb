"""How the commands tell of a delivery."""

from django.core.management.base import BaseCommand

from idempotent_actions.delivering import DeliveryReport

__all__ = ["delivery_sentence", "write_delivery_errors"]


def delivery_sentence(report: DeliveryReport) -> str:
    """Say in one line what a sweep did."""
    counts = [f"{count} {state}" for state, count in sorted(report.by_state.items())]
    counts += [f"{count} waiting ({why})" for why, count in sorted(report.waiting.items())]
    if report.hanging:
        counts.append(f"{report.hanging} still hanging")
    if report.for_a_person:
        counts.append(f"{report.for_a_person} in need of a person's decision")
    return ", ".join(counts) or "nothing to deliver"


def write_delivery_errors(command: BaseCommand, report: DeliveryReport) -> None:
    """Write what went wrong, a line a capture, to standard error."""
    for error in report.errors:
        command.stderr.write(f"{error['capture']}: {error['error']}")
