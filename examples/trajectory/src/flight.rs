//! Flights of the ball on the device: forwards, and backwards for the gradient, each a graph.

use cuda_safe::{Context, DeviceBuffer, GraphExec, Result, Stream};
use tape::Tape;

use crate::ball::{self, World};

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
    path: DeviceBuffer<[[f32; 2]; 2]>,
    loss: DeviceBuffer<f32>,
    tape: Tape,
}

impl State {
    /// Records a flight, from what is first on the path, and by how much it misses.
    fn forward(&mut self, stream: &Stream, setting: &Setting) -> Result<()> {
        let Self { path, loss, tape } = self;
        tape.record_again(stream, |t| {
            t.watch(path.slice(..1)?)?;
            for number in 0..setting.steps {
                let (from, mut to) = path.split_at_mut(number + 1)?;
                let (from, to) = (from.as_slice().slice(number..)?, to.slice_mut(..1)?);
                ball::step::record(t, setting.world, setting.time_step(), from, to)?;
            }
            ball::miss::record(t, path.slice(setting.steps..)?, setting.target, &mut *loss)
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
        let (stream, setting) = (context.stream()?, *setting);
        // A capture can't load the adjoints.
        tape::derivation(&stream, ball::step::kernel())?;
        tape::derivation(&stream, ball::miss::kernel())?;
        let state = State {
            path: DeviceBuffer::zeroed(&stream, setting.steps + 1)?,
            loss: DeviceBuffer::zeroed(&stream, 1)?,
            tape: Tape::new(&stream)?,
        };
        let mut forward =
            context.capture(Some(state), move |stream, state: &mut Option<State>| {
                state.as_mut().map_or(Ok(()), |state| state.forward(stream, &setting))
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
            let path = &mut self.backward.state_mut().path;
            path.slice_mut(..1)?
                .upload(&self.stream, &[[self.setting.start, velocity.map(|v| v as f32)]])?;
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
        Ok(gradient.first().map_or([f64::NAN; 2], |[_, g]| g.map(f64::from)))
    }

    /// Where the ball is before the first step, and after each.
    ///
    /// # Errors
    /// The error that the driver returns.
    pub(crate) fn path(&mut self, velocity: [f64; 2]) -> Result<Vec<[f32; 2]>> {
        self.throw(velocity)?;
        let path = self.backward.state().path.to_vec(&self.stream)?;
        Ok(path.iter().map(|[place, _]| *place).collect())
    }
}
