// Rust's semantics in CUDA C++.
