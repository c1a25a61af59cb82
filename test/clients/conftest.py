"""All fixtures are in fixtures.py, which test/hostile uses as well."""

from fixtures import *  # noqa: F401,F403
