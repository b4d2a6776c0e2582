// Device functions of functions.cu.
#pragma once

__device__ float polynomial(float x);
__device__ float rounded(float x);
