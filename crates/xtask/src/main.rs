//! Entry point of `xtask`.

fn main() {}
