#include "endless.h"
__global__ void nothing() {}
