// In a circle with itself, without a guard.
#include "endless.h"
