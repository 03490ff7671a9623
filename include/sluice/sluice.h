/** @file sluice.h
 *  Everything sluice offers. The lines below that include an operation ARE the registry: the build, the
 *  bindings and the tests read them. */
#ifndef SLUICE_SLUICE_H
#define SLUICE_SLUICE_H

#include <sluice/core.h>
#include <sluice/ops/softmax.h>

#endif
