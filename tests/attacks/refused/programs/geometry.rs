mod grid_built_again_under_its_view {
    //! Builds a hash grid again, and drops it, while a view of it is still to be launched with.
    //!
    //! - row: a view does not outlive its buffer
    //! - targets: `HashGrid::view`, `HashGrid::reserve`

    use cuda_safe::{KernelArg, Result, Stream};
    use geom_kernels::hash_grid::HashGrid;

    fn launched_with(_: impl KernelArg) {}

    pub fn attack(grid: &mut HashGrid<f32>, stream: &Stream) -> Result<()> {
        let view = grid.view();
        grid.reserve(stream, 1 << 20)?; //~ refused
        launched_with(view);
        Ok(())
    }
}

mod mesh_rebuilt_under_its_view {
    //! Builds a mesh again while a view of it is still to be launched with.
    //!
    //! - row: a view does not outlive its buffer
    //! - targets: `Mesh::view`, `Mesh::rebuild`

    use cuda_safe::{KernelArg, Result, Stream};
    use geom_kernels::mesh::Mesh;

    fn launched_with(_: impl KernelArg) {}

    pub fn attack(mesh: &mut Mesh<'_>, stream: &Stream) -> Result<()> {
        let view = mesh.view();
        mesh.rebuild(stream)?; //~ refused
        launched_with(view);
        Ok(())
    }
}

mod one_buffer_for_two_outputs {
    //! Lets vertices and normals of a surface be written to one buffer.
    //!
    //! - row: a view does not outlive its buffer
    //! - targets: `Output::new`, `Output::normals`

    use cuda_safe::DeviceBuffer;
    use geom_kernels::isosurface::{Counts, Output};

    pub fn attack(
        vertices: &mut DeviceBuffer<[f32; 3]>,
        faces: &mut DeviceBuffer<[u32; 3]>,
        counts: &mut DeviceBuffer<Counts>,
    ) {
        let output = Output::new(&mut *vertices, faces, counts);
        let output = output.normals(&mut *vertices); //~ refused
        drop(output);
    }
}

mod points_dropped_under_a_mesh {
    //! Drops the points that a mesh has borrowed.
    //!
    //! - row: a view does not outlive its buffer
    //! - targets: `Mesh::build`, `Mesh::points`

    use cuda_safe::{DeviceBuffer, Result, Stream};
    use geom_kernels::GeometryKernels;
    use geom_kernels::mesh::{Mesh, MeshOptions};

    pub fn attack(stream: &Stream, geometry: &GeometryKernels, points: DeviceBuffer<[f32; 3]>) -> Result<usize> {
        let faces = DeviceBuffer::<[u32; 3]>::zeroed(stream, 1)?;
        let mesh = Mesh::build(stream, geometry, &points, &faces, MeshOptions::default())?;
        drop(points); //~ refused
        Ok(mesh.points().len())
    }
}

mod queries_outlive_points {
    //! Drops the boxes, rays, centres and radii that queries were made of.
    //!
    //! - row: a view does not outlive its buffer
    //! - targets: `BvhQueries::boxes`, `BvhQueries::rays`, `BvhQueries::within_each`, `BvhQueries::len`

    use cuda_safe::DeviceBuffer;
    use geom_kernels::bvh::BvhQueries;
    use geom_kernels::{Aabb, Ray};

    pub fn attack(
        boxes: DeviceBuffer<Aabb<f32>>,
        rays: DeviceBuffer<Ray>,
        centers: DeviceBuffer<[f32; 3]>,
        radii: DeviceBuffer<f32>,
    ) -> usize {
        let one = BvhQueries::boxes(&boxes);
        drop(boxes); //~ refused
        let two = BvhQueries::rays(&rays);
        drop(rays); //~ refused
        let three = BvhQueries::spheres(&centers, 0.0).within_each(&radii);
        drop(radii); //~ refused
        one.len() + two.len() + three.len()
    }
}

mod volume_read_beside_a_writer {
    //! Gives a kernel a view of a volume to write to and one to read.
    //!
    //! - row: a view does not outlive its buffer
    //! - targets: `Volume::view_mut`, `Volume::view`

    use cuda_safe::{KernelArg, Result};
    use geom_kernels::volume::Volume;

    fn launched_with(_: impl KernelArg, _: impl KernelArg) {}

    pub fn attack(volume: &mut Volume) -> Result<()> {
        let writer = volume.view_mut::<f32>()?;
        let reader = volume.view::<f32>()?; //~ refused
        launched_with(writer, 0u32);
        let reader = volume.view::<f32>()?;
        launched_with(reader, 0u32);
        Ok(())
    }
}

fn main() {}
