from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# A machine that is busy with something else is no fault of the code. All else stays as Hypothesis chose it:
# reproducible examples where CI is set, and new ones elsewhere.
settings.register_profile("untimed", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.fixture(scope="session", autouse=True)
def _cache_of_our_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Profiles that tests measure are nobody's but theirs, in processes that they start as well."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield
