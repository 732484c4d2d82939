//! Headroom's vocabulary and pure rules: no runtime, clock or I/O.
