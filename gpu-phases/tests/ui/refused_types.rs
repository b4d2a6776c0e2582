use gpu_phases::{Device, Real, device};

#[derive(Clone, Copy, Device)]
#[repr(C)]
struct Generic<T: Real>(T);

#[derive(Clone, Copy, Device)]
struct NoLayout {
    x: f32,
}

#[derive(Clone, Copy, Device)]
#[repr(C, packed)]
struct Packed {
    x: f32,
}

#[derive(Clone, Copy, Device)]
#[repr(C)]
struct Empty;

#[derive(Clone, Copy, Device)]
#[repr(C)]
struct Reference {
    x: &'static f32,
}

#[derive(Clone, Copy, Device)]
#[repr(C)]
struct Lifetime<'a> {
    x: std::marker::PhantomData<&'a f32>,
}

#[derive(Clone, Copy, Device)]
#[repr(C)]
union Union {
    x: f32,
    y: u32,
}

#[derive(Clone, Copy, PartialEq, Device)]
enum NoTag {
    A,
}

#[derive(Clone, Copy, PartialEq, Device)]
#[repr(u8)]
enum Values {
    A(&'static f32),
}

#[derive(Clone, Copy, PartialEq, Device)]
#[repr(u8)]
enum NoVariant {}

#[derive(Clone, Copy)]
struct P(f32);

#[device]
impl P {
    fn len(self) -> usize {
        1
    }
}

#[device]
impl P {
    fn unwrap(self) -> f32 {
        self.0
    }
}

#[device]
impl P {
    fn load(&self, i: usize) -> f32 {
        self.0
    }
}

#[device]
impl P {
    fn min(&mut self, x: f32) -> f32 {
        self.0 = x;
        x
    }
}

#[device]
impl P {
    fn max<T: Real>(self, x: T) -> T {
        x
    }
}

#[device]
impl P {
    fn again(self) -> f32 {
        self.again()
    }
}

#[device]
impl P {
    type T = f32;
}

#[device(slot = 9)]
impl P {}

#[device]
impl Clone for P {
    fn clone(&self) -> P {
        *self
    }
}

#[device]
impl std::ops::Add<&P> for P {
    type Output = P;

    fn add(self, other: &P) -> P {
        self
    }
}

#[device]
impl std::ops::Neg for &P {
    type Output = P;

    fn neg(self) -> P {
        *self
    }
}

#[device(references)]
impl std::ops::Add for Generic<f32> {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self
    }
}

#[device(references)]
impl P {
    fn of_references(self) -> P {
        self
    }
}

#[device]
impl P {
    fn map(self) -> P {
        self
    }
}

#[device]
impl P {
    #[cfg(test)]
    fn has_cfg(self) -> f32 {
        1.0
    }
}

#[device]
fn method(self) -> f32 {
    0.0
}

#[device]
impl P {
    fn hypot(self, other: &Self) -> f32 {
        self.0 + other.0
    }
}

#[derive(Clone, Copy, Device)]
#[repr(C)]
struct Walk {
    left: u32,
}

#[device]
impl Walk {
    fn even(self) -> bool {
        self.left == 0 || self.odd()
    }

    fn odd(self) -> bool {
        Self::even(Self { left: self.left - 1 })
    }
}

fn main() {}
