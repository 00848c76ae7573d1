"""Chart tests need helm: from the cache of the control plane, the PATH, or built where FAIRLEAD_E2E=required.

It is no part of `make control-plane`: a minute and more of building that only these tests and `make e2e` use.
"""

from __future__ import annotations

import pytest
from tests.support.kube.charts import helm_program

REASON = "helm is not here; `python e2e/controlplane/build.py helm` builds it once (make e2e does, too)"


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build it, where that is demanded, before any test's time limit runs."""
    if any("helm" in getattr(item, "fixturenames", ()) for item in session.items):
        helm_program()


@pytest.fixture(scope="session")
def helm() -> None:
    """The real helm, or a skip that says how to get it."""
    if helm_program() is None:
        pytest.skip(REASON)
