//! Type parameters list their instances, and a symbol tells instances apart.

use cuda_safe::{DeviceBuffer, LaunchConfig, Stream, kernels};

const SOURCE: &str = "";

kernels! {
    #[name = "grid_{}_{U}"]
    struct UnknownHole<T in [f32, f64]>;
    unsafe in SOURCE { safe fn count(radius: T); }
}

kernels! {
    #[name = "grid"]
    struct OneSymbol;
    unsafe in SOURCE { safe fn count(); }
}

kernels! {
    #[name = "grid_{}"]
    struct SameSymbol<T in [f32, f64]>;
    unsafe in SOURCE { safe fn count(radius: T); safe fn clear(); }
}

kernels! {
    unsafe in SOURCE {
        safe fn empty<T in []>(a: T);
        safe fn missing<T: Copy>(a: T);
        safe fn unnamed<T in [half::f16]>(a: T);
        safe fn number<T in [f32 = 32]>(a: T);
        safe fn twice<T in [u8, u8]>(a: T);
        safe fn same<T in [u8], T in [u8]>(a: T);
        safe fn constant<const N: usize>();
        safe fn lifetime<'a>(a: u8);
        #[name = "set_{V}"]
        safe fn hole<T in [u8]>(a: T);
        #[name = "set"]
        safe fn one_for_all<T in [u8, u16]>(a: T);
        #[name = "set_{T"]
        safe fn open<T in [u8, u16]>(a: T);
    }
}

mod good {
    cuda_safe::kernels! {
        pub struct Query<R: Copy in [f32, f64]>;
        unsafe in "" {
            safe fn count<T in [u8, u16]>(x: &[T], y: &[R]) where x.len() == 1, y.len() == 1;
        }
    }
}
use good::Query;

fn an_instance_in_the_place_of_another(k: &mut Query<f32>, other: Query<f64>) {
    *k = other;
}

fn elements_of_two_types(k: &Query<f32>, s: &Stream, l: LaunchConfig, x: &DeviceBuffer<u8>, y: &DeviceBuffer<f64>) {
    let _ = k.count::<u8>(s, l, x, y);
}

fn no_bound(k: &Query<String>) {
    let _ = k;
}

fn swapped(k: &mut Fields) {
    k.set.kernels.swap(0, 1);
    k.set = k.clear.clone();
}

kernels! {
    struct Fields;
    unsafe in SOURCE {
        safe fn set<T in [u8, u16]>(a: T);
        safe fn clear<T in [u8, u16]>(a: T);
    }
}

fn main() {}
