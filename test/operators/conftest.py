# SPDX-License-Identifier: ISC
"""The whole-daemon tests' fixtures and hooks serve here too.

Not as a plugin: pytest shows the fixtures of a conftest.py only to the tests below it, unless it
lies outside of the root folder; and that is another one with each way of calling pytest.
"""

from e2e.conftest import *  # noqa: F401,F403
from e2e.kit.image import root  # noqa: F401
