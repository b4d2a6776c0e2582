#pragma once
#include "types.h"
#include "../shared.h"

__device__ inline float weighted(real left, real middle, real right) {
    return SIDE * left + MIDDLE * middle + SIDE * right;
}
