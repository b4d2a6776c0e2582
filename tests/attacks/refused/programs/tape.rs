mod a_slice_of_a_saved_value {
    //! Takes a slice of what a tape keeps, which nobody has borrowed, without `unsafe`.
    //!
    //! - row: `Saved::as_slice`
    //! - row: no safe code gets a view of memory that is not borrowed
    //! - targets: `Adjoint::value`, `Saved::len`

    use cuda_safe::Result;
    use tape::{Adjoint, Handle};

    pub fn attack(pass: &mut Adjoint<'_>, x: Handle<f32>) -> Result<usize> {
        let saved = pass.value(x)?;
        let _ = saved.as_slice(); //~ refused
        Ok(saved.len())
    }
}

mod a_view_of_what_a_tape_keeps {
    //! Takes a view of what a tape keeps: its buffer is not borrowed, so that another view of it may be written.
    //!
    //! - row: no safe code gets a view of memory that is not borrowed
    //! - targets: `Adjoint::value`, `Adjoint::wants`

    use cuda_safe::{DeviceSlice, Result};
    use tape::{Adjoint, Handle};

    pub fn attack(pass: &mut Adjoint<'_>, x: Handle<f32>) -> Result<bool> {
        let _: DeviceSlice<'_, f32> = pass.value(x)?; //~ refused
        Ok(pass.wants(x))
    }
}

mod adjoint_that_escapes {
    //! Keeps the gradient of a pass in the operation, for the next pass.
    //!
    //! - row: a view does not outlive its buffer
    //! - targets: `Adjoint::gradient`, `Gradient::as_slice`

    use cuda_safe::{DeviceSlice, Result};
    use tape::{Adjoint, CustomOp, Handle};

    pub struct Keeps {
        x: Handle<f32>,
        kept: Option<DeviceSlice<'static, f32>>,
    }

    impl CustomOp for Keeps {
        fn name(&self) -> &str {
            "keeps"
        }
        fn backward(&mut self, pass: &mut Adjoint<'_>) -> Result<()> {
            let gradient = pass.gradient(self.x)?.as_slice()?;
            self.kept = gradient; //~ refused
            Ok(())
        }
    }
}

mod gradient_kept_across_a_pass {
    //! Keeps the view of a gradient over the next pass, which takes its memory again.
    //!
    //! - row: a view does not outlive its buffer
    //! - targets: `Tape::gradient`, `Tape::backward`

    use cuda_safe::{DeviceBuffer, Result, Stream};
    use tape::Tape;

    pub fn attack(
        tape: &mut Tape,
        stream: &Stream,
        x: &DeviceBuffer<f32>,
        loss: &DeviceBuffer<f32>,
    ) -> Result<Vec<f32>> {
        let gradient = tape.gradient(x)?;
        tape.backward(stream, loss)?; //~ refused
        gradient.to_vec(stream)
    }
}

mod mesh_dropped_under_its_differentiable_view {
    //! Uses a view of a mesh for an adjoint without a tape after dropping the mesh.
    //!
    //! - row: a view does not outlive its buffer
    //! - targets: `Mesh::differentiable_view`

    use cuda_safe::{Result, Stream};
    use geom_kernels::mesh::Mesh;
    use geom_kernels::tape::RecordedMesh;

    fn later(_: RecordedMesh<'_>) {}

    pub fn attack(stream: &Stream, mesh: Mesh<'_>) -> Result<()> {
        let view = mesh.differentiable_view(stream)?;
        drop(mesh); //~ refused
        later(view);
        Ok(())
    }
}

mod mesh_dropped_under_its_recorded_view {
    //! Uses a view of a mesh for a recorded launch after dropping the mesh.
    //!
    //! - row: a view does not outlive its buffer
    //! - targets: `Mesh::recorded_view`

    use cuda_safe::Result;
    use geom_kernels::mesh::Mesh;
    use geom_kernels::tape::RecordedMesh;
    use tape::Recorder;

    fn later(_: RecordedMesh<'_>) {}

    pub fn attack(t: &mut Recorder<'_>, mesh: Mesh<'_>) -> Result<()> {
        let view = mesh.recorded_view(t)?;
        drop(mesh); //~ refused
        later(view);
        Ok(())
    }
}

mod operations_of_any_kernel {
    //! Says of any kernel that it is an operation with an adjoint.
    //!
    //! - row: `OpSpec::register`
    //! - targets: `OpSpec::register`, `OpSpec::new`, `OpSpec::param`

    use cuda_safe::{Module, Result};
    use tape::{Element, OpSpec, Param};

    pub fn attack(module: &Module) -> Result<OpSpec> {
        let out = Param::buffer("out", Element::F32).overwrites().active();
        let spec = OpSpec::new("fill").param(out);
        let _ = spec.clone().register(module); //~ refused
        Ok(spec)
    }
}

mod recorder_that_escapes {
    //! Takes the recorder out of its closure, to record when the tape is gone.
    //!
    //! - row: a view does not outlive its buffer
    //! - targets: `Tape::record`, `Recorder::scope`

    use cuda_safe::{DeviceBuffer, Result, Stream};
    use tape::{Recorder, Tape};

    pub fn attack(stream: &Stream, x: &DeviceBuffer<f32>) -> Result<()> {
        let mut kept: Option<&mut Recorder<'_>> = None;
        Tape::record(stream, |t| {
            t.scope("inner", |t| t.watch(x))?;
            kept = Some(t); //~ refused
            Ok(())
        })?;
        drop(kept);
        Ok(())
    }
}

mod results_of_no_launch {
    //! Runs an adjoint that reads results of a launch, without a promise that they are those of one.
    //!
    //! - row: `Op::vjp_from_outputs`
    //! - row: an adjoint that is called without a tape takes no value for a result of the launch without a promise
    //! - targets: `Op::vjp_from_outputs`, `Gradients::new`

    use cuda_safe::{DeviceBuffer, LaunchConfig, Result, Stream};
    use tape::{Gradients, Op};

    pub fn attack(stream: &Stream, op: &Op, index: &mut DeviceBuffer<u32>) -> Result<()> {
        let gradients = Gradients::new();
        let _ = op.vjp_from_outputs(stream, LaunchConfig::cover(1, 1), (index,), gradients); //~ refused
        Ok(())
    }
}

mod two_gradients_to_write {
    //! Takes two views to write to of one gradient: what was recorded twice has one.
    //!
    //! - row: a view does not outlive its buffer
    //! - targets: `Adjoint::gradient_mut`, `Adjoint::stream`

    use cuda_safe::{Result, Stream};
    use tape::{Adjoint, Handle};

    pub fn attack(pass: &mut Adjoint<'_>, stream: &Stream, x: Handle<f32>) -> Result<()> {
        let first = pass.gradient_mut(x)?;
        let second = pass.gradient_mut(x)?; //~ refused
        let Some(mut first) = first else { return Ok(()) };
        first.fill(stream, 1.0)?;
        let Some(mut second) = pass.gradient_mut(x)? else { return Ok(()) };
        second.fill(stream, 2.0)
    }
}

fn main() {}
