//! Events: marks in streams, to wait for and to take times.

use core::ffi::c_uint;

use cuda_sys::{CUevent, CUevent_flags, CUresult, CUstream};

use super::work::Work;
use crate::driver::call::{Answer, functions, process, put};
use crate::driver::objects::{Event, handle, number};
use crate::driver::process::State;

/// `CU_EVENT_RECORD_EXTERNAL` and `CU_EVENT_WAIT_EXTERNAL`.
pub(in crate::driver) const EXTERNAL: c_uint = 1;

impl State {
    /// Records an event after the work of a stream.
    fn record_event(&mut self, stream: u64, event: u64, external: bool) -> Answer {
        let context = self.objects.streams.get(stream)?.context;
        if self.objects.events.get(event)?.context != context {
            return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
        }
        if let Some((capture, tail)) = self.objects.streams.get(stream)?.capture.clone() {
            self.capturing(capture)?;
            if external {
                return self.capture_event(stream, event, true);
            }
            self.objects.events.get_mut(event)?.captured = Some((capture, tail));
            return Ok(());
        }
        self.implicit_in_capture(stream)?;
        let record = self.enqueue(stream, Work::Record(event))?;
        let event = self.objects.events.get_mut(event)?;
        (event.record, event.time, event.captured) = (record, None, None);
        Ok(())
    }

    /// Makes a stream wait for an event, perhaps across a capture.
    pub(in crate::driver) fn wait_event(
        &mut self,
        stream: u64,
        event: u64,
        external: bool,
    ) -> Answer {
        let known = self.objects.events.get(event)?;
        let (record, captured) = (known.record, known.captured.clone());
        let capturing = self.objects.streams.get(stream)?.capture.clone();
        match (capturing, captured) {
            (Some(_), _) if external => self.capture_event(stream, event, false),
            (Some((capture, mut tail)), Some((other, nodes))) if capture == other => {
                self.capturing(capture)?;
                tail.extend(nodes.iter().filter(|node| !tail.contains(node)).collect::<Vec<_>>());
                self.objects.streams.get_mut(stream)?.capture = Some((capture, tail));
                Ok(())
            }
            (Some((capture, _)), Some((other, _))) => {
                self.capturing(capture)?;
                self.invalidate(capture);
                self.invalidate(other);
                Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_MERGE)
            }
            (Some((capture, _)), None) => {
                self.capturing(capture)?;
                // An event that was never recorded is no dependency of anything.
                if record == 0 {
                    return Ok(());
                }
                self.invalidate(capture);
                Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_ISOLATION)
            }
            (None, Some((capture, nodes))) if self.objects.captures.get(capture).is_ok() => {
                self.capturing(capture)?;
                if self.objects.streams.get(stream)?.legacy {
                    self.invalidate(capture);
                    return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
                }
                self.objects.streams.get_mut(stream)?.capture = Some((capture, nodes));
                Ok(())
            }
            (None, _) => {
                self.implicit_in_capture(stream)?;
                if self.engine.is_pending(record) {
                    self.enqueue_behind(stream, Work::Nothing, &[record])?;
                }
                Ok(())
            }
        }
    }
}

/// Records an event.
pub(in crate::driver) fn record(event: CUevent, stream: CUstream, flags: c_uint) -> Answer {
    if flags > EXTERNAL {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let process = process()?;
    let mut state = process.lock();
    let stream = state.stream(stream)?;
    state.record_event(stream, number(event), flags == EXTERNAL)?;
    let event = state.objects.events.get(number(event))?;
    let record = event.record;
    if event.is_interprocess() && event.captured.is_none() {
        // Another process cannot see whether the work is done.
        return process.wait_for(state, &[record]).map(drop);
    }
    process.kick();
    Ok(())
}

fn destroy(event: CUevent) -> Answer {
    process()?.lock().objects.events.remove(number(event)).map(drop)
}

/// Milliseconds between two events.
fn elapsed(start: CUevent, end: CUevent) -> Answer<f32> {
    let process = process()?;
    let state = process.lock();
    let mut records = Vec::new();
    for event in [start, end] {
        let event = state.objects.events.get(number(event))?;
        if event.record == 0 || event.flags & CUevent_flags::CU_EVENT_DISABLE_TIMING.0 != 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
        }
        records.push(event.record);
    }
    if !process.is_done(state, &records)? {
        return Err(CUresult::CUDA_ERROR_NOT_READY);
    }
    let state = process.lock();
    let time = |event| -> Answer<_> {
        let event = state.objects.events.get(number(event))?;
        event.time.ok_or(CUresult::CUDA_ERROR_NOT_READY)
    };
    let (start, end) = (time(start)?, time(end)?);
    Ok(match end.checked_duration_since(start) {
        Some(duration) => duration.as_secs_f32() * 1e3,
        None => -start.duration_since(end).as_secs_f32() * 1e3,
    })
}

functions! {
    Device fn cuEventCreate(event: *mut CUevent, flags: c_uint) {
        let process = process()?;
        let mut state = process.lock();
        let context = state.current()?;
        let interprocess = CUevent_flags::CU_EVENT_INTERPROCESS.0;
        if flags > 7 || event.is_null() || flags & interprocess != 0 && flags & 2 == 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let new = Event { context, flags, record: 0, time: None, captured: None };
        put(event, handle(state.objects.events.insert(new)))
    }
    Device fn cuEventDestroy(event: CUevent) { destroy(event) }
    Device fn cuEventDestroy_v2(event: CUevent) { destroy(event) }
    Device fn cuEventRecord(event: CUevent, stream: CUstream) { record(event, stream, 0) }
    Device fn cuEventRecordWithFlags(event: CUevent, stream: CUstream, flags: c_uint) {
        record(event, stream, flags)
    }
    Device fn cuEventQuery(event: CUevent) {
        let process = process()?;
        let mut state = process.lock();
        let known = state.objects.events.get(number(event))?;
        let (captured, record) = (known.captured.is_some(), known.record);
        // Either error spoils a capture; the event's own state comes before that of the query.
        let allowed = state.forbidden_in_capture();
        if captured {
            return Err(CUresult::CUDA_ERROR_CAPTURED_EVENT);
        }
        allowed?;
        if process.is_done(state, &[record])? {
            process.flush();
            Ok(())
        } else {
            Err(CUresult::CUDA_ERROR_NOT_READY)
        }
    }
    Device fn cuEventSynchronize(event: CUevent) {
        let process = process()?;
        let mut state = process.lock();
        let known = state.objects.events.get(number(event))?;
        let (captured, record) = (known.captured.is_some(), known.record);
        // Either error spoils a capture; the event's own state comes before that of the query.
        let allowed = state.forbidden_in_capture();
        if captured {
            return Err(CUresult::CUDA_ERROR_CAPTURED_EVENT);
        }
        allowed?;
        process.wait_for(state, &[record]).map(drop)
    }
    Device fn cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent) {
        put(milliseconds, elapsed(start, end)?)
    }
    Device fn cuEventElapsedTime_v2(milliseconds: *mut f32, start: CUevent, end: CUevent) {
        put(milliseconds, elapsed(start, end)?)
    }
}
