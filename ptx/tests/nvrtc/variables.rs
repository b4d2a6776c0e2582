//! The results of the analysis on the compilers' PTX.

use std::error::Error;
use std::path::PathBuf;

use nvrtc::{Arch, Cache, Nvrtc, Options, Program};
use ptx::variables::Reached;

/// A program, and for each kernel the variables that it must be found to read (`r`) and to write (`w`).
/// Names are those of the C++ source; `$str` matches every string.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    source: &'static str,
    wanted: &'static [(&'static str, &'static str)],
}

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "scalar",
        source: r#"
            __device__ unsigned counter; static __device__ int hidden;
            extern "C" __global__ void take(unsigned* x, unsigned n) { x[threadIdx.x] = counter + hidden; }
            extern "C" __global__ void set(unsigned v) { counter = v; }
            extern "C" __global__ void add(unsigned v) { atomicAdd(&counter, v); hidden += 1; }
            extern "C" __global__ void none(unsigned* x) { x[threadIdx.x] = 1; }"#,
        wanted: &[
            ("take", "counter r, hidden r"),
            ("set", "counter w"),
            ("add", "counter w, hidden w"),
            ("none", ""),
        ],
    },
    Case {
        name: "array",
        source: r#"
            __device__ float table[256]; __constant__ float weights[16];
            extern "C" __global__ void read(float* x, int i) { x[0] = table[i] * weights[i & 15]; }
            extern "C" __global__ void write(const float* x, int i) { table[threadIdx.x + i] = x[0]; }"#,
        wanted: &[("read", "table r, weights r"), ("write", "table w")],
    },
    Case {
        name: "structure",
        source: r#"
            struct State { int a; float b[4]; double c; };
            __device__ State state;
            extern "C" __global__ void whole(State* out) { *out = state; }
            extern "C" __global__ void field(int i) { state.b[i] = 1.0f; }"#,
        wanted: &[("whole", "state r"), ("field", "state w")],
    },
    Case {
        name: "pointer",
        source: r#"
            __device__ int target; __device__ int* pointer = &target; __device__ int* other;
            extern "C" __global__ void follow() { *pointer = 5; }
            extern "C" __global__ void point() { other = &target; }
            extern "C" __global__ void load(int** x) { x[0] = pointer; }"#,
        wanted: &[
            ("follow", "target w, pointer r"),
            ("point", "target w, other w"),
            // The address that it copies is out of sight from then on.
            ("load", "target w, pointer r"),
        ],
    },
    Case {
        name: "functions",
        source: r#"
            __device__ int depth; __device__ int leaf; __device__ int kept;
            __device__ __noinline__ int count(const int* x) { return *x + 1; }
            __device__ __noinline__ void bump(int* x) { *x += 1; }
            __device__ __noinline__ int walk(int n) { if (n < 2) { leaf = n; return n; } return walk(n - 1) + walk(n - 2) + depth; }
            extern "C" __global__ void reads(int* x) { x[0] = count(&kept); }
            extern "C" __global__ void writes() { bump(&depth); }
            extern "C" __global__ void recursive(int* x, int n) { x[0] = walk(n); }"#,
        wanted: &[("reads", "kept r"), ("writes", "depth w"), ("recursive", "depth r, leaf w")],
    },
    Case {
        name: "table",
        source: r#"
            __device__ int a; __device__ int b; __device__ int apart;
            __device__ int get(int n) { return a + n; }
            __device__ int set(int n) { b = n; return n; }
            typedef int (*Function)(int);
            __device__ Function table[2] = { get, set };
            extern "C" __global__ void call(int* x, int i) { x[0] = table[i](3); }
            extern "C" __global__ void none(int* x) { x[0] = apart; }"#,
        wanted: &[("call", "a r, b w, table r"), ("none", "apart r")],
    },
    Case {
        name: "printf",
        source: r#"
            __device__ int level;
            extern "C" __global__ void print(int n) { printf("n = %d of %d\n", n, level); }
            extern "C" __global__ void quiet(int* x) { x[0] = 1; }"#,
        wanted: &[("print", "level r, $str r"), ("quiet", "")],
    },
    Case {
        name: "template",
        source: r#"
            template <class T> __device__ T cell;
            template <class T> __device__ T bump(T by) { cell<T> += by; return cell<T>; }
            extern "C" __global__ void ints(int* x) { x[0] = bump<int>(1); }
            extern "C" __global__ void floats(float* x) { x[0] = bump<float>(1.0f); }"#,
        wanted: &[("ints", "4cellIiE w"), ("floats", "4cellIfE w")],
    },
    Case {
        name: "virtual",
        source: r#"
            __device__ int seen;
            struct Base { __device__ virtual void run() = 0; };
            struct One : Base { __device__ void run() override { seen = 1; } };
            extern "C" __global__ void make(void* at) { new (at) One(); }
            extern "C" __global__ void use(Base* at) { at->run(); }"#,
        wanted: &[("make", "_ZTV3One w"), ("use", "seen w, _ZTV3One r")],
    },
];

/// Compiles a case and compares what is found: nothing less may be, and in code that is optimised
/// nothing more.
pub(crate) fn check(
    folder: &PathBuf,
    case: &Case,
    arch: &str,
    options: Options,
    exact: bool,
) -> Result<(), Box<dyn Error>> {
    // SAFETY: `cargo xtask setup` has filled the folder with NVIDIA's library.
    let library = unsafe { Nvrtc::at(folder) }?;
    let image = Program::new(case.source)
        .name("variables.cu")
        .library(&library)
        .cache(&Cache::off())
        .options(options)
        .compile(arch.parse::<Arch>()?)?;
    let text = image.ptx.ok_or("no PTX")?;
    let reached = Reached::of_text(&text)?;
    assert_eq!(reached.kernels, Reached::of(&ptx::parse(&text)?).kernels);
    for (kernel, wanted) in case.wanted {
        let found: Vec<(&str, bool)> = reached
            .uses(kernel)
            .iter()
            .map(|used| (reached.variables[used.variable].as_str(), used.writes))
            .collect();
        let wanted = wanted.split(", ").filter(|each| !each.is_empty());
        let wanted: Vec<(&str, bool)> = wanted
            .filter_map(|each| each.split_once(' '))
            .map(|(name, access)| (name, access == "w"))
            .collect();
        let shown = || format!("{kernel} reaches {found:?}, expected {wanted:?}\n{text}");
        for (name, writes) in &wanted {
            let is = |found: &&(&str, bool)| is_named(found.0, name) && (found.1 || !writes);
            if !found.iter().any(|each| is(&each)) {
                return Err(shown().into());
            }
        }
        let more = found.iter().any(|(name, writes)| {
            let known =
                |(wanted, written): &(&str, bool)| is_named(name, wanted) && (*written || !writes);
            !wanted.iter().any(known)
        });
        if exact && more {
            return Err(shown().into());
        }
    }
    Ok(())
}

/// Returns whether a name of the image belongs to the name in the source: a static variable's is mangled.
fn is_named(image: &str, source: &str) -> bool {
    image == source
        || (source == "$str" && image.starts_with("$str"))
        || image.ends_with(&format!("{}{source}", source.len()))
        || image.ends_with(source)
        || image.contains(source) && source.starts_with("4cell")
}
