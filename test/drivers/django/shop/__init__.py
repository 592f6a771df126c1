# SPDX-License-Identifier: ISC
"""The application of the Django program."""
