#ifndef SHARED_H
#define SHARED_H
#define SIDE 0.25f
#define MIDDLE 0.5f
#endif
