/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which port layer, and which peal/device.h: G_DEVICE_H names a broken one, made by mutate.py. In
 * front of all else that may include it.
 */
#pragma once

#if defined(G_FIBRES)
#include "fibre_port.h"
#else
#include <sched.h>
#define PEAL_PORT_PAUSE sched_yield
#endif
#if defined(G_DEVICE_H)
#include G_DEVICE_H
#else
#include "peal/device.h"
#endif
