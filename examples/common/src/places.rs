//! One program for a GPU and for the CPU: a machine, work that is repeated on it, and a hash grid.

use cuda_safe::kernel::vector::Vec4;
use cuda_safe::kernel::{Memory, Place, StructureAt};
use cuda_safe::{Context, Error, GraphExec, Result, Stream};
use geom_kernels::hash_grid::{self, GridOptions, Pairs};
use geom_kernels::{GeometryKernels, structures};

/// The first device, or the CPU where there is none.
#[derive(Debug)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// Whether it is a GPU.
    pub is_gpu: bool,
    /// Whether it is the software device, whose times say nothing about a GPU.
    pub software: bool,
    stream: Option<Stream>,
}

impl Machine {
    /// Finds the machine.
    ///
    /// # Errors
    /// If a device can't be used.
    pub fn find() -> Result<Self> {
        let Ok(context) = Context::new(0) else {
            return Ok(Self {
                name: "the CPU".into(),
                is_gpu: false,
                software: false,
                stream: None,
            });
        };
        let (name, stream) = (context.device().name()?, Some(context.stream()?));
        let software = name.contains("software");
        Ok(Self { name, is_gpu: !software, software, stream })
    }

    /// Returns the target of launches.
    #[must_use]
    pub fn place(&self) -> Place<'_> {
        self.stream.as_ref().map_or(Place::Cpu, Place::Gpu)
    }

    /// Makes work on `state` that can be repeated: on a device a graph.
    ///
    /// # Errors
    /// As [`Context::capture`].
    pub fn repeat<S: 'static>(&self, state: S, work: Work<S>) -> Result<Repeated<'_, S>> {
        Ok(match &self.stream {
            Some(stream) => {
                let record = move |stream: &Stream, state: &mut S| work(Place::Gpu(stream), state);
                Repeated::Graph(stream, stream.context().capture(state, record)?)
            }
            None => Repeated::Cpu(state, work),
        })
    }
}

/// Work on a state.
pub type Work<S> = fn(Place<'_>, &mut S) -> Result<()>;

/// Work with its state.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a program has one")]
pub enum Repeated<'m, S> {
    /// A graph.
    Graph(&'m Stream, GraphExec<'static, S>),
    /// A function of the CPU.
    Cpu(S, Work<S>),
}

impl<S> Repeated<'_, S> {
    /// Does the work once, and waits.
    ///
    /// # Errors
    /// Those of the work.
    pub fn run(&mut self) -> Result<()> {
        match self {
            Self::Graph(stream, graph) => {
                graph.launch(stream)?;
                stream.synchronize()
            }
            Self::Cpu(state, work) => work(Place::Cpu, state),
        }
    }

    /// Returns the state.
    pub fn state_mut(&mut self) -> &mut S {
        match self {
            Self::Graph(_, graph) => graph.state_mut(),
            Self::Cpu(state, _) => state,
        }
    }
}

/// Copies elements at one place.
///
/// # Errors
/// If the lengths or places differ.
pub fn copy(place: Place<'_>, from: &Memory<Vec4>, to: &mut Memory<Vec4>) -> Result<()> {
    match (place, from, to) {
        (Place::Gpu(stream), Memory::Device(from), Memory::Device(to)) => {
            to.copy_from(stream, from)
        }
        (Place::Cpu, Memory::Host(from), Memory::Host(to)) if from.len() == to.len() => {
            to.copy_from_slice(from);
            Ok(())
        }
        _ => Err(elsewhere()),
    }
}

fn elsewhere() -> Error {
    Error::invalid("memory at several places, or of several lengths")
}

/// A grid of points, on a device or on the CPU.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a program has one")]
pub enum Grid {
    /// On a device.
    Device(hash_grid::HashGrid<f32>),
    /// On the CPU.
    Cpu(structures::HashGrid<f32>),
}

impl Grid {
    /// Makes a grid for so many points, without any.
    ///
    /// # Errors
    /// The error of the driver.
    pub fn new(place: Place<'_>, points: usize) -> Result<Self> {
        let options = GridOptions::default();
        match place {
            Place::Gpu(stream) => {
                let geometry = GeometryKernels::new(&stream.context());
                let mut grid = hash_grid::HashGrid::new(stream, &geometry, options)?;
                grid.reserve(stream, points)?;
                Ok(Self::Device(grid))
            }
            Place::Cpu => {
                let mut grid = structures::HashGrid::new(options)?;
                grid.reserve(points)?;
                Ok(Self::Cpu(grid))
            }
        }
    }

    /// Builds the grid of the first three coordinates.
    ///
    /// # Errors
    /// If the points lie elsewhere, or are more than there is room for.
    pub fn rebuild(&mut self, place: Place<'_>, points: &Memory<Vec4>, radius: f32) -> Result<()> {
        match (self, place, points) {
            (Self::Device(grid), Place::Gpu(stream), Memory::Device(points)) => {
                grid.rebuild(stream, points, radius)
            }
            (Self::Cpu(grid), Place::Cpu, Memory::Host(points)) => {
                let points: Vec<_> = points.iter().map(|point| point.xyz().to_array()).collect();
                grid.rebuild(&points, radius)
            }
            _ => Err(elsewhere()),
        }
    }

    /// Lists the neighbours of each point within a radius, without the point.
    ///
    /// # Errors
    /// If the lists lie elsewhere.
    pub fn neighbors(
        &self,
        place: Place<'_>,
        radius: f32,
        offsets: &mut Memory<u64>,
        lists: &mut Memory<u32>,
    ) -> Result<()> {
        match (self, place, offsets, lists) {
            (
                Self::Device(grid),
                Place::Gpu(stream),
                Memory::Device(offsets),
                Memory::Device(lists),
            ) => {
                let others = hash_grid::GridQueries::at_grid_points(radius).pairs(Pairs::Others);
                grid.neighbor_lists_into(stream, &others, offsets, lists)
            }
            (Self::Cpu(grid), Place::Cpu, Memory::Host(offsets), Memory::Host(lists)) => {
                use structures::hash_grid::GridQueries;
                let others = GridQueries::at_grid_points(radius).pairs(Pairs::Others);
                grid.neighbor_lists_into(&others, offsets, lists)
            }
            _ => Err(elsewhere()),
        }
    }

    /// Returns the grid for a kernel.
    #[must_use]
    pub fn view(&self) -> StructureAt<'_, structures::HashGrid<f32>> {
        match self {
            Self::Device(grid) => StructureAt::Device(grid),
            Self::Cpu(grid) => StructureAt::Host(grid),
        }
    }
}
