/* The functions of libhello.so, which `cargo build --release -p hello` makes. */
#ifndef HELLO_H
#define HELLO_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Prints a line from each thread of `blocks` blocks of `threads` threads. Returns 0, or 1 if it failed: then
   hello_error() returns the reason. */
int hello(uint32_t blocks, uint32_t threads);

/* Returns the text of the calling thread's last error; empty if there was none. It is valid until the thread's next
   error. */
const char *hello_error(void);

#ifdef __cplusplus
}
#endif

#endif
