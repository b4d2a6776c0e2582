// miniBUDE's kernel: a thread has four poses.

struct Kind {
    float radius, hydrophobicity, charge;
    unsigned bond;
};

struct Pose {
    float4 row[3];
};

__device__ float distance(float3 a, float4 b) {
    float x = a.x - b.x, y = a.y - b.y, z = a.z - b.z;
    return sqrtf(x * x + y * y + z * z);
}

__global__ void __launch_bounds__(64)
    bude(const Pose *__restrict__ poses, const Kind *__restrict__ kinds, const float4 *__restrict__ ligand,
         unsigned atoms, const float4 *__restrict__ protein, unsigned protein_atoms, float *__restrict__ energies, unsigned n) {
    __shared__ float4 ligand_atoms[64], tile[64];
    __shared__ Kind ligand_kinds[64], tile_kinds[64];
    const unsigned t = threadIdx.x, first = blockIdx.x * 256 + t;
    if (t < atoms) {
        ligand_atoms[t] = ligand[t];
        ligand_kinds[t] = kinds[__float_as_uint(ligand_atoms[t].w)];
    }
    Pose pose[4];
    float energy[4] = {};
#pragma unroll
    for (unsigned k = 0; k < 4; k++) {
        pose[k] = poses[min(first + 64 * k, n - 1)];
    }
    for (unsigned start = 0; start < protein_atoms; start += 64) {
        const unsigned count = min(protein_atoms - start, 64);
        __syncthreads();
        if (t < count) {
            tile[t] = protein[start + t];
            tile_kinds[t] = kinds[__float_as_uint(tile[t].w)];
        }
        __syncthreads();
        for (unsigned a = 0; a < atoms; a++) {
            const float4 atom = ligand_atoms[a];
            const Kind l = ligand_kinds[a];
            float3 placed[4];
#pragma unroll
            for (unsigned k = 0; k < 4; k++) {
                const float4 *row = pose[k].row;
                placed[k].x = row[0].w + row[0].x * atom.x + row[0].y * atom.y + row[0].z * atom.z;
                placed[k].y = row[1].w + row[1].x * atom.x + row[1].y * atom.y + row[1].z * atom.z;
                placed[k].z = row[2].w + row[2].x * atom.x + row[2].y * atom.y + row[2].z * atom.z;
            }
            for (unsigned b = 0; b < count; b++) {
                const float4 other = tile[b];
                const Kind p = tile_kinds[b];
                const float radius = l.radius + p.radius, by_radius = 1.0f / radius;
                const bool formal = l.bond == 1 && p.bond == 1, either = l.bond == 2 || p.bond == 2;
                float charge = 45.0f * l.charge * p.charge;
                charge = either ? -fabsf(charge) : charge;
                const float charge_reach = formal ? 4.0f : 2.0f, by_charge_reach = formal ? 0.25f : 0.5f;
                const float lh = l.hydrophobicity, ph = p.hydrophobicity;
                const bool some = ph != 0.0f && (lh < 0.0f || ph < 0.0f);
                const float signs = lh * ph < 0.0f ? fabsf(lh) + fabsf(ph) : lh + ph;
                const float solvation = some ? signs : 0.0f;
                const bool both = lh < 0.0f && ph < 0.0f;
                const float solvation_reach = both ? 5.5f : 1.0f, by_solvation_reach = both ? 1.0f / 5.5f : 1.0f;
#pragma unroll
                for (unsigned k = 0; k < 4; k++) {
                    const float far = distance(placed[k], other), gap = far - radius;
                    const bool inside = gap < 0.0f;
                    float sum = inside ? 76.0f * (1.0f - far * by_radius) : 0.0f;
                    sum += charge * (inside ? 1.0f : gap < charge_reach ? 1.0f - gap * by_charge_reach : 0.0f);
                    sum += solvation * (inside ? 1.0f : gap < solvation_reach ? 1.0f - gap * by_solvation_reach : 0.0f);
                    energy[k] += sum;
                }
            }
        }
    }
#pragma unroll
    for (unsigned k = 0; k < 4; k++) {
        if (first + 64 * k < n) {
            energies[first + 64 * k] = 0.5f * energy[k];
        }
    }
}
