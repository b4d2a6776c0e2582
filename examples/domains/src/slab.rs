//! One device: its slab of the box and the particles in it.

use std::mem::swap;

use cuda_safe::vector::{Float3, Float4};
use cuda_safe::{
    Context, DeviceBuffer, DeviceRepr, DeviceSlice, Error, LaunchConfig, Result, Stream, kernels,
};
use geom_kernels::GeometryKernels;
use geom_kernels::hash_grid::{GridOptions, GridView, HashGrid};

use crate::options::{BLOCK, Options, Particle, Room};

/// Words of a message: of its header, for a position and for a particle.
const HEADER: usize = 4;
const HALO_WORDS: usize = 3;
const MIGRANT_WORDS: usize = 7;

/// The velocity's w of a place without a particle of the slab.
const NO_PARTICLE: u32 = u32::MAX;

const MORE_ROOM: &str = "give the slabs more room, or spread the particles more evenly";

/// `Slab` of domains.cu.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Shape {
    per_square: f64,
    lower: f32,
    upper: f32,
    length: f32,
    radius: f32,
    time_step: f32,
    sides: u32,
    halo: u32,
    migrants: u32,
    room: u32,
}

// SAFETY: repr(C), and the same fields in the same order as the structure of domains.cu.
unsafe impl DeviceRepr for Shape {}

kernels! {
    pub(crate) struct Kernels;
    // SAFETY: in particles' arrays kernels use places below `room`, of which each thread writes its own: slots of the
    // grid below the number of its points, or those behind them. What comes from memory is compared with `room`, or with
    // the room of messages, before it is an index. Threads take different places of messages by atomics, and use those
    // below `halo` and `migrants` alone. Warps are whole, and all their threads meet each ballot. Thread 0 alone writes
    // the word of `state`, and `peaks`, and no thread reads these in the same launch. In `next` thread i below 8 writes word
    // 3 `halo` + 7 `migrants` + i.
    unsafe in geom_kernels::program(include_str!("domains.cu")).name("domains.cu") {
        safe fn sum_alone(hash_grid: GridView<'_, f32>, slab: Shape, counts: &mut [u32], sums: &mut [f64])
            where slab.room <= counts.len(), slab.room <= sums.len(), grid.x * block.x <= 4294967295;
        safe fn compute(
            hash_grid: GridView<'_, f32>, slab: Shape, state: &mut [u32], before: &[Float4], points: &mut [Float3],
            after: &mut [Float4], counts: &mut [u32], sums: &mut [f64], out: &mut [u32],
        ) where 2 <= state.len(), slab.room <= before.len(), slab.room <= points.len(), slab.room <= after.len(),
            slab.room <= counts.len(), slab.room <= sums.len(), block.x % 32 == 0, block.x <= 256,
            grid.x * block.x <= 4294967295, 6 * slab.halo + 14 * slab.migrants + 8 <= out.len(),
            slab.halo <= 268435456, slab.migrants <= 134217728;
        safe fn arrive(
            slab: Shape, state: &mut [u32], from_left: &[u32], from_right: &[u32], out: &[u32], next: &mut [u32],
            points: &mut [Float3], velocities: &mut [Float4], peaks: &mut [u32],
        ) where 6 * slab.halo + 14 * slab.migrants + 8 <= next.len(), 2 <= state.len(), slab.room <= points.len(),
            slab.room <= velocities.len(), 6 <= peaks.len(),
            3 * slab.halo + 7 * slab.migrants + 4 <= from_left.len(), grid.x * block.x <= 1073741824,
            3 * slab.halo + 7 * slab.migrants + 4 <= from_right.len(), slab.room <= 1073741824,
            6 * slab.halo + 14 * slab.migrants + 8 <= out.len(), slab.halo <= 268435456, slab.migrants <= 134217728;
        safe fn count_own(slab: Shape, state: &[u32], points: &[Float3], count: &mut [u32])
            where 2 <= state.len(), slab.room <= points.len(), 1 <= count.len(), block.x % 32 == 0,
            grid.x * block.x <= 4294967295;
    }
}

/// A stream, the messages to the left and to the right, and memory for those from there.
pub(crate) type Exchanged<'s> =
    (&'s Stream, [DeviceSlice<'s, u32>; 2], [&'s mut DeviceBuffer<u32>; 2]);

/// What was found around a particle, where it was before the last step's move.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Neighbors {
    /// The particle's index in the array that the simulation began with.
    pub particle: u32,
    /// How many others are within the radius.
    pub count: u32,
    /// The sum of (1 - d² / r²)³ over them.
    pub sum: f64,
}

/// A slab of the box and its particles, on one device.
#[derive(Debug)]
pub struct Slab {
    pub(crate) stream: Stream,
    kernels: Kernels,
    grid: HashGrid<f32>,
    shape: Shape,
    index: usize,
    room: Room,
    state: DeviceBuffer<u32>,
    points: DeviceBuffer<Float3>,
    /// Those of now, and memory for the next ones. In w is the particle's index.
    velocities: [DeviceBuffer<Float4>; 2],
    counts: DeviceBuffer<u32>,
    sums: DeviceBuffer<f64>,
    /// The messages to the left and to the right, whose headers meet in the middle: those of this step, and memory for the
    /// next ones, which neighbours no longer read.
    out: [DeviceBuffer<u32>; 2],
    /// The messages from the left and from the right.
    pub(crate) from: [DeviceBuffer<u32>; 2],
    peaks: DeviceBuffer<u32>,
}

impl Slab {
    /// Creates slab `index` of `slabs`, with those of the particles that are in it.
    ///
    /// # Errors
    /// Options or particles that can't be (`Options::check`), more particles in the slab or its halo than there is
    /// room for; otherwise the error of compiling, loading or allocating.
    pub fn new(
        context: &Context,
        options: &Options,
        particles: &[Particle],
        index: usize,
        slabs: usize,
    ) -> Result<Self> {
        options.check(particles, slabs)?;
        if index >= slabs {
            return Err(Error::invalid(format!("slab {index} of {slabs}")));
        }
        let room = options.room(particles.len(), slabs);
        let (lower, upper) = (options.face(index, slabs), options.face(index + 1, slabs));
        let sides = [index > 0, index + 1 < slabs];
        let start = Start::new(options, particles, [lower, upper], sides);
        start.check(index, [lower, upper], room)?;

        // Places behind the own particles: those that left and the halo of the last step, which are empty, arrivals, and
        // the halo with those that left.
        let faces = sides.iter().filter(|side| **side).count();
        let places = faces
            .checked_mul(2 * room.halo + 3 * room.migrants)
            .and_then(|places| places.checked_add(room.own))
            .filter(|places| *places <= geom_kernels::MAX_POINTS)
            .ok_or_else(|| Error::invalid(format!("{room:?} is more than 2^30 places")))?
            .max(1);
        let message = HEADER + HALO_WORDS * room.halo + MIGRANT_WORDS * room.migrants;
        let shape = Shape {
            per_square: f64::from(options.radius).powi(-2),
            lower,
            upper,
            length: options.length,
            radius: options.radius,
            time_step: options.time_step,
            sides: u32::from(sides[0]) | u32::from(sides[1]) << 1,
            halo: room.halo as u32,
            migrants: room.migrants as u32,
            room: places as u32,
        };

        let stream = context.stream()?;
        let reach = |side: bool| if side { options.radius } else { 0.0 };
        let bounds = GridOptions::default()
            .bounds([lower - reach(sides[0]), 0.0, 0.0], [upper + reach(sides[1]), 1.0, 1.0]);
        let mut grid = HashGrid::new(&stream, &GeometryKernels::new(context), bounds)?;
        grid.reserve(&stream, places)?;
        let (points, velocities, own) = start.places(particles, places);
        Ok(Self {
            kernels: Kernels::load(context)?,
            grid,
            shape,
            index,
            room,
            state: DeviceBuffer::from_slice(&stream, &[own, own])?,
            points: DeviceBuffer::from_slice(&stream, &points)?,
            velocities: [
                DeviceBuffer::from_slice(&stream, &velocities)?,
                DeviceBuffer::zeroed(&stream, places)?,
            ],
            counts: DeviceBuffer::zeroed(&stream, places)?,
            sums: DeviceBuffer::zeroed(&stream, places)?,
            out: [
                DeviceBuffer::zeroed(&stream, 2 * message)?,
                DeviceBuffer::zeroed(&stream, 2 * message)?,
            ],
            from: [
                DeviceBuffer::zeroed(&stream, message)?,
                DeviceBuffer::zeroed(&stream, message)?,
            ],
            peaks: DeviceBuffer::zeroed(&stream, 6)?,
            stream,
        })
    }

    /// Returns the stream that the slab works on.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Builds the grid of the slab's particles and its halo. It may be repeated.
    ///
    /// # Errors
    /// If the driver returns an error.
    pub fn rebuild(&mut self) -> Result<()> {
        self.grid.rebuild(&self.stream, &self.points, self.shape.radius)
    }

    /// Sums over the neighbours of each particle as [`compute`](Self::compute) does, and no more: for comparison.
    ///
    /// # Errors
    /// If the driver returns an error.
    pub fn sum_alone(&mut self) -> Result<()> {
        let launch = LaunchConfig::cover(self.places(), BLOCK);
        let (counts, sums) = (&mut self.counts, &mut self.sums);
        self.kernels.sum_alone(&self.stream, launch, self.grid.view(), self.shape, counts, sums)
    }

    /// Sums over the neighbours of each particle, moves the particles, and writes the messages.
    ///
    /// # Errors
    /// If the driver returns an error.
    pub fn compute(&mut self) -> Result<()> {
        let launch = LaunchConfig::cover(self.places(), BLOCK);
        let [before, after] = &mut self.velocities;
        self.kernels.compute(
            &self.stream,
            launch,
            self.grid.view(),
            self.shape,
            &mut self.state,
            &*before,
            &mut self.points,
            &mut *after,
            &mut self.counts,
            &mut self.sums,
            &mut self.out[0],
        )?;
        swap(before, after);
        Ok(())
    }

    /// Takes in the messages from the left and from the right.
    ///
    /// # Errors
    /// If the driver returns an error.
    pub fn arrive(&mut self) -> Result<()> {
        if self.shape.sides == 0 {
            return Ok(());
        }
        // Behind the slots that the last step has filled, of which the host does not know the number.
        let threads = self.places().min(1 << 17);
        let [from_left, from_right] = &self.from;
        let [out, next] = &mut self.out;
        self.kernels.arrive(
            &self.stream,
            LaunchConfig::cover(threads, BLOCK),
            self.shape,
            &mut self.state,
            from_left,
            from_right,
            &*out,
            &mut *next,
            &mut self.points,
            &mut self.velocities[0],
            &mut self.peaks,
        )?;
        swap(out, next);
        Ok(())
    }

    /// Returns the message to the left, and the one to the right.
    pub(crate) fn messages(&self) -> Result<[DeviceSlice<'_, u32>; 2]> {
        let (middle, [out, _]) = (self.message(), &self.out);
        Ok([out.slice(..middle)?, out.slice(middle..)?])
    }

    /// Returns the stream, the messages to the left and right, and where those from there go.
    pub(crate) fn exchanged(&mut self) -> Result<Exchanged<'_>> {
        let (middle, [out, _]) = (self.message(), &self.out);
        let out = [out.slice(..middle)?, out.slice(middle..)?];
        Ok((&self.stream, out, self.from.each_mut()))
    }

    /// Compares the largest numbers so far with the room. Waits for the device.
    ///
    /// # Errors
    /// The first number that was too large, and the room; otherwise the error that the driver returns.
    pub fn check(&self) -> Result<()> {
        let peaks = self.peaks.to_vec(&self.stream)?;
        let (index, Room { halo, migrants, .. }) = (self.index, self.room);
        let &[places, left, right, to_left, to_right, lost] = &peaks[..] else {
            return Err(Error::invalid(format!("{} peaks; there should be 6", peaks.len())));
        };
        let error = |text: String| {
            Err(Error::invalid(format!("slab {index}: {text}")).with_hint(MORE_ROOM))
        };
        if lost > 0 {
            let places = self.places();
            return error(format!("{lost} arrivals find no place among {places} and are lost"));
        }
        for (what, most, room) in [
            ("particles of the halo to the left", left, halo),
            ("particles of the halo to the right", right, halo),
            ("particles leave to the left in a step", to_left, migrants),
            ("particles leave to the right in a step", to_right, migrants),
            ("places are needed for particles and halo", places, self.places()),
        ] {
            if most as usize > room {
                return error(format!("{most} {what}, and room for {room}"));
            }
        }
        Ok(())
    }

    /// Counts the slab's own particles. Waits for the device.
    ///
    /// # Errors
    /// The error that the driver returns.
    pub fn count(&self) -> Result<usize> {
        let mut count = DeviceBuffer::zeroed(&self.stream, 1)?;
        let launch = LaunchConfig::cover(self.places(), BLOCK);
        let (state, points) = (&self.state, &self.points);
        self.kernels.count_own(&self.stream, launch, self.shape, state, points, &mut count)?;
        Ok(count.to_vec(&self.stream)?.iter().map(|count| *count as usize).sum())
    }

    /// Returns the slab's own particles with their indices. Waits for the device.
    ///
    /// # Errors
    /// The error that the driver returns.
    pub fn particles(&self) -> Result<Vec<(u32, Particle)>> {
        let own = self.state.to_vec(&self.stream)?.get(1).copied().unwrap_or(0) as usize;
        let points = self.points.slice(..own)?.to_vec(&self.stream)?;
        let velocities = self.velocities[0].slice(..own)?.to_vec(&self.stream)?;
        let all = points.iter().zip(&velocities).filter(|(x, _)| !x.x.is_nan());
        Ok(all
            .filter(|(_, v)| v.w.to_bits() != NO_PARTICLE)
            .map(|(x, v)| {
                let (position, velocity) = ([x.x, x.y, x.z], [v.x, v.y, v.z]);
                (v.w.to_bits(), Particle { position, velocity })
            })
            .collect())
    }

    /// Returns the results of the last [`compute`](Self::compute). Waits for the device.
    ///
    /// # Errors
    /// The error that the driver returns.
    pub fn neighbors(&self) -> Result<Vec<Neighbors>> {
        let filled = self.grid.report(&self.stream)?.points;
        let velocities = self.velocities[0].slice(..filled)?.to_vec(&self.stream)?;
        let counts = self.counts.slice(..filled)?.to_vec(&self.stream)?;
        let sums = self.sums.slice(..filled)?.to_vec(&self.stream)?;
        let all = velocities.iter().zip(counts).zip(sums);
        Ok(all
            .map(|((v, count), sum)| Neighbors { particle: v.w.to_bits(), count, sum })
            .filter(|neighbors| neighbors.particle != NO_PARTICLE)
            .collect())
    }

    fn places(&self) -> usize {
        self.shape.room as usize
    }

    /// The words of a message.
    fn message(&self) -> usize {
        HEADER + HALO_WORDS * self.room.halo + MIGRANT_WORDS * self.room.migrants
    }
}

/// What a slab begins with: indices of particles.
struct Start {
    own: Vec<u32>,
    /// Within the radius of the left face and of the right face, outside.
    halo: [Vec<u32>; 2],
}

impl Start {
    fn new(
        options: &Options,
        particles: &[Particle],
        [lower, upper]: [f32; 2],
        sides: [bool; 2],
    ) -> Self {
        let mut start = Self { own: Vec::new(), halo: Default::default() };
        // As `reaches` in domains.cu.
        let reaches = |distance: f32| distance * distance <= options.radius * options.radius;
        for (index, particle) in particles.iter().enumerate() {
            let x = particle.position[0];
            let (is_left, is_right) = (sides[0] && x < lower, sides[1] && x >= upper);
            if !is_left && !is_right {
                start.own.push(index as u32);
            } else if is_left && reaches(lower - x) {
                start.halo[0].push(index as u32);
            } else if is_right && reaches(x - upper) {
                start.halo[1].push(index as u32);
            }
        }
        start
    }

    fn check(&self, index: usize, [lower, upper]: [f32; 2], room: Room) -> Result<()> {
        for (what, number, room) in [
            ("particles", self.own.len(), room.own),
            ("particles on the left in its halo", self.halo[0].len(), room.halo),
            ("particles on the right in its halo", self.halo[1].len(), room.halo),
        ] {
            if number > room {
                return Err(Error::invalid(format!(
                    "slab {index}, x from {lower} to {upper}: {number} {what}, and room for {room}"
                ))
                .with_hint(MORE_ROOM));
            }
        }
        Ok(())
    }

    /// Returns the positions and velocities of all places, and where the halo begins.
    fn places(&self, particles: &[Particle], places: usize) -> (Vec<Float3>, Vec<Float4>, u32) {
        let empty = Float4::new(0.0, 0.0, 0.0, f32::from_bits(NO_PARTICLE));
        let all = self.own.iter().chain(self.halo.iter().flatten());
        let mut points: Vec<_> =
            all.map(|index| Float3::from(particles[*index as usize].position)).collect();
        points.resize(places, Float3::new(f32::NAN, f32::NAN, f32::NAN));
        let velocity = |index: &u32| {
            let [x, y, z] = particles[*index as usize].velocity;
            Float4::new(x, y, z, f32::from_bits(*index))
        };
        let mut velocities: Vec<_> = self.own.iter().map(velocity).collect();
        velocities.resize(places, empty);
        (points, velocities, self.own.len() as u32)
    }
}
