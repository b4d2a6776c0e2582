// The kernels of one kind of field: src/isosurface/passes.rs launches them.
#pragma once

#include <geom/isosurface.cuh>

#define GEOM_ISOSURFACE_EMIT(name, Field, NORMALS)                                                  \
    extern "C" __global__ void __launch_bounds__(256) name(                                         \
        Field field, geom::isosurface::IndexMap map, float iso,                                     \
        const geom::isosurface::Signs* signs, const geom::isosurface::Edges* edges,                 \
        const geom::isosurface::Tile* tiles, geom::isosurface::Output out                           \
    ) {                                                                                             \
        __shared__ geom::isosurface::EmitShared shared;                                             \
        geom::isosurface::emit<NORMALS>(shared, field, map, iso, signs, edges, tiles, out);         \
    }

#define GEOM_ISOSURFACE(kind, Field)                                                                \
    extern "C" __global__ void __launch_bounds__(256) isosurface_signs_##kind(                      \
        Field field, float iso, geom::isosurface::Signs* signs, unsigned long long* state,          \
        unsigned state_words, geom::isosurface::Counts* counts                                      \
    ) {                                                                                             \
        geom::isosurface::find_signs(field, iso, signs, state, state_words, counts);                \
    }                                                                                               \
    extern "C" __global__ void __launch_bounds__(256) isosurface_count_##kind(                      \
        Field field, const geom::isosurface::Signs* signs, unsigned long long* state,               \
        geom::isosurface::Edges* edges, geom::isosurface::Tile* tiles, unsigned vertex_capacity,    \
        unsigned face_capacity, geom::isosurface::Counts* counts                                    \
    ) {                                                                                             \
        __shared__ geom::isosurface::CountShared shared;                                            \
        geom::isosurface::count(shared, field, signs, state, edges, tiles, vertex_capacity,         \
                                face_capacity, counts);                                             \
    }                                                                                               \
    GEOM_ISOSURFACE_EMIT(isosurface_emit_##kind, Field, false)                                      \
    GEOM_ISOSURFACE_EMIT(isosurface_emit_normals_##kind, Field, true)
