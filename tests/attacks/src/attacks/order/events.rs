//! Attacks on events, marks and waits between streams, which are seen in the order of host functions.

use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use cuda_safe::{Context, DeviceBuffer, Event, Result, Stream};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use crate::lab::Lab;

/// The order in which host functions have run.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<u32>>>);

impl Notes {
    fn note(&self, stream: &Stream, number: u32) -> Result<()> {
        let notes = self.0.clone();
        stream.host_function(move || {
            if number.is_multiple_of(2) {
                std::thread::sleep(Duration::from_micros(300));
            }
            notes.lock().unwrap_or_else(PoisonError::into_inner).push(number);
        })
    }

    fn take(&self) -> Vec<u32> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Records an event again on an idle stream, drops it, or closes it, after another stream was made to wait for it.
///
/// - row: work that uses the same bytes
/// - targets: `Event::new`, `Event::timing`, `Event::record`, `Event::close`, `Stream::wait_event`
pub(super) fn events_that_change_after_a_wait(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let (a, b, idle) = (context.stream()?, context.stream()?, context.stream()?);
    let notes = Notes::default();
    for round in 0..20 {
        let event = if round % 2 == 0 { Event::new(&context)? } else { Event::timing(&context)? };
        if lab.variant() == "never" {
            ensure!(event.is_done()?, "an event that was never recorded is not done");
            event.synchronize()?;
            b.wait_event(&event)?;
            notes.note(&b, 1)?;
            b.synchronize()?;
            ensure_eq!(notes.take(), [1]);
            continue;
        }
        notes.note(&a, 0)?;
        event.record(&a)?;
        b.wait_event(&event)?;
        match lab.variant() {
            "recorded" => event.record(&idle)?,
            "dropped" => drop(event),
            _ => ensure!(event.close().is_ok(), "an event in use can be closed"),
        }
        notes.note(&b, 1)?;
        b.synchronize()?;
        ensure_eq!(notes.take(), [0, 1], "round {round}");
    }
    Ok(())
}

/// Waits for marks of streams whose other handles are gone, from other threads too.
///
/// - row: a stream waits only for what it does not wait for already
/// - row: a thread may end at any time
/// - targets: `Stream::mark`, `Mark::stream`, `Mark::synchronize`, `Stream::wait_mark`, `Stream::new`, `Stream::close`
pub(super) fn marks_of_streams_that_are_gone(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let b = Stream::new(&context)?;
    let notes = Notes::default();
    for round in 0..20 {
        let a = Stream::new(&context)?;
        notes.note(&a, 0)?;
        let mark = a.mark()?;
        notes.note(&a, 2)?;
        let later = a.mark()?;
        ensure!(mark.index() < later.index(), "marks of a stream have no order");
        ensure!(a.close().is_err(), "a stream was closed under its marks");
        b.wait_mark(&later)?;
        b.wait_mark(&mark)?;
        notes.note(mark.stream(), 4)?;
        let last = mark.stream().mark()?;
        let waited =
            std::thread::scope(|scope| scope.spawn(move || mark.clone().synchronize()).join());
        waited.map_err(|_| Failure::new("a thread panicked"))??;
        notes.note(&b, 1)?;
        b.synchronize()?;
        last.synchronize()?;
        let seen = notes.take();
        let place = |number| seen.iter().position(|seen| *seen == number);
        ensure!(seen.len() == 4, "round {round}: {seen:?}");
        ensure!(place(0) < place(2) && place(2) < place(1), "round {round}: {seen:?}");
    }
    Ok(())
}

/// Lets a stream wait for marks, events and streams of another device.
///
/// - row: handles of different contexts or drivers do not mix
/// - targets: `Stream::mark`, `Stream::wait_mark`, `Stream::wait_stream`, `Event::new`
pub(super) fn waits_for_another_device(lab: &Lab) -> TestResult {
    let (a, b) = (lab.context_of(0)?.stream()?, lab.context_of(1)?.stream()?);
    let notes = Notes::default();
    for _ in 0..10 {
        notes.note(&a, 0)?;
        let waits = match lab.variant() {
            "mark" => b.wait_mark(&a.mark()?),
            "event" => {
                let event = Event::new(&a.context())?;
                event.record(&a)?;
                b.wait_event(&event)
            }
            _ => b.wait_stream(&a),
        };
        notes.note(&b, 1)?;
        b.synchronize()?;
        match waits {
            Ok(()) => ensure_eq!(notes.take(), [0, 1]),
            refused => lab.refused(refused, "context")?,
        }
        a.synchronize()?;
        notes.take();
    }
    Ok(())
}

/// Makes streams wait for each other and for themselves, again and again.
///
/// - row: a stream waits only for what it does not wait for already
/// - targets: `Stream::wait_stream`, `Stream::with_priority`, `Stream::mark`
pub(super) fn streams_that_wait_in_a_ring(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let (least, most) = context.device().stream_priorities()?;
    let streams = [i32::MIN, 0, i32::MAX].map(|priority| Stream::with_priority(&context, priority));
    let streams = streams.into_iter().collect::<Result<Vec<_>>>()?;
    let notes = Notes::default();
    for (round, stream) in streams.iter().cycle().take(60).enumerate() {
        ensure!((most..=least).contains(&stream.priority()?), "{}", stream.priority()?);
        let next = &streams[(round + 1) % 3];
        stream.wait_stream(next)?;
        stream.wait_stream(stream)?;
        stream.wait_mark(&stream.mark()?)?;
        notes.note(stream, round as u32)?;
        next.wait_stream(stream)?;
    }
    for stream in &streams {
        stream.synchronize()?;
        ensure!(stream.is_done()?, "a stream that was waited for is not done");
    }
    ensure_eq!(notes.take(), (0..60).collect::<Vec<u32>>());
    Ok(())
}

fn captured_event(context: &Context, x: &mut DeviceBuffer<u32>, fails: bool) -> Result<Event> {
    let event = Event::new(context)?;
    let captured = context.capture(x, |stream, x| {
        x.fill(stream, 1)?;
        event.record(stream)?;
        match fails {
            true => Err(cuda_safe::Error::invalid("on purpose")),
            false => x.fill(stream, 2),
        }
    });
    assert_eq!(captured.is_err(), fails);
    drop(captured);
    Ok(event)
}

/// Uses an event that was recorded in a capture, after the capture has ended or failed, outside and in another one.
///
/// - row: a capture is not spoilt by safe calls
/// - row: a stream of a recording that has ended does nothing
/// - targets: `Event::record`, `Stream::wait_event`, `Event::elapsed_ms`, `Context::capture`
pub(super) fn events_of_ended_captures(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let mut x = DeviceBuffer::<u32>::zeroed(&stream, 100)?;
    let event = captured_event(&context, &mut x, lab.variant() == "failed")?;
    lab.refused(stream.wait_event(&event), "record")?;
    // Whatever they return, they must not be spoilt by a driver that has lost the capture.
    for result in [event.synchronize(), event.is_done().map(drop)] {
        if result.is_err() {
            lab.refused(result, "record")?;
        }
    }
    let outside = Event::new(&context)?;
    outside.record(&stream)?;
    let mut graph = context.capture(x, |recording, x| {
        lab.refused(recording.wait_event(&event), "record")
            .and_then(|()| lab.refused(recording.wait_event(&outside), "record"))
            .map_err(|failure| cuda_safe::Error::invalid(failure.to_string()))?;
        x.fill(recording, 7)
    })?;
    graph.launch(&stream)?;
    event.record(&stream)?;
    let other = context.stream()?;
    other.wait_event(&event)?;
    event.synchronize()?;
    ensure!(event.is_done()?, "an event that was waited for is not done");
    ensure_eq!(graph.state().to_vec(&other)?, [7; 100]);
    Ok(())
}

/// Measures time between events that measure none, were never recorded, or belong to another device.
///
/// - row: handles of different contexts or drivers do not mix
/// - row: no answer of the driver makes the crate panic
/// - targets: `Event::timing`, `Event::elapsed_ms`, `Event::record`
pub(super) fn time_between_unlike_events(lab: &Lab) -> TestResult {
    let (context, stranger) = (lab.context()?, lab.context_of(1)?);
    let stream = context.stream()?;
    let (begin, end) = (Event::timing(&context)?, Event::timing(&context)?);
    ensure!(begin.elapsed_ms(&end).is_err(), "events that were never recorded");
    begin.record(&stream)?;
    ensure!(begin.elapsed_ms(&end).is_err(), "an end that was never recorded");
    let plain = Event::new(&context)?;
    plain.record(&stream)?;
    lab.refused(begin.elapsed_ms(&plain), "time")?;
    lab.refused(plain.elapsed_ms(&begin), "time")?;
    let elsewhere = Event::timing(&stranger)?;
    elsewhere.record(&stranger.stream()?)?;
    lab.refused(begin.elapsed_ms(&elsewhere), "context")?;
    stream.host_function(|| std::thread::sleep(Duration::from_millis(2)))?;
    end.record(&stream)?;
    let (forth, back) = (begin.elapsed_ms(&end)?, end.elapsed_ms(&begin)?);
    ensure!(forth >= 0.0 && back <= 0.0 && begin.elapsed_ms(&begin)? == 0.0, "{forth} {back}");
    Ok(())
}

/// Records an event again, behind work that does not end, while another thread measures the time from it.
///
/// - row: no answer of the driver makes the crate panic
/// - targets: `Event::timing`, `Event::elapsed_ms`, `Event::record`
pub(super) fn recorded_again_while_measured(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let (a, b) = (context.stream()?, context.stream()?);
    let (begin, end) = (Event::timing(&context)?, Event::timing(&context)?);
    let mut measured = Ok(0.0);
    for _ in 0..5 {
        begin.record(&a)?;
        begin.synchronize()?;
        let (end_may_come, waiting) = mpsc::channel::<()>();
        a.host_function(move || {
            let _ = waiting.recv();
        })?;
        end.record(&a)?;
        let (begin_may_come, waiting) = mpsc::channel::<()>();
        measured = std::thread::scope(|scope| {
            let measuring = scope.spawn(|| begin.elapsed_ms(&end));
            std::thread::sleep(Duration::from_millis(200));
            // If the other thread begins only now, it waits for this.
            b.host_function(move || {
                let _ = waiting.recv_timeout(Duration::from_secs(2));
            })?;
            begin.record(&b)?;
            drop(end_may_come);
            let measured = measuring.join();
            drop(begin_may_come);
            measured.map_err(|_| Failure::new("a thread panicked"))
        })?;
        b.synchronize()?;
        if measured.is_err() {
            break;
        }
    }
    lab.refused(measured, "recorded again")?;
    begin.record(&a)?;
    end.record(&a)?;
    ensure!(begin.elapsed_ms(&end)? >= 0.0);
    Ok(())
}
