"""The name of an installation: the uid of its home cluster's kube-system, which lives as long as the cluster."""

from __future__ import annotations

from fleet.errors import Unavailable
from fleet.model import Ref
from fleet.ports import Objects


class HomeUid:
    """Asks once, and remembers."""

    def __init__(self, home: Objects, cluster: str) -> None:
        self._home = home
        self._namespace = Ref(cluster, "v1", "Namespace", "", "kube-system")
        self._uid = ""

    def __call__(self) -> str:
        """The uid; raises OutsideError while the home cluster does not say it."""
        if not self._uid:
            uid = self._home.get(self._namespace).get("metadata", {}).get("uid", "")
            if not uid:
                raise Unavailable("The home cluster does not say the uid of its namespace kube-system.")
            self._uid = str(uid)
        return self._uid
