// Loads two shared objects with kernels of one name, unloads one, and loads it again.
#include "../common.h"
#include <dlfcn.h>
#include <string>

static int call(void *object, int mistake) {
    auto compute = (int (*)(int))dlsym(object, "compute");
    EXPECT(compute != nullptr);
    return compute(mistake);
}

int main(int, char **arguments) {
    std::string folder = arguments[0];
    folder.resize(folder.rfind('/') + 1);
    std::string names[] = {folder + "plugin1.so", folder + "plugin2.so"};
    void *first = dlopen(names[0].c_str(), RTLD_NOW | RTLD_LOCAL);
    void *second = dlopen(names[1].c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT(first != nullptr && second != nullptr);
    EXPECT(call(first, mistake()) == 11);
    EXPECT(call(second, 0) == 22);
    EXPECT(dlclose(first) == 0);
    EXPECT(call(second, 0) == 22);
    first = dlopen(names[0].c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT(first != nullptr && call(first, 0) == 11);
    EXPECT(dlclose(second) == 0 && dlclose(first) == 0);
    void *memory;
    CHECK(cudaMalloc(&memory, 4));
    CHECK(cudaFree(memory));
    std::puts("all right");
}
