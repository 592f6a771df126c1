# SPDX-License-Identifier: ISC
"""The whole-daemon tests' fixtures serve here too."""

pytest_plugins = ("e2e.conftest",)
