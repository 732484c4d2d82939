//! `cargo xtask test`.
use anyhow::Result;
/// x
#[derive(Debug, clap::Args)]
pub struct Test {}
impl Test {
    /// x
    /// # Errors
    /// x
    pub fn run(&self) -> Result<()> {
        Ok(())
    }
}
