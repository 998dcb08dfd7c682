# SPDX-License-Identifier: Apache-2.0
"""Peal from Python: a client of peald, and keys for it."""
