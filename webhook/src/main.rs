//! Entry point of `headroom-webhook`.

fn main() {}
