//! Entry point of `headroom-agent`.

fn main() {}
