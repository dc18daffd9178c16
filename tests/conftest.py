from collections.abc import Iterator

import pytest

import tests.hypothesis_profiles  # noqa: F401 - registers the profiles and loads one


@pytest.fixture(scope="session", autouse=True)
def _cache_of_our_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Profiles that tests measure are nobody's but theirs, in processes that they start as well."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield
