//! Entry point of `kubectl-headroom`.

fn main() {}
