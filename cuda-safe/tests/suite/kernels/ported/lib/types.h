#ifndef TYPES_H
#define TYPES_H
// In a circle with weights.h, which its pragma ends.
#include "weights.h"
typedef float real;
#endif
