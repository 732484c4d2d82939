//! One file for each command.

pub(crate) mod hints;
pub(crate) mod node;
pub(crate) mod top;

#[cfg(test)]
mod tests;
