//! Keeps the view of a loop's flag that the body is given, and the state of a closure, past their end.
//!
//! - row: bodies of conditional nodes count
//! - row: what its closures have borrowed stays borrowed
//! - targets: `Stream::record_while`, `Context::capture`
//! - must: not compile E0521 "escapes the closure body"

use cuda_safe::{Context, DeviceBuffer, Result};

pub fn attack(context: &Context, x: DeviceBuffer<u32>, mut flag: DeviceBuffer<u32>) -> Result<usize> {
    let mut view = None;
    let mut state = None;
    view.get_or_insert(flag.as_slice());
    state.get_or_insert(&x);
    let other = x.try_clone(x.home_stream())?;
    let graph = context.capture((other, flag.try_clone(flag.home_stream())?), |s, (x, flag)| {
        state = Some(&*x); //~ refused
        let _ = &x;
        s.record_while(&mut *flag, |_, _more| {
            view = Some(_more.as_slice()); //~ refused
            Ok(())
        })
    })?;
    drop(graph);
    Ok(view.map_or(0, |view| view.len()) + state.map_or(0, |x| x.len()))
}
