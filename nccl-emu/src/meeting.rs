//! Where the ranks of a new communicator meet: each joins, learns who the others are, makes its resources, and takes
//! those of all.
//!
//! A job does this for one rank. `advance` does as much as can be done without waiting, so one thread can create
//! several ranks, and a communicator that does not block is advanced whenever it is asked for.

use core::ptr;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use cuda_sys::{CUcontext, CUdevice};

use crate::cuda::Cuda;
use crate::error::{Error, Result};
use crate::rank::{self, Link, Rank};
use crate::types::NCCL_SPLIT_NOCOLOR;

/// The purpose of a meeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    /// A communicator with this unique id.
    Id(u64),
    /// The colours of the n-th split of a communicator.
    Colours(u64, u64),
    /// The communicator of one colour of a split.
    Part(u64, u64, i32),
}

#[derive(Debug)]
struct Member {
    device: CUdevice,
    colour: i32,
    order: i32,
    ready: Option<Arc<Rank>>,
}

#[derive(Debug)]
struct Meeting {
    members: Vec<Option<Member>>,
    /// The number of the new communicator.
    clique: u64,
    slot_bytes: usize,
    failed: Option<String>,
    joined: usize,
    left: usize,
}

#[derive(Default)]
struct State {
    meetings: HashMap<Key, Meeting>,
    /// Unique ids that no rank has used.
    fresh: HashSet<u64>,
    ids: u64,
    cliques: u64,
    /// Counts the changes, for those who wait.
    changes: u64,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);
static CHANGED: Condvar = Condvar::new();

type Locked = MutexGuard<'static, Option<State>>;

fn lock() -> Locked {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a unique id.
pub(crate) fn new_id() -> u64 {
    let mut state = lock();
    let state = state.get_or_insert_default();
    state.ids += 1;
    state.fresh.insert(state.ids);
    state.ids
}

/// Returns how often something has changed. [`wait`] waits for the next change.
pub(crate) fn changes() -> u64 {
    lock().get_or_insert_default().changes
}

/// Waits until something has changed since [`changes`] returned `seen`.
pub(crate) fn wait(seen: u64) {
    let mut state = lock();
    while state.get_or_insert_default().changes == seen {
        state = CHANGED.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

impl Meeting {
    fn new(size: usize, clique: u64) -> Self {
        Self {
            members: (0..size).map(|_| None).collect(),
            clique,
            slot_bytes: rank::slot_bytes(),
            failed: None,
            joined: 0,
            left: 0,
        }
    }

    fn usable(&self) -> Result {
        match &self.failed {
            Some(why) => Err(Error::remote(format!("another rank has failed: {why}"))),
            None => Ok(()),
        }
    }
}

impl State {
    fn changed(&mut self) {
        self.changes += 1;
        CHANGED.notify_all();
    }

    /// Enters a meeting, which the first one opens.
    fn join(&mut self, key: Key, size: usize, number: usize, member: Member) -> Result {
        if let Key::Id(id) = key {
            let fresh = self.fresh.remove(&id);
            if !fresh && !self.meetings.contains_key(&key) {
                return Err(Error::usage(
                    "the unique id was used for a communicator before: get another one by ncclGetUniqueId",
                ));
            }
        }
        self.cliques += 1;
        let clique = self.cliques;
        let meeting = self.meetings.entry(key).or_insert_with(|| Meeting::new(size, clique));
        meeting.usable()?;
        let ranks = meeting.members.len();
        let wrong = if ranks != size {
            format!("rank {number} says that there are {size} ranks, but others said {ranks}")
        } else {
            match meeting.members.get_mut(number) {
                Some(place @ None) => {
                    *place = Some(member);
                    String::new()
                }
                _ => format!(
                    "rank {number} of the unique id has already called: give each rank its number"
                ),
            }
        };
        if !wrong.is_empty() {
            // Without a failure the others would wait for a rank that never comes.
            meeting.failed = Some(wrong.clone());
            self.changed();
            return Err(Error::usage(wrong));
        }
        meeting.joined += 1;
        self.changed();
        Ok(())
    }

    fn meeting(&mut self, key: Key) -> Result<&mut Meeting> {
        let meeting = self.meetings.get_mut(&key);
        let meeting = meeting.ok_or_else(|| Error::internal("a meeting of ranks is gone"))?;
        meeting.usable()?;
        Ok(meeting)
    }

    /// Leaves a meeting; `failed` says why the others must fail. Returns the resources that the meeting kept.
    fn leave(&mut self, key: Key, failed: Option<&str>) -> Vec<Arc<Rank>> {
        let Some(meeting) = self.meetings.get_mut(&key) else { return Vec::new() };
        meeting.left += 1;
        if let Some(why) = failed
            && meeting.failed.is_none()
        {
            meeting.failed = Some(why.to_owned());
        }
        let all = meeting.left == meeting.members.len();
        let mut kept = Vec::new();
        if all || meeting.failed.is_some() {
            let members = meeting.members.iter_mut().flatten();
            kept.extend(members.filter_map(|member| member.ready.take()));
        }
        // Ranks that come late to a failed meeting find the id used.
        if all || meeting.failed.is_some() && meeting.left == meeting.joined {
            self.meetings.remove(&key);
        }
        self.changed();
        kept
    }
}

/// The progress of a job.
#[derive(Debug)]
pub(crate) enum Progress {
    /// The job waits for others.
    Pending,
    Done(Link),
    /// The rank joins no communicator of the split.
    Outside,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The rank has not joined.
    Start,
    /// The rank waits for the others' numbers and devices.
    Joined,
    /// The rank waits for the others' resources.
    Prepared,
    /// The rank has left.
    Over,
}

/// Brings one rank into a new communicator.
#[derive(Debug)]
pub(crate) struct Job {
    cuda: Cuda,
    key: Key,
    size: usize,
    rank: usize,
    device: CUdevice,
    /// The context that was current, or null.
    expected: CUcontext,
    colour: i32,
    order: i32,
    stage: Stage,
}

// SAFETY: the context is only a handle, which any thread may use.
unsafe impl Send for Job {}

impl Job {
    pub(crate) fn new(
        cuda: Cuda,
        id: u64,
        size: usize,
        rank: usize,
        device: CUdevice,
        expected: CUcontext,
    ) -> Self {
        let (colour, order, stage) = (0, 0, Stage::Start);
        Self { cuda, key: Key::Id(id), size, rank, device, expected, colour, order, stage }
    }

    /// The `count`-th split of a communicator.
    pub(crate) fn split(cuda: Cuda, parent: &Link, count: u64, colour: i32, order: i32) -> Self {
        Self {
            cuda,
            key: Key::Colours(parent.clique, count),
            size: parent.ranks.len(),
            rank: parent.rank,
            device: parent.own().device,
            expected: ptr::null_mut(),
            colour,
            order,
            stage: Stage::Start,
        }
    }

    /// Does what can be done without waiting. After an error the others fail, too.
    pub(crate) fn advance(&mut self) -> Result<Progress> {
        let progress = self.try_advance();
        if let Err(error) = &progress {
            // The text makes the others' jobs fail; nothing has used their resources.
            let _ = self.leave(Some(&error.text));
        }
        progress
    }

    /// Leaves the meeting, if the rank is in one. Returns an error of freeing the meeting's resources.
    pub(crate) fn leave(&mut self, failed: Option<&str>) -> Result {
        let stage = core::mem::replace(&mut self.stage, Stage::Over);
        if !matches!(stage, Stage::Joined | Stage::Prepared) {
            return Ok(());
        }
        let kept = lock().get_or_insert_default().leave(self.key, failed);
        rank::release(kept)
    }

    fn try_advance(&mut self) -> Result<Progress> {
        loop {
            match self.stage {
                Stage::Start => {
                    let (device, colour, order) = (self.device, self.colour, self.order);
                    let member = Member { device, colour, order, ready: None };
                    lock().get_or_insert_default().join(self.key, self.size, self.rank, member)?;
                    self.stage = Stage::Joined;
                    if matches!(self.key, Key::Colours(..)) && self.colour == NCCL_SPLIT_NOCOLOR {
                        // The result of `leave` only tells the others.
                        self.leave(None)?;
                        return Ok(Progress::Outside);
                    }
                }
                Stage::Joined => {
                    let mut state = lock();
                    let meeting = state.get_or_insert_default().meeting(self.key)?;
                    let slot_bytes = meeting.slot_bytes;
                    let members: Option<Vec<&Member>> =
                        meeting.members.iter().map(Option::as_ref).collect();
                    let Some(members) = members else { return Ok(Progress::Pending) };
                    if let Key::Colours(parent, count) = self.key {
                        let (rank, size) = place(&members, self.rank);
                        drop(state);
                        self.leave(None)?;
                        self.key = Key::Part(parent, count, self.colour);
                        (self.rank, self.size, self.stage) = (rank, size, Stage::Start);
                        continue;
                    }
                    let devices: Vec<CUdevice> = members.iter().map(|one| one.device).collect();
                    drop(state);
                    distinct(&devices)?;
                    let new = Rank::new(self.cuda, self.rank, &devices, self.expected, slot_bytes)?;
                    let new = Arc::new(new);
                    let mut state = lock();
                    let state = state.get_or_insert_default();
                    if let Some(Some(own)) = state.meeting(self.key)?.members.get_mut(self.rank) {
                        own.ready = Some(new);
                    }
                    state.changed();
                    self.stage = Stage::Prepared;
                }
                Stage::Prepared => {
                    let mut state = lock();
                    let meeting = state.get_or_insert_default().meeting(self.key)?;
                    let ready =
                        |member: &Option<Member>| member.as_ref().and_then(|one| one.ready.clone());
                    let ranks: Option<Vec<Arc<Rank>>> = meeting.members.iter().map(ready).collect();
                    let clique = meeting.clique;
                    drop(state);
                    let Some(ranks) = ranks else { return Ok(Progress::Pending) };
                    let link = Link { ranks, rank: self.rank, clique };
                    self.leave(None)?;
                    return Ok(Progress::Done(link));
                }
                Stage::Over => {
                    return Err(Error::internal("a communicator was advanced after its end"));
                }
            }
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // The communicator was given up. Its caller has the first error.
        let _ = self.leave(Some("it was given up"));
    }
}

/// Returns the new number of a rank among those of its colour, and how many these are: by their keys, and by their old
/// numbers where keys are equal.
fn place(members: &[&Member], rank: usize) -> (usize, usize) {
    let Some(own) = members.get(rank) else { return (0, 0) };
    let mut same: Vec<(i32, usize)> = (members.iter().enumerate())
        .filter(|(_, member)| member.colour == own.colour)
        .map(|(number, member)| (member.order, number))
        .collect();
    same.sort_unstable();
    (same.iter().position(|(_, number)| *number == rank).unwrap_or(0), same.len())
}

/// Fails if two ranks have the same device.
fn distinct(devices: &[CUdevice]) -> Result {
    let mut seen = BTreeMap::new();
    for (rank, &device) in devices.iter().enumerate() {
        if let Some(other) = seen.insert(device, rank) {
            return Err(Error::usage(format!(
                "ranks {other} and {rank} both use device {device}: each rank of a communicator needs a device"
            )));
        }
    }
    Ok(())
}
