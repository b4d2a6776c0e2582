//! User code that may panic, and values of it whose drops may.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Catches panics. A panic's payload may panic in its drop: that panic is caught too, and its payload is not dropped.
pub(crate) fn quietly(act: impl FnOnce()) {
    if let Err(thrown) = catch_unwind(AssertUnwindSafe(act))
        && let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(thrown)))
    {
        std::mem::forget(again);
    }
}

/// A value of user code. A panic of its drop is caught, so that nothing that comes after the drop is skipped; the panic
/// hook has printed the message.
#[derive(Clone)]
pub(crate) struct Quiet<T>(Option<T>);

/// What keeps an object of other code alive.
pub(crate) type Token = Quiet<Box<dyn Any + Send + Sync>>;

/// Something that a graph keeps alive.
pub(crate) type Kept = Quiet<Arc<dyn Any + Send + Sync>>;

impl<T> Quiet<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Some(value))
    }
}

impl<T> Quiet<Box<T>>
where
    T: ?Sized,
{
    /// Returns the value, which is there until the drop.
    pub(crate) fn get(&self) -> Option<&T> {
        self.0.as_deref()
    }
}

impl Token {
    /// Returns a token that keeps nothing.
    pub(crate) fn none() -> Self {
        Self(None)
    }
}

#[allow(dead_code, reason = "tensors ask, which are a feature")]
impl<T: std::ops::Deref<Target = dyn Any + Send + Sync>> Quiet<T> {
    /// Returns whether the value is a `U`.
    pub(crate) fn is<U: 'static>(&self) -> bool {
        self.0.as_deref().is_some_and(|value| value.is::<U>())
    }
}

impl Kept {
    /// Returns whether both are handles to one value.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::as_ptr(one).addr() == Arc::as_ptr(other).addr(),
            _ => false,
        }
    }
}

impl<T> Drop for Quiet<T> {
    fn drop(&mut self) {
        let value = self.0.take();
        quietly(|| drop(value));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    struct Bomb(Arc<AtomicUsize>);

    impl Drop for Bomb {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
            std::panic::resume_unwind(Box::new("on purpose"));
        }
    }

    #[test]
    fn drops_that_panic_skip_nothing() {
        let drops = Arc::new(AtomicUsize::new(0));
        let token = |drops: &Arc<AtomicUsize>| Token::new(Box::new(Bomb(drops.clone())));
        drop([token(&drops), token(&drops), token(&drops)]);
        assert_eq!(drops.load(Ordering::SeqCst), 3);
        // While the thread unwinds, too.
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let _token = token(&drops);
            std::panic::resume_unwind(Box::new("first"));
        }));
        let thrown = unwound.err().and_then(|thrown| thrown.downcast_ref::<&str>().copied());
        assert_eq!((thrown, drops.load(Ordering::SeqCst)), (Some("first"), 4));
        let kept = Kept::new(Arc::new(Bomb(drops.clone())));
        let again = kept.clone();
        assert!(kept.is_same(&again) && again.is::<Bomb>() && !again.is::<u8>());
        drop(kept);
        assert_eq!(drops.load(Ordering::SeqCst), 4, "another handle is left");
        drop(again);
        assert_eq!(drops.load(Ordering::SeqCst), 5);
    }
}
