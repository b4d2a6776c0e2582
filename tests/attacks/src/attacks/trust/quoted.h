#pragma once

__device__ float between(float x, float least, float most) {
    return fminf(fmaxf(x, least), most);
}
