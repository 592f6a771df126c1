# SPDX-License-Identifier: ISC
"""The whole-daemon tests' fixtures and hooks serve here too, as in test/drivers."""

from e2e.conftest import *  # noqa: F401,F403
