//! Entry point of `headroom-agent-ebpf`.

fn main() {}
