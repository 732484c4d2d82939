//! Test program `node`: tests with pods on a real node. One program: linked once, shared set-up.
#![forbid(unsafe_code)]

mod bad_input;
mod end;
mod long;
mod pods;
mod product;
mod rollout;
