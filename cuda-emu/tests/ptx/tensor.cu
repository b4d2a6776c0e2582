// Asynchronous copies, their barriers, and matrix products.
extern "C" {

// D = A * B: A is 16 x 16, by rows, B 16 x 8, by columns, both f16; D 16 x 8 of f32.
__global__ void product(const uint4 *a, const uint4 *b, float *d)
{
    __shared__ alignas(16) unsigned short sa[16][16], sb[8][16];
    __shared__ alignas(8) unsigned long long barrier;
    int lane = threadIdx.x;
    unsigned bar = (unsigned)__cvta_generic_to_shared(&barrier);
    if (lane == 0) asm volatile("mbarrier.init.shared.b64 [%0], 32;" :: "r"(bar) : "memory");
    __syncwarp();
    unsigned ta = (unsigned)__cvta_generic_to_shared(&sa[lane / 2][lane % 2 * 8]);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(ta), "l"(a + lane) : "memory");
    if (lane < 16) {
        unsigned tb = (unsigned)__cvta_generic_to_shared(&sb[lane / 2][lane % 2 * 8]);
        asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" :: "r"(tb), "l"(b + lane) : "memory");
    }
    asm volatile("cp.async.commit_group;\n cp.async.wait_group 0;" ::: "memory");
    unsigned long long state;
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(bar) : "memory");
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(bar), "l"(state) : "memory");
    unsigned ra[4], rb[2];
    unsigned pa = (unsigned)__cvta_generic_to_shared(&sa[lane % 16][lane / 16 * 8]);
    unsigned pb = (unsigned)__cvta_generic_to_shared(&sb[lane % 8][lane / 8 % 2 * 8]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3]) : "r"(pa));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(rb[0]), "=r"(rb[1]) : "r"(pb));
    float c[4] = {};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
    int row = lane / 4, column = lane % 4 * 2;
    d[row * 8 + column] = c[0]; d[row * 8 + column + 1] = c[1];
    d[(row + 8) * 8 + column] = c[2]; d[(row + 8) * 8 + column + 1] = c[3];
}

}
