// sides.hpp: marks the few functions that host and device code share.
#pragma once

#ifdef __CUDACC__
#define SLUICE_BOTH_SIDES __host__ __device__
#else
#define SLUICE_BOTH_SIDES
#endif
