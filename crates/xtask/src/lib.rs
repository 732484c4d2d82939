//! cargo xtask: set-up, control plane, demo, tests, generated files, benches.
