# SPDX-License-Identifier: Apache-2.0
"""The compiled module: include/peal/*.h as cffi gives them."""

from typing import Any

ffi: Any
lib: Any
