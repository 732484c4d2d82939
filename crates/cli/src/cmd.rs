//! One file for each command.

pub(crate) mod advise;
pub(crate) mod agent;
pub(crate) mod explain;
pub(crate) mod hints;
pub(crate) mod node;
pub(crate) mod off;
pub(crate) mod top;

#[cfg(test)]
mod tests;
