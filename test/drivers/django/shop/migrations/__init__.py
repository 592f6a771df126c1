# SPDX-License-Identifier: ISC
"""Its migrations."""
