//! Runs a program on a device, and compares whatever the host sees with the oracle.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use cuda_safe::{
    Context, DeviceBuffer, DeviceSlice, DeviceSliceMut, Event, GraphExec, Mark, PinnedBuffer,
    Result, Stream, Transfer, UnifiedBuffer,
};

use super::oracle::Oracle;
use super::program::{Id, LEN, Made, Part, Step, Work, words};
use test_harness::programs::Basic;
use test_harness::sabotage::{self, Window};
use test_harness::{Failure, TestResult, count_launches, ensure, ensure_eq, first_difference};

const SHAPE: (u32, u32) = (2, 32);

/// What the host writes where nobody should look any more.
const JUNK: u32 = 0xdead_beef;

/// A buffer of either kind.
enum Memory {
    Device(DeviceBuffer<u32>),
    Unified(UnifiedBuffer<u32>),
}

type Shared = Rc<RefCell<Memory>>;
type Memories = HashMap<Id, Shared>;
/// Shared with the recording of another one, of which it becomes a part.
type Graph = Rc<RefCell<GraphExec<'static, Memories>>>;

impl Memory {
    fn view(&self, range: &std::ops::Range<usize>) -> Result<DeviceSlice<'_, u32>> {
        match self {
            Self::Device(buffer) => buffer.slice(range.clone()),
            Self::Unified(buffer) => buffer.slice(range.clone()),
        }
    }

    fn view_mut(&mut self, range: &std::ops::Range<usize>) -> Result<DeviceSliceMut<'_, u32>> {
        match self {
            Self::Device(buffer) => buffer.slice_mut(range.clone()),
            Self::Unified(buffer) => buffer.slice_mut(range.clone()),
        }
    }
}

/// A transfer that was not waited for, and what a download must bring.
struct Pending {
    transfer: Transfer<u32>,
    brings: Option<Vec<u32>>,
}

/// What a stream's host functions have done: the number of each that has run.
#[derive(Default)]
struct Calls {
    enqueued: usize,
    made: Arc<Mutex<Vec<usize>>>,
}

pub(super) struct Machine {
    context: Context,
    basic: Rc<Basic>,
    oracle: Oracle,
    memories: Memories,
    graphs: BTreeMap<usize, Graph>,
    marks: Vec<Mark>,
    transfers: Vec<Pending>,
    calls: Vec<Calls>,
    streams: Vec<Stream>,
}

/// Enqueues on one stream, recording or not.
fn enqueue(basic: &Basic, stream: &Stream, memories: &Memories, work: &Work) -> Result<()> {
    let launched = match work {
        Work::Fill { to, range, value } => {
            let mut to = memories[to].borrow_mut();
            basic.fill(stream, SHAPE, to.view_mut(range)?, range.len() as u64, *value)
        }
        Work::Iota { to, range, value } => {
            let mut to = memories[to].borrow_mut();
            basic.iota(stream, SHAPE, to.view_mut(range)?, range.len() as u64, *value)
        }
        Work::Add { to, range, value } => {
            let mut to = memories[to].borrow_mut();
            basic.add(stream, SHAPE, to.view_mut(range)?, range.len() as u64, *value)
        }
        Work::Copy { from, to, range } => {
            let (from, mut to) = (memories[from].borrow(), memories[to].borrow_mut());
            let n = range.len() as u64;
            basic.copy(stream, SHAPE, from.view(range)?, to.view_mut(range)?, n)
        }
        Work::Set { to, range, value } => {
            return memories[to].borrow_mut().view_mut(range)?.fill(stream, *value);
        }
        Work::Upload { to, range, value } => {
            let mut source = words(*value, range.len());
            memories[to].borrow_mut().view_mut(range)?.upload(stream, &source)?;
            source.fill(JUNK);
            return Ok(());
        }
        Work::Raw { to, range, value } => {
            let mut to = memories[to].borrow_mut();
            let to = to.view_mut(range)?;
            let (at, context) = (to.device_ptr(), stream.context());
            let driver = context.driver().as_sys();
            // SAFETY: the call enqueues a fill of `to` on the stream, and nothing else.
            let filled = unsafe {
                stream.enqueue((to,), |raw| driver.cuMemsetD32Async(at, *value, range.len(), raw))
            }?;
            assert_eq!(filled, Ok(cuda_sys::CUresult::CUDA_SUCCESS), "a raw fill");
            return Ok(());
        }
        Work::Move { from, to, range, at } => {
            let (from, mut to) = (memories[from].borrow(), memories[to].borrow_mut());
            return to.view_mut(&(*at..at + range.len()))?.copy_from(stream, from.view(range)?);
        }
    };
    if launched.is_ok() {
        count_launches(1);
    }
    launched
}

/// Records the parts of a graph.
fn record(
    basic: &Basic,
    stream: &Stream,
    memories: &Memories,
    graphs: &BTreeMap<usize, Graph>,
    parts: &[Part],
) -> Result<()> {
    let mut lanes = vec![stream.clone()];
    for part in parts {
        match part {
            Part::Fork { of } => lanes.push(lanes[*of].fork()?),
            Part::Join { lane, other } => lanes[*lane].wait_stream(&lanes[*other])?,
            Part::Work { lane, work, named } => {
                enqueue(basic, &lanes[*lane], memories, work)?;
                if *named {
                    lanes[*lane].last_node()?;
                }
            }
            Part::Child { lane, graph, .. } => graphs[graph].borrow_mut().launch(&lanes[*lane])?,
            Part::Scratch { lanes: [first, second, third], from, to, value } => {
                let n = LEN as u64;
                let mut scratch = DeviceBuffer::<u32>::zeroed(&lanes[*first], LEN)?;
                let (from, mut to) = (memories[from].borrow(), memories[to].borrow_mut());
                basic.copy(&lanes[*first], SHAPE, from.view(&(0..LEN))?, &mut scratch, n)?;
                basic.add(&lanes[*second], SHAPE, &mut scratch, n, *value)?;
                basic.copy(&lanes[*third], SHAPE, &scratch, to.view_mut(&(0..LEN))?, n)?;
            }
        }
    }
    Ok(())
}

impl Machine {
    pub(super) fn new(context: &Context, basic: Rc<Basic>, streams: usize) -> Result<Self> {
        Ok(Self {
            context: context.clone(),
            basic,
            oracle: Oracle::default(),
            memories: Memories::new(),
            graphs: BTreeMap::new(),
            marks: Vec::new(),
            transfers: Vec::new(),
            calls: (0..streams).map(|_| Calls::default()).collect(),
            streams: (0..streams).map(|_| context.stream()).collect::<Result<_>>()?,
        })
    }

    /// Does a step here and in the oracle.
    pub(super) fn step(&mut self, step: &Step) -> TestResult {
        let window = match step {
            Step::Drop { .. } => Window::Drop,
            Step::Capture { .. } | Step::Recapture { .. } => Window::Capture,
            Step::Work { work, .. } if work.only_writes() => Window::Write,
            _ => Window::Other,
        };
        let within = sabotage::within(window);
        let done = self.perform(step);
        drop(within);
        done?;
        self.oracle.step(step);
        Ok(())
    }

    fn perform(&mut self, step: &Step) -> TestResult {
        match step {
            Step::Work { on, work } => {
                enqueue(&self.basic, &self.streams[*on], &self.memories, work)?;
            }
            Step::Halves { on: [first, second], of, at, values } => {
                let mut memory = self.memories[of].borrow_mut();
                let all = memory.view_mut(&(0..LEN))?;
                let (low, high) = all.split_at_mut(*at)?;
                let (n, rest) = (*at as u64, (LEN - at) as u64);
                let [low_value, high_value] = *values;
                self.basic.add(&self.streams[*first], SHAPE, low, n, low_value)?;
                self.basic.add(&self.streams[*second], SHAPE, high, rest, high_value)?;
                count_launches(2);
            }
            Step::Download { on, from, range } => {
                let got = self.memories[from].borrow().view(range)?.to_vec(&self.streams[*on])?;
                first_difference(&got, &self.oracle.of(*from)[range.clone()])?;
            }
            Step::UploadPinned { on, to, value } => {
                let source = PinnedBuffer::from_slice(&self.context, &words(*value, LEN))?;
                let mut memory = self.memories[to].borrow_mut();
                let mut to = memory.view_mut(&(0..LEN))?;
                let transfer = to.upload_pinned(&self.streams[*on], source)?;
                self.transfers.push(Pending { transfer, brings: None });
            }
            Step::DownloadPinned { on, from } => {
                let target = PinnedBuffer::zeroed(&self.context, LEN)?;
                let memory = self.memories[from].borrow();
                let transfer =
                    memory.view(&(0..LEN))?.download_pinned(&self.streams[*on], target)?;
                let brings = Some(self.oracle.of(*from).to_vec());
                self.transfers.push(Pending { transfer, brings });
            }
            Step::WaitTransfer { which } => self.wait(*which)?,
            Step::DropTransfer { which } => drop(self.transfers.swap_remove(*which)),
            Step::Make { id, on, how, value } => self.make(*id, *on, *how, *value)?,
            Step::Drop { id } => drop(self.memories.remove(id)),
            Step::NewStream { which } => {
                self.streams[*which] = self.context.stream()?;
                self.calls[*which] = Calls::default();
            }
            Step::HostFunction { on } => {
                let calls = &mut self.calls[*on];
                let (number, made) = (calls.enqueued, calls.made.clone());
                calls.enqueued += 1;
                self.streams[*on].host_function(move || {
                    made.lock().unwrap_or_else(PoisonError::into_inner).push(number);
                })?;
            }
            Step::Event { first, then } => {
                let event = Event::new(&self.context)?;
                event.record(&self.streams[*first])?;
                self.streams[*then].wait_event(&event)?;
            }
            Step::Join { first, then } => {
                self.streams[*then].wait_stream(&self.streams[*first])?;
            }
            Step::Mark { on } => self.marks.push(self.streams[*on].mark()?),
            Step::WaitMark { which, on: Some(on) } => {
                self.streams[*on].wait_mark(&self.marks[*which])?;
            }
            Step::WaitMark { which, on: None } => self.marks[*which].synchronize()?,
            Step::Synchronize { on } => self.synchronize(*on)?,
            Step::Look { id } => {
                let memory = self.memories[id].borrow();
                let Memory::Unified(buffer) = &*memory else { return Err(not_seen()) };
                first_difference(&buffer.host()?, self.oracle.of(*id))?;
            }
            Step::Write { id, value } => {
                let mut memory = self.memories[id].borrow_mut();
                let Memory::Unified(buffer) = &mut *memory else { return Err(not_seen()) };
                let mut host = buffer.host_mut()?;
                first_difference(&host, self.oracle.of(*id))?;
                host.copy_from_slice(&words(*value, LEN));
            }
            Step::Capture { graph, keeps, parts } => {
                let used = self.used(parts);
                let state = if *keeps { used.clone() } else { Memories::new() };
                let recorder = self.recorder(used, parts);
                let captured = self.context.capture(state, recorder)?;
                self.graphs.insert(*graph, Rc::new(RefCell::new(captured)));
            }
            Step::Recapture { graph, parts } => {
                let recorder = self.recorder(self.used(parts), parts);
                self.graphs[graph].borrow_mut().recapture(recorder)?;
            }
            Step::Clone { from, to } => {
                let copy = self.graphs[from].borrow_mut().try_clone(Memories::new())?;
                self.graphs.insert(*to, Rc::new(RefCell::new(copy)));
            }
            Step::Launch { graph, on } => {
                self.graphs[graph].borrow_mut().launch(&self.streams[*on])?;
            }
            Step::Update { graph, node, value } => self.update(*graph, *node, *value)?,
            Step::TakeState { graph } => {
                let graph = self.graphs.remove(graph).and_then(Rc::into_inner);
                let Some(graph) = graph else { return Err(no_graph()) };
                for (id, memory) in graph.into_inner().into_state() {
                    if matches!(*memory.borrow(), Memory::Device(_)) {
                        self.memories.entry(id).or_insert(memory.clone());
                    }
                }
            }
        }
        Ok(())
    }

    fn used(&self, parts: &[Part]) -> Memories {
        let used = parts.iter().flat_map(Part::uses);
        used.map(|id| (id, self.memories[&id].clone())).collect()
    }

    fn recorder(
        &self,
        used: Memories,
        parts: &[Part],
    ) -> impl FnOnce(&Stream, &mut Memories) -> Result<()> + use<> {
        let (basic, graphs, parts) = (self.basic.clone(), self.graphs.clone(), parts.to_vec());
        move |stream, _| record(&basic, stream, &used, &graphs, &parts)
    }

    fn make(&mut self, id: Id, on: usize, how: Made, value: u32) -> TestResult {
        let stream = &self.streams[on];
        let memory = match how {
            Made::Words => Memory::Device(DeviceBuffer::from_slice(stream, &words(value, LEN))?),
            Made::Zeros => Memory::Device(DeviceBuffer::zeroed(stream, LEN)?),
            Made::CloneOf(other) => match &*self.memories[&other].borrow() {
                Memory::Device(other) => Memory::Device(other.try_clone(stream)?),
                Memory::Unified(_) => return Err(Failure::new("only device memory is cloned")),
            },
            Made::Managed => Memory::Unified(UnifiedBuffer::managed(stream, LEN)?),
            Made::Pinned => Memory::Unified(UnifiedBuffer::pinned(stream, LEN)?),
            Made::Registered => {
                Memory::Unified(UnifiedBuffer::register(stream, words(value, LEN))?)
            }
        };
        self.memories.insert(id, Rc::new(RefCell::new(memory)));
        Ok(())
    }

    fn wait(&mut self, which: usize) -> TestResult {
        let Pending { transfer, brings } = self.transfers.swap_remove(which);
        let mut pinned = transfer.wait()?;
        if let Some(brings) = brings {
            first_difference(&pinned, &brings)?;
        }
        // The copy is over, so nobody sees this; and the next transfer gets the memory.
        pinned.fill(JUNK);
        Ok(())
    }

    fn synchronize(&self, on: usize) -> TestResult {
        self.streams[on].synchronize()?;
        let Calls { enqueued, made } = &self.calls[on];
        let made = made.lock().unwrap_or_else(PoisonError::into_inner);
        ensure_eq!(*made, (0..*enqueued).collect::<Vec<_>>());
        Ok(())
    }

    fn update(&mut self, graph: usize, node: usize, value: u32) -> TestResult {
        let Some(work) = self.oracle.updated(graph, node, value) else { return Err(no_graph()) };
        let mut graph = self.graphs[&graph].borrow_mut();
        let Some(node) = graph.nodes().nth(node) else { return Err(no_graph()) };
        let used: Memories = work
            .uses()
            .into_iter()
            .filter_map(|id| {
                let memory = self.memories.get(&id).or_else(|| graph.state().get(&id))?;
                Some((id, memory.clone()))
            })
            .collect();
        ensure_eq!(used.len(), work.uses().len(), "the program changes a launch that it may not");
        let basic = self.basic.clone();
        graph.update(node, move |stream, _| enqueue(&basic, stream, &used, &work))?;
        Ok(())
    }

    /// Compares all that is left.
    pub(super) fn finish(&mut self) -> TestResult {
        while !self.transfers.is_empty() {
            self.wait(0)?;
        }
        for (id, memory) in &self.memories {
            let stream = &self.streams[id % self.streams.len()];
            let got = memory.borrow().view(&(0..LEN))?.to_vec(stream)?;
            first_difference(&got, self.oracle.of(*id))
                .map_err(|failure| Failure::new(format!("buffer {id}, at the end: {failure}")))?;
        }
        (0..self.streams.len()).try_for_each(|on| self.synchronize(on))?;
        let errors = self.context.take_drop_errors();
        ensure!(errors.is_empty(), "drops met errors: {errors:?}");
        Ok(())
    }
}

fn no_graph() -> Failure {
    Failure::new("the program names a graph or node that there is not")
}

fn not_seen() -> Failure {
    Failure::new("the program lets the host look at memory that it does not see")
}
