//! Capturing streams: enqueued work becomes a graph.

use core::cell::Cell;
use core::ffi::c_uint;

use cuda_sys::{
    CUgraph, CUgraphEdgeData, CUgraphNode, CUresult, CUstream, CUstreamCaptureMode,
    CUstreamCaptureStatus, cuuint64_t,
};

use super::{Capture, list};
use crate::driver::call::{Answer, functions, process, put, put_if_wanted};
use crate::driver::objects::{handle, number};
use crate::driver::process::State;
use crate::driver::stream::work::Work;
use crate::driver::thread;

const GLOBAL: u32 = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL.0;
const THREAD_LOCAL: u32 = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL.0;
const RELAXED: u32 = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED.0;

thread_local! {
    /// How far the captures of others restrict this thread.
    static MODE: Cell<u32> = const { Cell::new(GLOBAL) };
}

impl State {
    /// Enqueues work on a stream, or adds it to the graph that the stream captures. `function` is
    /// the kernel's handle. Returns the number of enqueued work, 0 for captured work.
    pub(in crate::driver) fn submit(
        &mut self,
        stream: u64,
        work: Work,
        function: u64,
    ) -> Answer<u64> {
        let Some((capture, tail)) = self.objects.streams.get(stream)?.capture.clone() else {
            self.implicit_in_capture(stream)?;
            return self.enqueue(stream, work);
        };
        let graph = self.capturing(capture)?;
        let node = self.add_node(graph, work, &tail)?;
        self.objects.nodes.get_mut(node)?.function = function;
        self.objects.streams.get_mut(stream)?.capture = Some((capture, vec![node]));
        Ok(0)
    }

    /// Returns the graph of a capture that is in order.
    pub(in crate::driver) fn capturing(&self, capture: u64) -> Answer<u64> {
        match self.objects.captures.get(capture) {
            Ok(Capture { invalid: false, graph, .. }) => Ok(*graph),
            _ => Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED),
        }
    }

    /// Fails for a stream whose capture is invalidated and has not ended.
    pub(in crate::driver) fn capture_in_order(&self, stream: u64) -> Answer {
        match &self.objects.streams.get(stream)?.capture {
            Some((capture, _)) => self.capturing(*capture).map(drop),
            None => Ok(()),
        }
    }

    /// Adds an event's record, or a wait for it, to the captured graph.
    pub(in crate::driver) fn capture_event(
        &mut self,
        stream: u64,
        event: u64,
        record: bool,
    ) -> Answer {
        let Some((capture, tail)) = self.objects.streams.get(stream)?.capture.clone() else {
            return Err(CUresult::CUDA_ERROR_ILLEGAL_STATE);
        };
        let graph = self.capturing(capture)?;
        let node = self.add_event_node(graph, event, record, &tail)?;
        self.objects.streams.get_mut(stream)?.capture = Some((capture, vec![node]));
        Ok(())
    }

    pub(in crate::driver) fn invalidate(&mut self, capture: u64) {
        if let Ok(capture) = self.objects.captures.get_mut(capture) {
            capture.invalid = true;
        }
    }

    /// Returns the capture of a blocking stream that work on the stream, the NULL stream, would mix with.
    fn mixed_capture(&self, stream: u64) -> Answer<Option<u64>> {
        let this = self.objects.streams.get(stream)?;
        if !this.legacy {
            return Ok(None);
        }
        let context = this.context;
        Ok(self.objects.streams.iter().find_map(|(_, other)| {
            let (capture, _) = other.capture.as_ref()?;
            (other.context == context && other.blocking()).then_some(*capture)
        }))
    }

    /// As [`State::implicit_in_capture`], for calls that only ask: the capture goes on.
    fn implicit_in_query(&self, stream: u64) -> Answer {
        match self.mixed_capture(stream)? {
            None => Ok(()),
            Some(_) => Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT),
        }
    }

    /// Fails, and spoils the capture, if a call would mix a blocking stream that captures with the
    /// NULL stream.
    pub(in crate::driver) fn implicit_in_capture(&mut self, stream: u64) -> Answer {
        match self.mixed_capture(stream)? {
            None => Ok(()),
            Some(capture) => {
                self.invalidate(capture);
                Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
            }
        }
    }

    /// Fails, and spoils the capture, if the stream captures: the call would wait for it.
    pub(in crate::driver) fn forbidden_on_capturing(&mut self, stream: u64) -> Answer {
        match self.objects.streams.get(stream)?.capture.as_ref().map(|(capture, _)| *capture) {
            Some(capture) => {
                self.capturing(capture)?;
                self.invalidate(capture);
                Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
            }
            None => self.implicit_in_capture(stream),
        }
    }

    /// Fails, and spoils the captures that it is unsafe for, if this thread may not make a call
    /// that is not captured: one that allocates, or waits for the device.
    pub(in crate::driver) fn forbidden_in_capture(&mut self) -> Answer {
        let (mode, this) = (MODE.get(), thread::number());
        let mut forbidden = false;
        for capture in self.objects.captures.values_mut() {
            let counts = match capture.mode {
                GLOBAL => mode == GLOBAL || mode == THREAD_LOCAL && capture.thread == this,
                THREAD_LOCAL => mode != RELAXED && capture.thread == this,
                _ => false,
            };
            if counts {
                capture.invalid = true;
                forbidden = true;
            }
        }
        if forbidden { Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) } else { Ok(()) }
    }

    /// Fails, and spoils what is captured in a context, of whatever mode: somebody waits for all of
    /// the context's work. That goes for every stream of a capture, not for its origin alone (two H100s, driver 580).
    pub(in crate::driver) fn no_capture_in(&mut self, context: u64) -> Answer {
        let of_context =
            self.objects.streams.iter().filter(|(_, stream)| stream.context == context);
        let found: Vec<u64> = of_context
            .filter_map(|(_, stream)| stream.capture.as_ref().map(|(capture, _)| *capture))
            .collect();
        for &capture in &found {
            self.invalidate(capture);
        }
        if found.is_empty() { Ok(()) } else { Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) }
    }

    /// Fails, and spoils the capture, if the stream captures: copies that name contexts can't be captured, with or
    /// without peer access (two H100s, driver 580). Copies by address can.
    pub(in crate::driver) fn no_peer_copy_in_capture(&mut self, stream: u64) -> Answer {
        match self.objects.streams.get(stream)?.capture.as_ref().map(|(capture, _)| *capture) {
            Some(capture) => {
                self.invalidate(capture);
                Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
            }
            None => Ok(()),
        }
    }

    /// Begins a capture to `graph`, after the nodes of `tail` if the graph is the user's.
    fn begin_capture(
        &mut self,
        stream: u64,
        mode: u32,
        graph: u64,
        tail: Option<Vec<u64>>,
    ) -> Answer {
        let this = self.objects.streams.get(stream)?;
        if mode > RELAXED {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        if this.capture.is_some() {
            return Err(CUresult::CUDA_ERROR_ILLEGAL_STATE);
        }
        if this.legacy {
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        }
        let id = self.objects.fresh_id();
        let thread = thread::number();
        let (origin, made) = (stream, tail.is_none());
        let (invalid, lost) = (false, Vec::new());
        let capture = Capture { graph, made, id, mode, origin, thread, invalid, lost };
        let capture = self.objects.captures.insert(capture);
        let tail = tail.unwrap_or_default();
        self.objects.streams.get_mut(stream)?.capture = Some((capture, tail));
        Ok(())
    }

    fn end_capture(&mut self, stream: u64) -> Answer<u64> {
        let Some((number, tail)) = self.objects.streams.get(stream)?.capture.clone() else {
            return Err(CUresult::CUDA_ERROR_ILLEGAL_STATE);
        };
        let capture = self.objects.captures.get(number)?;
        if capture.origin != stream {
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
        }
        if capture.mode != RELAXED && capture.thread != thread::number() {
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
        }
        self.finish_capture(number, &tail)
    }

    /// Removes a capture whose stream has reached `tail`, and returns its graph.
    fn finish_capture(&mut self, number: u64, tail: &[u64]) -> Answer<u64> {
        let capture = self.objects.captures.get(number)?;
        let (graph, invalid, made) = (capture.graph, capture.invalid, capture.made);
        // Streams that joined the capture must have been joined again, destroyed ones too: all their nodes lie before
        // the tail.
        let before = self.ancestors(tail);
        let mut unjoined = capture.lost.iter().any(|node| !before.contains(node));
        for other in self.objects.streams.values_mut() {
            if let Some((of, nodes)) = &other.capture
                && *of == number
            {
                unjoined |= nodes.iter().any(|node| !before.contains(node));
                other.capture = None;
            }
        }
        self.objects.captures.remove(number)?;
        for event in self.objects.events.values_mut() {
            if event.captured.as_ref().is_some_and(|(of, _)| *of == number) {
                event.captured = None;
            }
        }
        if invalid || unjoined {
            if made {
                self.remove_graph(graph);
            }
            return Err(match invalid {
                true => CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
                false => CUresult::CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
            });
        }
        Ok(graph)
    }

    /// Ends the capture of an origin that is destroyed: no later call can. Of another stream the capture keeps the last
    /// nodes, since the origin must have joined them when the capture ends.
    pub(in crate::driver) fn abandon_capture(&mut self, stream: u64) {
        let Ok(this) = self.objects.streams.get(stream) else { return };
        let Some((number, tail)) = this.capture.clone() else { return };
        let Ok(capture) = self.objects.captures.get_mut(number) else { return };
        if capture.origin != stream {
            capture.lost.extend(tail);
            return;
        }
        capture.invalid = true;
        // The error of `finish_capture` is known.
        let _ = self.finish_capture(number, &tail);
    }

    /// Returns a stream's capture status and id.
    fn capture_status(&self, stream: u64) -> Answer<(CUstreamCaptureStatus, u64, u64)> {
        let Some((capture, _)) = &self.objects.streams.get(stream)?.capture else {
            return Ok((CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE, 0, 0));
        };
        let capture = self.objects.captures.get(*capture)?;
        let status = if capture.invalid {
            CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_INVALIDATED
        } else {
            CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE
        };
        Ok((status, capture.id, capture.graph))
    }
}

fn begin(stream: CUstream, mode: u32) -> Answer {
    let mut state = process()?.lock();
    let stream = state.stream(stream)?;
    let graph = state.new_graph();
    let begun = state.begin_capture(stream, mode, graph, None);
    if begun.is_err() {
        state.remove_graph(graph);
    }
    begun
}

/// # Safety
/// Each place is null or valid for the write.
unsafe fn info(
    stream: CUstream,
    status: *mut CUstreamCaptureStatus,
    id: *mut cuuint64_t,
    graph: *mut CUgraph,
    dependencies: *mut *const CUgraphNode,
    count: *mut usize,
) -> Answer {
    let mut state = process()?.lock();
    let stream = state.stream(stream)?;
    state.implicit_in_query(stream)?;
    let (now, number, of) = state.capture_status(stream)?;
    // SAFETY: the caller's promise.
    unsafe {
        put(status, now)?;
        if now == CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE {
            put_if_wanted(id, number);
            put_if_wanted(graph, handle(of));
            let this = state.objects.streams.get_mut(stream)?;
            let nodes = this.capture.as_ref().map(|(_, nodes)| nodes.as_slice());
            // The pointer is valid until the next captured call, as the header says.
            this.told = nodes.unwrap_or_default().iter().map(|&node| node as usize).collect();
            put_if_wanted(count, this.told.len());
            put_if_wanted(dependencies, this.told.as_ptr().cast());
        }
    }
    Ok(())
}

/// # Safety
/// `nodes` is valid for the read of `count` handles.
unsafe fn update(stream: CUstream, nodes: *mut CUgraphNode, count: usize, flags: c_uint) -> Answer {
    let mut state = process()?.lock();
    let stream = state.stream(stream)?;
    // SAFETY: the caller's promise.
    let new = unsafe { list(nodes.cast_const(), count) }?;
    let Some((capture, tail)) = state.objects.streams.get(stream)?.capture.clone() else {
        return Err(CUresult::CUDA_ERROR_ILLEGAL_STATE);
    };
    let graph = state.capturing(capture)?;
    for &node in &new {
        if state.objects.nodes.get(node)?.graph != graph {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
    }
    let tail = match flags {
        0 => tail.into_iter().chain(new).collect(),
        1 => new,
        _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    };
    state.objects.streams.get_mut(stream)?.capture = Some((capture, tail));
    Ok(())
}

functions! {
    Device fn cuStreamBeginCapture(stream: CUstream) { begin(stream, GLOBAL) }
    Device fn cuStreamBeginCapture_v2(stream: CUstream, mode: CUstreamCaptureMode) {
        begin(stream, mode.0)
    }
    Device fn cuStreamBeginCaptureToGraph(
        stream: CUstream, graph: CUgraph, dependencies: *const CUgraphNode,
        _edges: *const CUgraphEdgeData, count: usize, mode: CUstreamCaptureMode
    ) {
        let nodes = list(dependencies, count)?;
        let mut state = process()?.lock();
        let stream = state.stream(stream)?;
        state.objects.graphs.get(number(graph))?;
        state.begin_capture(stream, mode.0, number(graph), Some(nodes))
    }
    Device fn cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph) {
        let mut state = process()?.lock();
        let stream = state.stream(stream)?;
        let capture = state.objects.streams.get(stream)?.capture.as_ref();
        let capture = capture.and_then(|&(number, _)| state.objects.captures.get(number).ok());
        let makes = capture.is_none_or(|capture| capture.made);
        match state.end_capture(stream) {
            // The program has the graph that it captured into.
            Ok(_) if graph.is_null() && !makes => Ok(()),
            Ok(made) => put(graph, handle(made)),
            Err(code) => {
                put_if_wanted(graph, core::ptr::null_mut());
                Err(code)
            }
        }
    }
    Device fn cuStreamIsCapturing(stream: CUstream, status: *mut CUstreamCaptureStatus) {
        let mut state = process()?.lock();
        let stream = state.stream(stream)?;
        state.implicit_in_query(stream)?;
        put(status, state.capture_status(stream)?.0)
    }
    Device fn cuStreamGetCaptureInfo(
        stream: CUstream, status: *mut CUstreamCaptureStatus, id: *mut cuuint64_t
    ) {
        let none = core::ptr::null_mut();
        info(stream, status, id, none, core::ptr::null_mut(), core::ptr::null_mut())
    }
    Device fn cuStreamGetCaptureInfo_v2(
        stream: CUstream, status: *mut CUstreamCaptureStatus, id: *mut cuuint64_t,
        graph: *mut CUgraph, dependencies: *mut *const CUgraphNode, count: *mut usize
    ) { info(stream, status, id, graph, dependencies, count) }
    Device fn cuStreamGetCaptureInfo_v3(
        stream: CUstream, status: *mut CUstreamCaptureStatus, id: *mut cuuint64_t,
        graph: *mut CUgraph, dependencies: *mut *const CUgraphNode,
        edges: *mut *const CUgraphEdgeData, count: *mut usize
    ) {
        // No edge has data.
        put_if_wanted(edges, core::ptr::null());
        info(stream, status, id, graph, dependencies, count)
    }
    Device fn cuStreamUpdateCaptureDependencies(
        stream: CUstream, nodes: *mut CUgraphNode, count: usize, flags: c_uint
    ) { update(stream, nodes, count, flags) }
    Device fn cuStreamUpdateCaptureDependencies_v2(
        stream: CUstream, nodes: *mut CUgraphNode, _edges: *const CUgraphEdgeData, count: usize,
        flags: c_uint
    ) { update(stream, nodes, count, flags) }
    Device fn cuThreadExchangeStreamCaptureMode(mode: *mut CUstreamCaptureMode) {
        if mode.is_null() || (*mode).0 > RELAXED {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let old = MODE.replace((*mode).0);
        put(mode, CUstreamCaptureMode(old))
    }
}
