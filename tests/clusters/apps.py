"""The app that makes a cluster's process know one ladder only."""

from django.apps import AppConfig


class ClustersConfig(AppConfig):
    """Comes last: what the others registered is taken away."""

    name = "tests.clusters"

    def ready(self) -> None:
        """Leave the ladder of these tests alone in the registry."""
        from idempotent_actions.registry import registry
        from tests.clusters.ladder import Charges

        for action in list(registry):
            registry.remove(action.name)
        registry.add(Charges())
