/* Calls the shared library that `cargo build --release -p hello` makes:
   cc hello.c -o hello -L../../target/release -lhello && LD_LIBRARY_PATH=../../target/release ./hello */
#include <stdio.h>

#include "hello.h"

int main(void) {
    if (hello(2, 4) != 0) {
        fprintf(stderr, "%s\n", hello_error());
        return 1;
    }
    return 0;
}
