//! Flights of the ball on the device: forwards, and backwards for the gradient, each a graph.

use cuda_safe::vector::{Float2, Float4};
use cuda_safe::{Context, DeviceBuffer, DeviceRepr, GraphExec, LaunchConfig, Result, Stream};
use tape::{Element, FloatType, Op, OpSpec, Param, Tape};

/// `World` of flight.cu.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct World {
    pub(crate) gravity: f32,
    pub(crate) drag: f32,
    pub(crate) radius: f32,
    pub(crate) wall: f32,
    pub(crate) bounce: f32,
    pub(crate) slide: f32,
}
// SAFETY: repr(C), and the fields of `World` in flight.cu.
unsafe impl DeviceRepr for World {}

/// The parameters of a flight, except the throw.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    pub(crate) world: World,
    /// Where the ball is thrown.
    pub(crate) start: [f32; 2],
    /// Where it is to be at the end.
    pub(crate) target: [f32; 2],
    pub(crate) seconds: f32,
    pub(crate) steps: usize,
}

impl Setting {
    pub(crate) fn time_step(&self) -> f32 {
        self.seconds / self.steps as f32
    }
}

/// The data of both graphs.
struct State {
    /// Place and velocity before the first step, and after each.
    path: DeviceBuffer<Float4>,
    loss: DeviceBuffer<f32>,
    tape: Tape,
}

/// The operations of flight.cu.
struct Ops {
    step: Op,
    miss: Op,
}

impl Ops {
    fn new(context: &Context) -> Result<Self> {
        let program = geom_kernels::program(include_str!("flight.cu")).name("flight.cu");
        let ball = Element::vector(FloatType::F32, 4);
        let step = OpSpec::new("step")
            .param(Param::value("world"))
            .param(Param::value("dt"))
            .param(Param::buffer("from", ball).len("n").active())
            .param(Param::buffer("to", ball).len("n").active())
            .param(Param::value("n"));
        let miss = OpSpec::new("miss")
            .param(Param::buffer("ball", ball).len_fixed(1).active())
            .param(Param::value("target"))
            .param(Param::buffer("loss", Element::F32).len_fixed(1).active());
        // SAFETY: thread i of `step` touches element i of each buffer, and only if i < n; the first of `miss` the
        // first ones.
        let [step, miss] =
            [step, miss].map(|spec| unsafe { spec.differentiate(context, &program) });
        Ok(Self { step: step?, miss: miss? })
    }
}

impl State {
    /// Records a flight, from what is first on the path, and by how much it misses.
    fn forward(&mut self, stream: &Stream, ops: &Ops, setting: &Setting) -> Result<()> {
        let Self { path, loss, tape } = self;
        let (one, target) = (LaunchConfig::new(1, 1), Float2::from(setting.target));
        tape.record_again(stream, |t| {
            t.watch(path.slice(..1)?)?;
            for number in 0..setting.steps {
                let (from, to) = path.split_at_mut(number + 1)?;
                let (from, to) = (from.as_slice().slice(number..)?, to);
                t.launch(&ops.step, one, (setting.world, setting.time_step(), from, to, 1u32))?;
            }
            t.launch(&ops.miss, one, (path.slice(setting.steps..)?, target, &mut *loss))
        })
    }
}

/// A flight that can be thrown again and again.
pub(crate) struct Flight {
    stream: Stream,
    setting: Setting,
    forward: GraphExec<'static, Option<State>>,
    backward: GraphExec<'static, State>,
    /// How the ball was thrown last.
    thrown: Option<[f64; 2]>,
}

impl Flight {
    /// Records a flight, and its way back, as graphs.
    ///
    /// # Errors
    /// Whatever hinders that.
    pub(crate) fn new(context: &Context, setting: &Setting) -> Result<Self> {
        let (stream, ops, setting) = (context.stream()?, Ops::new(context)?, *setting);
        let state = State {
            path: DeviceBuffer::zeroed(&stream, setting.steps + 1)?,
            loss: DeviceBuffer::zeroed(&stream, 1)?,
            tape: Tape::new(&stream)?,
        };
        let mut forward =
            context.capture(Some(state), move |stream, state: &mut Option<State>| {
                state.as_mut().map_or(Ok(()), |state| state.forward(stream, &ops, &setting))
            })?;
        let state = forward.state_mut().take();
        let state = state.ok_or_else(|| cuda_safe::Error::invalid("nothing was recorded"))?;
        let backward = context
            .capture(state, |stream, State { loss, tape, .. }| tape.backward(stream, &*loss))?;
        Ok(Self { stream, setting, forward, backward, thrown: None })
    }

    /// Throws the ball, unless it was thrown so last.
    fn throw(&mut self, velocity: [f64; 2]) -> Result<()> {
        if self.thrown != Some(velocity) {
            let ([x, y], [vx, vy]) = (self.setting.start, velocity.map(|v| v as f32));
            let path = &mut self.backward.state_mut().path;
            path.slice_mut(..1)?.upload(&self.stream, &[Float4::new(x, y, vx, vy)])?;
            self.forward.launch(&self.stream)?;
            self.thrown = Some(velocity);
        }
        Ok(())
    }

    /// The square of how far from the target a ball ends that is thrown like this.
    ///
    /// # Errors
    /// The error that the driver returns.
    pub(crate) fn loss(&mut self, velocity: [f64; 2]) -> Result<f64> {
        self.throw(velocity)?;
        let loss = self.backward.state().loss.to_vec(&self.stream)?;
        Ok(loss.into_iter().map(f64::from).sum())
    }

    /// The loss's gradient by the velocity.
    ///
    /// # Errors
    /// The error that the driver returns.
    pub(crate) fn gradient(&mut self, velocity: [f64; 2]) -> Result<[f64; 2]> {
        self.throw(velocity)?;
        self.backward.launch(&self.stream)?;
        let State { path, tape, .. } = self.backward.state();
        let gradient = tape.gradient(path.slice(..1)?)?.to_vec(&self.stream)?;
        Ok(gradient.first().map_or([f64::NAN; 2], |g| [g.z.into(), g.w.into()]))
    }

    /// Where the ball is before the first step, and after each.
    ///
    /// # Errors
    /// The error that the driver returns.
    pub(crate) fn path(&mut self, velocity: [f64; 2]) -> Result<Vec<[f32; 2]>> {
        self.throw(velocity)?;
        let path = self.backward.state().path.to_vec(&self.stream)?;
        Ok(path.iter().map(|ball| [ball.x, ball.y]).collect())
    }
}
