/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See one_map.c. A test looks here whether both ends have met. Any thread.
 */
#pragma once

#include <stdatomic.h>

extern _Atomic unsigned one_map_nr_shared; /* mappings that a second end got */
